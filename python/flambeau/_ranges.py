"""`torch.range`, which includes its end."""
import math
import warnings

from . import _C

__all__ = ["range"]


def range(start=0, end=None, step=1, *, out=None, dtype=None, layout=None, device=None, pin_memory=False,
          requires_grad=False):  # fmt: skip
    """Deprecated: start, start + step, … up to and including `end`; floating-point by default."""
    warnings.warn("torch.range is deprecated and will be removed in a future release because its behavior is inconsistent "
                  "with Python's range builtin. Instead, use torch.arange, which produces values in [start, end).", stacklevel=2)
    if end is None:
        raise TypeError('range() missing 1 required positional arguments: "end"')
    for place, (name, value) in enumerate((("start", start), ("end", end), ("step", step)), 1):
        if isinstance(value, _C.Tensor):
            continue
        if not isinstance(value, (int, float)):
            raise TypeError(f"range(): argument '{name}' (position {place}) must be Number, not {type(value).__name__}")
    start, end, step = (value.item() if isinstance(value, _C.Tensor) else value for value in (start, end, step))
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start:g} -> {end:g}")
    if (end < start) if step > 0 else (end > start):
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if dtype is None:
        dtype = _C.get_default_dtype() if out is None else out.dtype
    if dtype.is_complex or dtype is _C.bool:
        named = "Bool" if dtype is _C.bool else {_C.complex64: "ComplexFloat", _C.complex128: "ComplexDouble"}.get(dtype, "ComplexHalf")
        raise NotImplementedError(f'"range_cpu" not implemented for \'{named}\'')
    if not dtype.is_floating_point:
        start, step = int(start), int(step)
    count = int((end - start) / step) + 1
    wide = _C.float64 if dtype.is_floating_point else _C.int64
    values = (_C.arange(count, dtype=wide, device=device) * step + start).to(dtype)
    if out is not None:
        return out.resize_(count).copy_(values)
    return values.requires_grad_(requires_grad)
