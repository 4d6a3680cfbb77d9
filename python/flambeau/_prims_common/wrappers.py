"""Casts that PyTorch's Python operators make."""
from .. import _C

__all__ = []


def _maybe_convert_to_dtype(a, dtype):
    """Tensors, numbers, and sequences of them, of a dtype; None stays. ValueError for anything else."""
    from . import Number, dtype_to_type

    if a is None:
        return None
    if isinstance(a, _C.Tensor):
        return a if a.dtype == dtype else a.to(dtype)
    if isinstance(a, Number):
        return dtype_to_type(dtype)(a)
    if isinstance(a, (tuple, list)):
        return tuple(_maybe_convert_to_dtype(x, dtype) for x in a)
    raise ValueError(f"Received unsupported type {type(a)}. Expected TensorLike, Number, or Sequence.")
