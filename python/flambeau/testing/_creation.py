"""Tensors with random values for tests."""
from __future__ import annotations

import collections.abc
import math
import warnings

import flambeau as _fl

_INTEGERS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
_COMPLEX = ("complex32", "complex64", "complex128")


def _bounds(low, high, lowest, highest, default_low, default_high, dtype):
    """The bounds of the values, within what the type can hold."""
    low = default_low if low is None else low
    high = default_high if high is None else high
    for value in (low, high):
        if isinstance(value, float) and math.isnan(value):
            raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low == high and (dtype.is_floating_point or dtype.is_complex):
        warnings.warn("Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated "
                      "since 2.1 and will be removed in 2.3. Use `torch.full(...)` instead.", FutureWarning,
                      stacklevel=3)
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < lowest or low >= highest:
        raise ValueError(f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports "
                         f"[{lowest}, {highest})")
    low = min(max(low, lowest), highest)
    high = min(max(high, lowest), highest)
    if dtype is _fl.bool or not (dtype.is_floating_point or dtype.is_complex):
        low, high = math.ceil(low), math.ceil(high)
    return low, high


def _uniform(tensor, low, high):
    if low <= _fl.finfo(tensor.dtype).min / 2 and high >= _fl.finfo(tensor.dtype).max / 2:
        return tensor.uniform_(low / 2, high / 2).mul_(2)  # the difference of the bounds would be infinite
    return tensor.uniform_(low, high)


def make_tensor(*shape, dtype, device, low: float | None = None, high: float | None = None,
                requires_grad: bool = False, noncontiguous: bool = False, exclude_zero: bool = False,
                memory_format=None):
    """A tensor of random values from ``[low, high)``; by default from about -9 to 9."""
    if len(shape) == 1 and isinstance(shape[0], collections.abc.Sequence):
        shape = shape[0]
    shape = tuple(shape)
    spread = noncontiguous and math.prod(shape) > 1 and len(shape) > 0
    if noncontiguous and memory_format is not None:
        raise ValueError("The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
                         f"{noncontiguous=} and {memory_format=}")
    if spread:  # every other column of a wider tensor
        shape = (*shape[:-1], 2 * shape[-1])
    name = str(dtype).split(".")[-1]
    if requires_grad and (name in _INTEGERS or name == "bool"):
        raise ValueError("`requires_grad=True` is not supported for boolean and integral dtypes, but got "
                         f"{dtype=}")
    if name == "bool":
        low, high = _bounds(low, high, 0, 2, 0, 2, dtype)
        result = _fl.randint(low, high, shape, device=device, dtype=dtype)
    elif name in _INTEGERS:
        info = _fl.iinfo(dtype)
        highest = info.max + (0 if name in ("int64", "uint64") else 1)
        low, high = _bounds(low, high, info.min, highest, 0 if name.startswith("u") else -9, 10, dtype)
        result = _fl.randint(low, high, shape, device=device, dtype=dtype)
    elif name in _FLOATS:
        info = _fl.finfo(dtype)
        low, high = _bounds(low, high, info.min, info.max, -9, 9, dtype)
        result = _uniform(_fl.empty(shape, device=device, dtype=dtype), low, high)
    elif name in _FLOAT8:
        info = _fl.finfo(dtype)
        low, high = _bounds(low, high, info.min, info.max, -9, 9, dtype)
        result = _uniform(_fl.empty(shape, device=device, dtype=_fl.float32), low, high).to(dtype)
    elif name in _COMPLEX:
        info = _fl.finfo(dtype)
        low, high = _bounds(low, high, info.min, info.max, -9, 9, dtype)
        result = _fl.empty(shape, device=device, dtype=dtype)
        _uniform(_fl.view_as_real(result), low, high)
    else:
        raise TypeError(f"The requested dtype '{dtype}' is not supported by torch.testing.make_tensor(). To request "
                        "support, file an issue at: https://github.com/pytorch/pytorch/issues")
    if spread:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        integral = name in _INTEGERS or name == "bool"
        result[result == 0] = 1 if integral else _fl.finfo(dtype).tiny
    if name in _FLOATS + _FLOAT8 + _COMPLEX:
        result.requires_grad = requires_grad
    return result
