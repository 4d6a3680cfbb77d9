"""Nested tensors of the jagged layout: rows of all sequences in one tensor, and where each sequence starts."""
from itertools import count

from ... import _C
from ..._C import Tensor
from ..._size import Size
from ...utils.weak import WeakTensorKeyDictionary
from .nested_int import NestedInt

__all__ = ["NestedTensor", "get_tensor_symint", "jagged_from_list", "jagged_from_tensor_and_lengths", "nested_from_padded",
           "nested_view_from_values_offsets", "nested_view_from_values_offsets_lengths", "buffer_from_jagged"]

_tensor_id_counter = count(1)
_tensor_symint_registry = WeakTensorKeyDictionary()


def get_tensor_symint(tensor, *, coeff=1):
    """The size that a tensor of offsets or lengths stands for: the same for the same tensor."""
    size = _tensor_symint_registry.get(tensor)
    if size is None:
        size = _tensor_symint_registry[tensor] = NestedInt(next(_tensor_id_counter))
    return size if coeff == 1 else size * coeff


def tuple_of(shape):
    """A Size that may have a ragged dimension."""
    return tuple.__new__(Size, shape)


def _store_val_in_tensor(value):
    """A number as the size of an empty tensor: how files keep the least and the greatest length."""
    return _C.zeros((value, 0))


def _load_val_from_tensor(tensor):
    return tensor.shape[0]


def _forwarded(name, doc):
    """A property that is that of the values."""
    return property(lambda self: getattr(self._values, name), doc=doc)


