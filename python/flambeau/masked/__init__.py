"""Reductions and normalizations over the elements that a mask lets through."""
import math

from .. import _C

__all__ = ["amax", "amin", "argmax", "argmin", "as_masked_tensor", "cumprod", "cumsum", "is_masked_tensor", "log_softmax",
           "logaddexp", "logsumexp", "masked_tensor", "MaskedTensor", "mean", "median", "norm", "normalize", "prod",
           "softmax", "softmin", "std", "sum", "var"]  # fmt: skip



def __getattr__(name):
    if name in ("MaskedTensor", "masked_tensor", "as_masked_tensor", "is_masked_tensor"):
        from . import maskedtensor

        return getattr(maskedtensor, name)
    if name == "_ops":  # where PyTorch keeps the functions
        import sys

        return sys.modules[__name__]
    raise AttributeError(f"module 'flambeau.masked' has no attribute '{name}'")


def _unpack(input, mask):
    """The plain tensor and the boolean mask over all of it."""
    if hasattr(input, "get_mask"):
        mask = input.get_mask() if mask is None else mask & input.get_mask()
        input = input.get_data()
    if mask is None:
        return input, None
    mask = mask.to(_C.bool) if mask.dtype != _C.bool else mask
    return input, mask.expand(input.shape) if mask.shape != input.shape else mask


def _dims(dim, rank):
    """Dimensions as a tuple of different places; None stands for all."""
    if dim is None or dim == ():
        return tuple(range(rank))
    dims = []
    for d in dim if isinstance(dim, (tuple, list)) else (dim,):
        bound = max(rank, 1)
        if not -bound <= d < bound:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {d})"
            )
        d %= bound
        if d in dims:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        dims.append(d)
    return tuple(sorted(dims)) if rank else ()


def _extreme(dtype, low):
    """The value that loses against every other: -inf or the smallest integer, or their opposites."""
    if dtype == _C.bool:
        return not low
    if dtype.is_floating_point or dtype.is_complex:
        return -math.inf if low else math.inf
    info = _C.iinfo(dtype)
    return info.min if low else info.max


def _fill(input, mask, value):
    return input if mask is None else _C.where(mask, input, _C.full((), value, dtype=input.dtype, device=input.device))


def _wide(input, dtype):
    """Sums of integers and truth values are 64-bit integers."""
    if dtype is not None:
        return input.to(dtype)
    whole = not input.dtype.is_floating_point and not input.dtype.is_complex
    return input.to(_C.int64) if whole else input


def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The sum; 0 where nothing is let through."""
    input, mask = _unpack(input, mask)
    input = _wide(input, dtype)
    # (Without dims, the sum over none is that of all, and a copy.)
    return _fill(input, mask, 0).sum(_dims(dim, input.dim()), keepdim=bool(keepdim))


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The product; 1 where nothing is let through."""
    input, mask = _unpack(input, mask)
    result = _fill(_wide(input, dtype), mask, 1)
    dims = _dims(dim, input.dim())
    # A dim given for a number is its own.
    if not dims and dim is not None and dim != ():
        dims = (0,)
    for d in reversed(dims):
        result = result.prod(d, keepdim=bool(keepdim))
    return result


def _best(input, dim, keepdim, dtype, mask, largest):
    input, mask = _unpack(input, mask)
    input = input if dtype is None else input.to(dtype)
    filled = _fill(input, mask, _extreme(input.dtype, largest))
    dims = _dims(dim, input.dim())
    return filled.amax(dims, bool(keepdim)) if largest else filled.amin(dims, bool(keepdim))


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The largest element; the type's smallest value where nothing is let through."""
    return _best(input, dim, keepdim, dtype, mask, True)


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The smallest element; the type's largest value where nothing is let through."""
    return _best(input, dim, keepdim, dtype, mask, False)


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the largest element stands."""
    input, mask = _unpack(input, mask)
    input = input if dtype is None else input.to(dtype)
    return _fill(input, mask, _extreme(input.dtype, True)).argmax(dim, bool(keepdim)).to(input.dtype)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the smallest element stands."""
    input, mask = _unpack(input, mask)
    input = input if dtype is None else input.to(dtype)
    return _fill(input, mask, _extreme(input.dtype, False)).argmin(dim, bool(keepdim)).to(input.dtype)


