"""Tensors that carry a mask: operators work where both are defined."""
import warnings

from .. import _C

__all__ = ["MaskedTensor", "masked_tensor", "as_masked_tensor", "is_masked_tensor"]

_REDUCTIONS = frozenset("sum mean amax amin prod argmin argmax norm var std".split())


class MaskedTensor:
    """Data and a boolean mask of the same shape; True marks what is there."""

    _stands_for_another = True  # asked also about what classes of tensors are not asked about

    def __init__(self, data, mask, requires_grad=False):
        warnings.warn(
            "The PyTorch API of MaskedTensors is in prototype stage and will change in the near future. Please open a Github "
            "issue for features requests and see our documentation on the torch.masked module for further information about "
            "the project.",
            stacklevel=2,
        )
        if isinstance(data, MaskedTensor):
            data = data._data
        if mask.dtype != _C.bool:
            raise TypeError("mask must have dtype bool.")
        if data.dim() != mask.dim():
            raise ValueError("data.dim() must equal mask.dim()")
        if data.size() != mask.size():
            raise ValueError("data.size() must equal mask.size()")
        self._data = data.detach().clone().requires_grad_(requires_grad) if requires_grad else data
        self._mask = mask

    def get_data(self):
        return self._data

    def get_mask(self):
        return self._mask

    def to_tensor(self, value):
        """A plain tensor with `value` where nothing is."""
        return self._data.masked_fill(~self._mask, value)

    is_sparse = property(lambda self: False)
    is_sparse_csr = is_sparse

    def is_sparse_coo(self):
        return False

    def __getattr__(self, name):
        attribute = getattr(self._data, name)
        if not callable(attribute):
            return attribute
        return lambda *args, **kwargs: _apply(getattr(_C.Tensor, name), name, (self, *args), kwargs)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return _apply(func, getattr(func, "__name__", ""), args, kwargs or {})

    def __len__(self):
        return len(self._data)

    def __repr__(self):
        values, mask = self._data.flatten().tolist(), self._mask.flatten().tolist()
        shown = [("%8.4f" % v if isinstance(v, float) else str(v)) if m else None for v, m in zip(values, mask)]
        if self._data.dim() == 0:
            return f"MaskedTensor({shown[0] or '--'}, {mask[0]})"
        width = max([8, *(len(text) for text in shown if text)])
        return f"MaskedTensor(\n{_rows([text or '--'.rjust(width) for text in shown], self._data.shape, '  ')}\n)"


def _rows(shown, sizes, indent):
    """Elements in brackets, one line for each row of the last dimension."""
    if len(sizes) == 1:
        return f"{indent}[{', '.join(shown)}]"
    each = len(shown) // sizes[0] if sizes[0] else 0
    parts = [_rows(shown[i * each : (i + 1) * each], sizes[1:], indent + "  ") for i in range(sizes[0])]
    return f"{indent}[\n" + ",\n".join(parts) + f"\n{indent}]"


def _apply(func, name, args, kwargs):
    """A reduction over the masked elements, or any other function on data, its mask being that of its arguments."""
    from . import __dict__ as reductions

    base = name.strip("_")
    if base in _REDUCTIONS:
        source = args[0]
        result = reductions[base](source._data, *args[1:], mask=source._mask, **kwargs)
        dims = args[1] if len(args) > 1 else kwargs.get("dim")
        mask = source._mask.any() if dims is None else source._mask.any(dims, kwargs.get("keepdim", False))
        return MaskedTensor(result, mask)
    masks = [a._mask for a in args if isinstance(a, MaskedTensor)]
    if len(masks) > 1 and any(m.shape != masks[0].shape or bool((m != masks[0]).any()) for m in masks):
        raise ValueError(
            "Input masks must match. If you need support for this, please open an issue on Github."
        )
    result = func(*(a._data if isinstance(a, MaskedTensor) else a for a in args), **kwargs)
    if not isinstance(result, _C.Tensor):
        return result
    mask = masks[0]
    if result.shape != mask.shape:
        mask = func(mask, *args[1:], **kwargs)
    return MaskedTensor(result, mask)


for _name in (
    "add radd sub rsub mul rmul truediv rtruediv floordiv mod pow rpow neg abs lt le gt ge eq ne and or xor invert getitem"
).split():
    _dunder = f"__{_name}__"
    setattr(
        MaskedTensor,
        _dunder,
        lambda self, *args, _dunder=_dunder: _apply(getattr(_C.Tensor, _dunder), _dunder, (self, *args), {}),
    )


def is_masked_tensor(obj, /):
    return isinstance(obj, MaskedTensor)


def masked_tensor(data, mask, requires_grad=False):
    """A MaskedTensor with data of its own."""
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data, mask):
    """A MaskedTensor on the data given, differentiable through it."""
    return MaskedTensor(data, mask)