class NestedTensor(Tensor):
    """`B` tensors that differ in one dimension, as `values` of shape `(*, total, *)` and `offsets` of shape `(B + 1,)`.

    `lengths`, of shape `(B,)`, are those of the sequences if there are holes after them. The outer shape is
    `(B, *, j, *)`, with the ragged `j` at `_ragged_idx`. What differentiates is `values`: this object only wraps it.
    """

    __module__ = "flambeau.nested._internal.nested_tensor"
    _stands_for_another = True

    @staticmethod
    def __new__(cls, values, offsets, *, lengths=None, **kwargs):
        if offsets is None:
            raise AssertionError("offsets must not be None")
        if offsets.dim() != 1:
            raise AssertionError(f"offsets must have 1 dimension, but got {offsets.dim()}")
        if isinstance(values, NestedTensor):
            raise AssertionError("values must not be nested")
        if lengths is not None and lengths.shape[0] != offsets.shape[0] - 1:
            raise AssertionError("offsets and lengths batch sizes must match: offsets.shape[0] - 1 = "
                                 f"{offsets.shape[0] - 1}, lengths.shape[0] = {lengths.shape[0]}")
        # A tensor without memory: whatever looks at it behind this class's back fails rather than compute nonsense.
        with _C.DisableTorchFunctionSubclass():
            self = _C.empty(0, dtype=values.dtype, device="meta").as_subclass(cls)
        ragged_idx = kwargs.get("_ragged_idx", 1)
        self._values, self._offsets, self._lengths, self._ragged_idx = values, offsets, lengths, ragged_idx
        self._metadata_cache = kwargs.get("_metadata_cache") or {}
        ragged = get_tensor_symint(offsets if lengths is None else lengths)
        batch = offsets.shape[0] - 1
        inner = tuple(values.shape)
        self._size = (batch, *inner[: ragged_idx - 1], ragged, *inner[ragged_idx:])
        strides = values.stride()
        self._strides = (ragged * strides[ragged_idx - 1], *strides)
        return self

    def __init__(self, *args, **kwargs):
        pass

    # ---- what it is made of

    def values(self):
        """The rows of all sequences, shape `(*, total, *)`; a view, so not a leaf."""
        values = self._values
        return values.view_as(values) if values.requires_grad and values.is_leaf else values

    def offsets(self):
        """Where each sequence starts in the values, and where the last ends; shape `(B + 1,)`."""
        return self._offsets

    def lengths(self):
        """The lengths of the sequences, shape `(B,)`, if there are holes after them; else None."""
        return self._lengths

    def sequence_lengths(self):
        """The length of each sequence, shape `(B,)`, whether there are holes or not."""
        return self._offsets.diff() if self._lengths is None else self._lengths

    def _extreme(self, name, pick):
        if name not in self._metadata_cache:
            lengths = self.sequence_lengths().tolist()
            self._metadata_cache[name] = pick(lengths) if lengths else 0
        kept = self._metadata_cache[name]
        return _load_val_from_tensor(kept) if isinstance(kept, Tensor) else kept

    def _get_min_seqlen(self):
        return self._extreme("min_seqlen", min)

    def _get_max_seqlen(self):
        return self._extreme("max_seqlen", max)

    _min_seqlen = property(_get_min_seqlen, doc="The least length.")
    _max_seqlen = property(_get_max_seqlen, doc="The greatest length.")
    _maybe_min_seqlen = property(lambda self: self._metadata_cache.get("min_seqlen") and self._min_seqlen)
    _maybe_max_seqlen = property(lambda self: self._metadata_cache.get("max_seqlen") and self._max_seqlen)

    def like(self, values, ragged_idx=None):
        """The same sequences with other values, which have the ragged dimension at `ragged_idx`."""
        return NestedTensor(values, self._offsets, lengths=self._lengths, _metadata_cache=self._metadata_cache,
                            _ragged_idx=self._ragged_idx if ragged_idx is None else ragged_idx)

    # ---- sizes

    shape = property(lambda self: tuple_of(self._size), doc="`(B, *, j, *)`")
    ndim = property(lambda self: len(self._size), doc="How many dimensions the outer shape has.")
    dtype = _forwarded("dtype", "The dtype of the values.")
    device = _forwarded("device", "The device of the values.")
    itemsize = _forwarded("itemsize", "Bytes of an element.")
    nbytes = _forwarded("nbytes", "Bytes of the values.")
    is_cpu = _forwarded("is_cpu", "Whether the values are on the CPU.")
    is_cuda = is_meta = is_sparse = is_sparse_csr = is_quantized = is_mkldnn = is_mps = is_xpu = property(lambda self: False)
    layout = property(lambda self: _C.jagged, doc="`torch.jagged`")
    is_nested = property(lambda self: True, doc="True")

    def size(self, dim=None):
        return self.shape if dim is None else self._size[_dim(self, dim)]

    def stride(self, dim=None):
        return self._strides if dim is None else self._strides[_dim(self, dim)]

    def dim(self):
        return len(self._size)

    ndimension = dim

    def numel(self):
        """How many elements the sequences have together."""
        if self._lengths is None:
            return self._values.numel()
        others = self._values.numel() // max(self._values.shape[self._ragged_idx - 1], 1)
        return int(self._lengths.sum()) * others

    nelement = numel

    def element_size(self):
        return self._values.element_size()

    def storage_offset(self):
        return 0

    def data_ptr(self):
        return 0

    def get_device(self):
        return self._values.get_device()

    def to_padded_tensor(self, padding, output_size=None):
        """A plain `(B, *, L, *)` tensor with `padding` where the sequences end; RuntimeError if there are holes."""
        from .ops import to_padded

        return to_padded(self, padding, output_size)

    def is_pinned(self, device=None):
        return self._values.is_pinned()

    def is_contiguous(self, memory_format=None):
        """Whether there are no holes and the values are contiguous."""
        return self._lengths is None and self._values.is_contiguous()

    def is_floating_point(self):
        return self._values.is_floating_point()

    def is_complex(self):
        return self._values.is_complex()

    def is_signed(self):
        return self._values.is_signed()

    def is_same_size(self, other):
        return tuple(self.shape) == tuple(other.shape)

    def __len__(self):
        return self._size[0]

    # ---- derivatives: those of the values

    @property
    def requires_grad(self):
        """Whether a gradient is wanted of the values."""
        return self._values.requires_grad

    @requires_grad.setter
    def requires_grad(self, wanted):
        self._values.requires_grad = wanted

    @property
    def grad(self):
        """The gradient of a leaf, nested alike; None before there is one."""
        grad = self._values.grad
        return None if grad is None else self.like(grad)

    @grad.setter
    def grad(self, grad):
        self._values.grad = grad._values if isinstance(grad, NestedTensor) else grad

    is_leaf = _forwarded("is_leaf", "Whether nothing was computed to get the values.")
    grad_fn = _forwarded("grad_fn", "What computed the values.")
    output_nr = _forwarded("output_nr", "Which result of `grad_fn` the values are.")
    retains_grad = _forwarded("retains_grad", "Whether the gradient is kept although this is not a leaf.")
    _version = _forwarded("_version", "How often the values were written to.")

    mT = property(lambda self: self.transpose(-2, -1), doc="The last two dims exchanged.")

    @property
    def T(self):
        """ValueError: the dim of the batch stays where it is."""
        return self.permute(*range(self.dim())[::-1])

    real = property(lambda self: self.like(self._values.real))
    imag = property(lambda self: self.like(self._values.imag))

    @property
    def data(self):
        """The same memory without history."""
        return self.like(self._values.data)

    @data.setter
    def data(self, other):
        self._values.data = other._values
        self._offsets, self._lengths, self._size, self._strides = (
            other._offsets, other._lengths, other._size, other._strides)

    def requires_grad_(self, requires_grad=True):
        self._values.requires_grad_(requires_grad)
        return self

    def retain_grad(self):
        self._values.retain_grad()

    def register_hook(self, hook):
        """Call `hook` with the gradient, nested alike; it may return another one."""

        def on_values(grad):
            changed = hook(self.like(grad))
            return changed._values if isinstance(changed, NestedTensor) else changed

        return self._values.register_hook(on_values)

    # ---- Python's protocols

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        from .ops import call

        return call(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents=None):
        history = ""
        if self.grad_fn is not None:
            history = f", grad_fn={self.grad_fn}"
        elif self.requires_grad:
            history = ", requires_grad=True"
        sizes = ", ".join(map(str, self._size))
        return (f"NestedTensor(size=({sizes}), offsets={self._offsets}{history}, "
                f"contiguous={self.is_contiguous()})")

    def __format__(self, spec):
        return object.__format__(self, spec)

    def __hash__(self):
        return id(self)

    def __iter__(self):
        return iter(self.unbind())

    def __bool__(self):
        if self.numel() != 1:
            raise RuntimeError("Boolean value of Tensor with no values is ambiguous" if self.numel() == 0 else
                               "Boolean value of Tensor with more than one value is ambiguous")
        return bool(self._values)

    def __getitem__(self, index):
        from .ops import item_of

        return item_of(self, index)

    def __setitem__(self, index, value):
        if isinstance(index, int):
            self.unbind()[index][...] = value
        elif isinstance(index, tuple) and index and isinstance(index[0], int):
            self.unbind()[index[0]][index[1:]] = value
        else:
            raise NotImplementedError("aten.index_put_.default")

    def item(self):
        return self._values.item()

    def tolist(self):
        raise RuntimeError(".tolist() is not supported for tensor subclasses, got NestedTensor")

    def numpy(self, *, force=False):
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    def __float__(self):
        return float(self._values)

    def __int__(self):
        return int(self._values)

    def __deepcopy__(self, memo):
        from copy import deepcopy

        copied = NestedTensor(deepcopy(self._values, memo), deepcopy(self._offsets, memo),
                              lengths=deepcopy(self._lengths, memo), _ragged_idx=self._ragged_idx,
                              _metadata_cache=dict(self._metadata_cache))
        memo[id(self)] = copied
        return copied

    def __copy__(self):
        return NestedTensor(self._values, self._offsets.view_as(self._offsets), lengths=self._lengths,
                            _ragged_idx=self._ragged_idx, _metadata_cache=dict(self._metadata_cache))

    def __reduce_ex__(self, protocol):
        cache = {name: value if isinstance(value, Tensor) else _store_val_in_tensor(value)
                 for name, value in self._metadata_cache.items()}
        return _rebuild_njt, ({"values": self._values, "offsets": self._offsets, "lengths": self._lengths,
                               "_ragged_idx": self._ragged_idx, "_metadata_cache": cache,
                               "requires_grad": self.requires_grad},)

    def __tensor_flatten__(self):
        """The names of the tensors it is made of, and what else it takes to make it."""
        names = ["_values", "_offsets"] + ["_lengths"] * (self._lengths is not None)
        return names, {"ragged_idx": self._ragged_idx, "metadata": dict(self._metadata_cache)}

    @staticmethod
    def __tensor_unflatten__(inner_tensors, meta, outer_size, outer_stride):
        """What `__tensor_flatten__` took apart."""
        return NestedTensor(inner_tensors["_values"], inner_tensors["_offsets"], lengths=inner_tensors.get("_lengths"),
                            _ragged_idx=meta["ragged_idx"], _metadata_cache=meta["metadata"])