def _count(input, mask, dims, keepdim):
    ones = _C.ones_like(input, dtype=_C.int64) if mask is None else mask.to(_C.int64)
    return ones.sum(dims, keepdim=bool(keepdim)) if dims else ones


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The mean; nan where nothing is let through."""
    input, mask = _unpack(input, mask)
    kind = dtype or input.dtype
    if not (kind.is_floating_point or kind.is_complex):
        raise ValueError(
            "mean(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: "
            f"{kind}"
        )
    dims = _dims(dim, input.dim())
    return sum(input, dims, keepdim=keepdim, dtype=dtype, mask=mask) / _count(input, mask, dims, keepdim)


def _variance(input, dim, unbiased, correction, keepdim, dtype, mask, root):
    input, mask = _unpack(input, mask)
    if unbiased is not None and correction is not None:
        raise ValueError("Only one of unbiased and correction may be given")
    correction = (1 if unbiased is None else int(unbiased)) if correction is None else correction
    kind = dtype or (input.dtype if input.dtype.is_floating_point or input.dtype.is_complex else _C.float32)
    x = input.to(kind)
    dims = _dims(dim, x.dim())
    count = _count(x, mask, dims, True)
    centre = sum(x, dims, keepdim=True, mask=mask) / count
    apart = x - centre
    square = sum(apart * apart.conj(), dims, keepdim=keepdim, mask=mask)
    count = count if keepdim or not dims else count.reshape(square.shape)
    result = (square / (count - correction).clamp(min=0)).to(kind)
    return result.sqrt() if root else result


def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The variance; nan where nothing is let through."""
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask, False)


def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The standard deviation; nan where nothing is let through."""
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask, True)


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The (lower) median; nan where nothing is let through."""
    input, mask = _unpack(input, mask)
    if mask is None:
        return input.nanmedian(dim, keepdim).values
    if not input.dtype.is_floating_point and not bool(mask.all()):
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return _fill(input, mask, math.nan if input.dtype.is_floating_point else 0).nanmedian(dim, keepdim).values


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """log(sum(exp(x))); -inf where nothing is let through."""
    input, mask = _unpack(input, mask)
    input = input if dtype is None else input.to(dtype)
    dims = _dims(dim, input.dim())
    result = _C.logsumexp(_fill(input, mask, _extreme(input.dtype, True)), dims, keepdim=bool(keepdim))
    return result.to(input.dtype)


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """log(exp(x) + exp(y)), each only where its mask lets it through."""
    input, input_mask = _unpack(input, input_mask)
    other, other_mask = _unpack(other, other_mask)
    dtype = dtype or input.dtype
    low = _extreme(dtype, True)
    return _C.logaddexp(_fill(input.to(dtype), input_mask, low), _fill(other.to(dtype), other_mask, low))


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The vector norm."""
    input, mask = _unpack(input, mask)
    identity = math.inf if ord == -math.inf or ord < 0 else 0
    filled = _fill(input if dtype is None else input.to(dtype), mask, identity)
    return _C.linalg_vector_norm(filled, ord, _dims(dim, input.dim()), bool(keepdim), dtype=dtype)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """x / max(norm(x), eps)"""
    input, mask = _unpack(input, mask)
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    filled = _fill(input if dtype is None else input.to(dtype), mask, 0)
    return filled / size.clamp(min=eps)


def _running(op, identity):
    def run(input, dim, *, dtype=None, mask=None):
        input, mask = _unpack(input, mask)
        input = input if dtype is None else input.to(dtype)
        return op(_fill(input, mask, identity), dim).to(input.dtype)

    return run


cumsum = _running(lambda x, dim: x.cumsum(dim), 0)
cumprod = _running(lambda x, dim: x.cumprod(dim), 1)
cumsum.__name__, cumprod.__name__ = "cumsum", "cumprod"


def _soft(op, low):
    def run(input, dim, *, dtype=None, mask=None):
        input, mask = _unpack(input, mask)
        input = input if dtype is None else input.to(dtype)
        return op(_fill(input, mask, _extreme(input.dtype, low)), dim)

    return run


softmax = _soft(lambda x, dim: _C.softmax(x, dim), True)
log_softmax = _soft(lambda x, dim: _C.log_softmax(x, dim), True)
softmin = _soft(lambda x, dim: _C.softmax(-x, dim), False)
softmax.__name__, log_softmax.__name__, softmin.__name__ = "softmax", "log_softmax", "softmin"
