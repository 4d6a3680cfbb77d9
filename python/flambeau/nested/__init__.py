"""Nested tensors: batches of tensors of different sizes, without padding.

The jagged layout is for tensors that differ in one dimension: all rows in one tensor, and offsets. The strided layout
takes any tensors of one rank.
"""
from .. import _C
from .._C import Tensor

__all__ = ["to_padded_tensor", "as_nested_tensor", "nested_tensor", "nested_tensor_from_jagged", "narrow", "masked_select"]


def _layout(layout):
    """`jagged` and `strided`, the default; RuntimeError for others."""
    layout = _C.strided if layout is None else layout
    if layout not in (_C.strided, _C.jagged):
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    return layout


def nested_tensor(tensor_list, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A leaf with copies of tensors, or of lists of numbers.

    TypeError for no list, in the strided layout; RuntimeError if the tensors do not fit together.
    """
    layout = _layout(layout)
    if layout == _C.strided and not isinstance(tensor_list, list):
        raise TypeError("Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor")
    tensors = [(t if isinstance(t, Tensor) else _C.as_tensor(t)).detach() for t in tensor_list]
    if layout == _C.jagged:
        from ._internal.nested_tensor import jagged_from_list

        made, _ = jagged_from_list(tensors, None, dtype=dtype, device=device)
    else:
        from ._internal.strided import from_list

        made = from_list(tensors, dtype, device)
    if pin_memory:
        made = made.pin_memory()
    return made.requires_grad_(requires_grad)


def as_nested_tensor(ts, dtype=None, device=None, layout=None):
    """A nested tensor with the history of a list of tensors, or of a tensor's rows; a nested tensor of the layout as it is.

    TypeError for anything else; RuntimeError if the tensors do not fit together.
    """
    if isinstance(ts, (list, tuple)):
        fits = all(isinstance(t, Tensor) for t in ts)
    else:
        fits = isinstance(ts, Tensor)
    if not fits:
        raise TypeError("as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors ")
    layout = _layout(layout)
    if isinstance(ts, Tensor) and ts.is_nested:
        if ts.layout != layout:
            raise RuntimeError("as_nested_tensor(): Converting between nested tensor layouts is not supported")
        return ts.to(device=device, dtype=dtype)
    if isinstance(ts, Tensor):
        if ts.dim() < 2:
            raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() > 1")
        if layout == _C.jagged:
            return _rows_of(ts, dtype, device)
        ts = ts.unbind()
    if layout == _C.jagged:
        from ._internal.nested_tensor import jagged_from_list

        return jagged_from_list(list(ts), None, dtype=dtype, device=device)[0]
    from ._internal.strided import from_list

    return from_list(list(ts), dtype, device)


def _rows_of(tensor, dtype, device):
    """The rows of a `(B, L, *)` tensor as sequences of one length."""
    from ._internal.nested_tensor import nested_view_from_values_offsets

    batch, length = tensor.shape[:2]
    offsets = _C.arange(batch + 1, dtype=_C.int64, device=tensor.device) * length
    return nested_view_from_values_offsets(tensor.flatten(0, 1).to(device=device, dtype=dtype), offsets,
                                           min_seqlen=length, max_seqlen=length)


def nested_tensor_from_jagged(values, offsets=None, lengths=None, jagged_dim=None, min_seqlen=None, max_seqlen=None):
    """Sequences within `values`, with its memory and history, by `offsets` of shape `(B + 1,)`, or by `lengths`.

    With both, there may be holes after the sequences. `jagged_dim` is the outer dimension that is ragged, 1 if not given.
    RuntimeError without offsets and lengths.
    """
    from ._internal.nested_tensor import _offsets_of, nested_view_from_values_offsets_lengths

    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
        offsets, lengths = _offsets_of(lengths), None
    return nested_view_from_values_offsets_lengths(values, offsets, lengths, 1 if jagged_dim is None else jagged_dim,
                                                   min_seqlen, max_seqlen)


def narrow(tensor, dim, start, length, layout=_C.strided):
    """Parts of the rows of a `(B, L, *)` tensor, without a copy; `start` and `length` may be one for each row.

    RuntimeError for another dim than 1 in the jagged layout, and for other layouts.
    """
    if not isinstance(start, (int, Tensor)) or not isinstance(length, (int, Tensor)):
        raise RuntimeError("start and length must be an integer or a tensor")
    if layout == _C.strided:
        if isinstance(start, Tensor) or isinstance(length, Tensor):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        if dim != 0:
            raise RuntimeError(f"narrow(): only dim=0 supported for nested tensors, but got: {dim}")
        return as_nested_tensor(list(tensor.unbind())[start : start + length])
    if layout != _C.jagged:
        raise RuntimeError(f"Specified layout is unsupported for nested narrow: {layout}")
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    for value in (start, length):
        if isinstance(value, Tensor) and (value.dim() > 1 or value.numel() not in (1, tensor.shape[0])):
            raise RuntimeError("When constructing a jagged nested tensor using narrow(), your start and length must be "
                               "Tensors that broadcast to input.shape[0]")
    from ._internal.nested_tensor import jagged_from_tensor_and_lengths

    return jagged_from_tensor_and_lengths(tensor, start, length)[0]


def masked_select(tensor, mask):
    """The elements of each row where `mask` is True, as sequences: shape `(B, j)`, with `B` the product of all dims but
    the last. RuntimeError unless the tensor is strided and the mask boolean."""
    if tensor.layout != _C.strided:
        raise RuntimeError(f"torch.nested.masked_select requires a strided tensor, given {tensor.layout}")
    if mask.layout != _C.strided:
        raise RuntimeError(f"torch.nested.masked_select requires a strided mask, given: {mask.layout}")
    values = tensor.masked_select(mask)
    from ._internal.nested_tensor import _offsets_of, nested_view_from_values_offsets

    counts = mask.expand(_C.broadcast_shapes(tensor.shape, mask.shape)).sum(-1).flatten()
    return nested_view_from_values_offsets(values, _offsets_of(counts))


def to_padded_tensor(input, padding, output_size=None, out=None):
    """A plain tensor with `padding` where the sequences end, as large as the longest or as `output_size`."""
    padded = input.to_padded_tensor(padding, output_size)
    return padded if out is None else out.resize_(padded.shape).copy_(padded)