def _dim(nested, dim):
    """`dim` counted from the front; IndexError if there is none."""
    rank = len(nested._size)
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return dim % rank


def _rebuild_njt(constructor_kwargs):
    """What a pickle is read with."""
    options = dict(constructor_kwargs)
    wanted = options.pop("requires_grad", False)
    if options["values"].requires_grad != wanted and options["values"].is_leaf:
        options["values"].requires_grad_(wanted)
    return NestedTensor(options.pop("values"), options.pop("offsets"), **options)


# ---- making them -----------------------------------------------------------------------------------


def _offsets_of(lengths):
    """Where sequences start that follow each other, and the end; int64, shape `(B + 1,)`."""
    offsets = _C.zeros(lengths.shape[0] + 1, dtype=_C.int64, device=lengths.device)
    _C.cumsum(lengths, 0, out=offsets[1:])
    return offsets


def _known(min_seqlen, max_seqlen):
    known = {"min_seqlen": min_seqlen, "max_seqlen": max_seqlen}
    return {name: value for name, value in known.items() if value is not None}


def nested_view_from_values_offsets(values, offsets, ragged_idx=1, min_seqlen=None, max_seqlen=None):
    """A nested tensor that shares the memory and history of `values`."""
    return nested_view_from_values_offsets_lengths(values, offsets, None, ragged_idx, min_seqlen, max_seqlen)


