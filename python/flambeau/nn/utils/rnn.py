"""Sequences of different lengths: padding, packing and back."""
from collections import namedtuple
from collections.abc import Iterable

from ... import _C

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pad_packed_sequence", "pad_sequence", "unpad_sequence",
    "pack_sequence", "unpack_sequence",
]

PackedSequence_ = namedtuple("PackedSequence_", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])


def bind(optional, fn):
    """`fn` of a value, or None of None."""
    return None if optional is None else fn(optional)


class PackedSequence(PackedSequence_):
    """Sequences sorted by length, step by step: `data` (sum of lengths, ...), `batch_sizes` (longest length)."""

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. They "
                "should be instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn. "
                "https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def _moved(self, data, move):
        """The sequence with other data, its indices moved likewise."""
        return type(self)(data, self.batch_sizes, bind(self.sorted_indices, move), bind(self.unsorted_indices, move))

    def pin_memory(self):
        """A copy in pinned memory."""
        return self._moved(self.data.pin_memory(), lambda indices: indices.pin_memory())

    def to(self, *args, **kwargs):
        """The sequence with its data converted; indices follow to the device."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        others = {name: value for name, value in kwargs.items() if name not in ("device", "dtype")}
        return self._moved(data, lambda indices: indices.to(data.device, **others))

    def _to_kind(self, kind, args, kwargs):
        """`to`, on a device of a kind unless the arguments name one."""
        probe = _C.tensor((), dtype=self.data.dtype, device=self.data.device).to(*args, **kwargs)
        return self.to(*args, **({} if probe.device.type == kind else {"device": kind}), **kwargs)

    def cuda(self, *args, **kwargs):
        """The sequence on a CUDA device."""
        return self._to_kind("cuda", args, kwargs)

    def cpu(self, *args, **kwargs):
        """The sequence on the CPU."""
        return self._to_kind("cpu", args, kwargs)

    def double(self):
        """As float64."""
        return self.to(dtype=_C.double)

    def float(self):
        """As float32."""
        return self.to(dtype=_C.float)

    def half(self):
        """As float16."""
        return self.to(dtype=_C.half)

    def long(self):
        """As int64."""
        return self.to(dtype=_C.long)

    def int(self):
        """As int32."""
        return self.to(dtype=_C.int)

    def short(self):
        """As int16."""
        return self.to(dtype=_C.short)

    def char(self):
        """As int8."""
        return self.to(dtype=_C.int8)

    def byte(self):
        """As uint8."""
        return self.to(dtype=_C.uint8)

    @property
    def is_cuda(self):
        """Whether the data is on a CUDA device."""
        return self.data.is_cuda

    def is_pinned(self):
        """Whether the data is in pinned memory."""
        return self.data.is_pinned()


def invert_permutation(permutation):
    """The permutation that undoes one."""
    if permutation is None:
        return None
    places = _C.arange(len(permutation), dtype=permutation.dtype, device=permutation.device)
    return _C.empty_like(places).scatter_(0, permutation, places)


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Pack (T, N, *) (or (N, T, *)) with the given lengths."""
    if not isinstance(lengths, _C.Tensor):
        lengths = _C.as_tensor(lengths, dtype=_C.int64, device="cpu")
    else:
        lengths = lengths.to(dtype=_C.int64)
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = _C.sort(lengths, descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    data, batch_sizes = _C.ops.aten._pack_padded_sequence(input, lengths, batch_first)
    return PackedSequence(data, batch_sizes, sorted_indices, None)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """The padded batch (T, N, *) of a packed one, and the lengths."""
    longest = sequence.batch_sizes.size(0)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {longest}"
            )
        longest = total_length
    padded, lengths = _C.ops.aten._pad_packed_sequence(
        sequence.data, sequence.batch_sizes, batch_first, padding_value, longest
    )
    unsorted = sequence.unsorted_indices
    if unsorted is not None:
        return padded.index_select(0 if batch_first else 1, unsorted), lengths[unsorted.cpu()]
    return padded, lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Stack sequences (L, *) along a new dim, filled up to the longest: (T, N, *)."""
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    sequences = sequences.unbind(0) if isinstance(sequences, _C.Tensor) else tuple(sequences)
    return _C.ops.aten.pad_sequence(sequences, batch_first, padding_value, padding_side)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The sequences of a padded batch."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    steps = _C.arange(padded_sequences.shape[1], device=lengths.device)
    return [row[steps < length] for row, length in zip(padded_sequences, lengths, strict=True)]


def pack_sequence(sequences, enforce_sorted=True):
    """Pack a list of sequences (L, *)."""
    lengths = [len(sequence) for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), _C.as_tensor(lengths), enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The list of sequences in a packed one."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