def nested_view_from_values_offsets_lengths(values, offsets, lengths, ragged_idx=1, min_seqlen=None, max_seqlen=None):
    """The same with holes after the sequences, whose lengths are given."""
    if not isinstance(offsets, Tensor):
        raise TypeError("_nested_view_from_jagged(): argument 'offsets' (position 2) must be Tensor, not "
                        f"{type(offsets).__name__}")
    if values.requires_grad and values.is_leaf:
        values = values.view_as(values)
    return NestedTensor(values, offsets, lengths=lengths, _ragged_idx=ragged_idx,
                        _metadata_cache=_known(min_seqlen, max_seqlen))


def buffer_from_jagged(jagged):
    """The values."""
    return jagged.values()


def jagged_from_list(tensors, offsets, dtype=None, device=None):
    """A nested tensor of tensors that differ in one dimension, and its offsets; differentiable in the tensors.

    RuntimeError if they differ in more than one, in rank or in dtype, or if there are none.
    """
    if len(tensors) == 0:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    for what, same in (("dtype", "have the same dtype"), ("device", "be on the same device")):
        if len({str(getattr(t, what)) for t in tensors}) != 1:
            raise RuntimeError(f"When constructing a nested tensor, all tensors in list must {same}")
    ranks = {t.dim() for t in tensors}
    if len(ranks) != 1:
        raise RuntimeError("When constructing a nested tensor, all tensors in list must have the same dim")
    rank = ranks.pop()
    if rank == 0:
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    ragged = [d for d in range(rank) if len({t.shape[d] for t in tensors}) != 1]
    if len(ragged) > 1:
        raise RuntimeError("Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the "
                           "jagged layout only allows for a single ragged dimension. For example: (B, *, D_0, D_1, ..., "
                           "D_N), with ragged * dim.")
    dim = ragged[0] if ragged else 0
    lengths = [t.shape[dim] for t in tensors]
    values = _C.cat(list(tensors), dim).to(device=device, dtype=dtype)
    if offsets is None:
        offsets = _offsets_of(_C.tensor(lengths, dtype=_C.int64, device=values.device))
    made = NestedTensor(values, offsets, _ragged_idx=dim + 1, _metadata_cache=_known(min(lengths), max(lengths)))
    return made, offsets


def jagged_from_tensor_and_lengths(tensor, starts, lengths):
    """Parts of the rows of a `(B, L, *)` tensor, from `starts` on and `lengths` long, with its memory.

    Returns the nested tensor, its offsets, and its lengths (None if there are no holes).
    """
    batch, length = tensor.shape[:2]
    starts, lengths = (_per_row(x, batch, tensor.device) for x in (starts, lengths))
    begin = starts + _C.arange(batch, device=tensor.device) * length
    offsets = _C.cat([begin, (begin[-1] + lengths[-1]).unsqueeze(0)]) if batch else begin.new_zeros(1)
    values = tensor.flatten(0, 1)
    if batch:
        values = values[: int(offsets[-1])]
    holes = not bool((offsets.diff() == lengths).all()) or (batch and int(offsets[0]) != 0)
    known = _known(int(lengths.min()), int(lengths.max())) if batch else {}
    kept = lengths if holes else None
    return NestedTensor(values, offsets, lengths=kept, _metadata_cache=known), offsets, kept


def _per_row(value, batch, device):
    """A number for every row, or what there is for each; int64, shape `(B,)`."""
    if isinstance(value, Tensor):
        return value.to(device=device, dtype=_C.int64).expand(batch)
    return _C.full((batch,), int(value), dtype=_C.int64, device=device)


def nested_from_padded(padded, offsets, ragged_idx=1, min_seqlen=None, max_seqlen=None, sum_S=None):
    """The sequences within a padded tensor of shape `(B, *, L, *)`, by their offsets."""
    lengths = offsets.diff()
    rows = padded.movedim(ragged_idx, 1)
    where = _C.arange(rows.shape[1], device=padded.device) < lengths.unsqueeze(1)
    values = rows.flatten(0, 1).index_select(0, where.flatten().nonzero().squeeze(1)).movedim(0, ragged_idx - 1)
    return NestedTensor(values, offsets, _ragged_idx=ragged_idx, _metadata_cache=_known(min_seqlen, max_seqlen))


def _to_kind(tensor, dtype=None, device=None):
    """A copy of a tensor, of a dtype and device; differentiable."""
    return tensor.to(device=device, dtype=dtype, copy=True)
