"""Blocks in which chosen operators run in a narrower type."""
from __future__ import annotations

import collections.abc
import functools
import sys
import warnings
from typing import Any

import flambeau as _fl

from . import _op_lists

_fl._C._set_autocast_lists(_op_lists.LOWER_PRECISION, _op_lists.FLOAT32, _op_lists.WIDEST)

__all__ = ["autocast_decorator", "autocast", "is_autocast_available", "custom_fwd", "custom_bwd"]


_KINDS = ("cpu", "cuda", "xpu", "hpu", "ipu", "mtia", "maia", "mps", "xla", "privateuseone")


def is_autocast_available(device_type: str) -> bool:
    """Whether autocasting exists for a kind of device."""
    return _fl.device(device_type).type in _KINDS


def autocast_decorator(autocast_instance, func):
    """`func`, run within a block of autocasting."""

    @functools.wraps(func)
    def decorate_autocast(*args, **kwargs):
        with autocast_instance:
            return func(*args, **kwargs)

    return decorate_autocast


class autocast:
    """A block (or decorator) in which matrix products and convolutions of `device_type` run in `dtype`."""

    def __init__(self, device_type: str, dtype=None, enabled: bool = True, cache_enabled: bool | None = None) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.fast_dtype = _fl.get_autocast_dtype(device_type) if dtype is None else dtype
        self.device = device_type
        if not is_autocast_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.custom_backend_name = "privateuseone"
        self._cache_enabled = _fl.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        if enabled and device_type == "cuda" and not self._available("cuda"):
            warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=2)
            enabled = False
        elif enabled and device_type == "cpu" and self.fast_dtype not in (_fl.bfloat16, _fl.float16):
            warnings.warn("In CPU autocast, but the target dtype is not supported. Disabling autocast.\nCPU Autocast only "
                          "supports dtypes of torch.bfloat16, torch.float16 currently.", stacklevel=2)
            enabled = False
        self._enabled = enabled

    @staticmethod
    def _available(kind: str) -> bool:
        try:
            module = getattr(_fl, kind, None)
            return module is not None and module.is_available()
        except ImportError:
            return False

    def __enter__(self):
        kind = self.device
        self.prev, self.prev_fastdtype = _fl.is_autocast_enabled(kind), _fl.get_autocast_dtype(kind)
        self.prev_cache_enabled = _fl.is_autocast_cache_enabled()
        _fl.autocast_increment_nesting()
        self._switch(self._enabled, self.fast_dtype, self._cache_enabled)
        return self

    def _switch(self, enabled, dtype, cache) -> None:
        _fl.set_autocast_enabled(self.device, enabled)
        _fl.set_autocast_dtype(self.device, dtype)
        _fl.set_autocast_cache_enabled(cache)

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any):
        if _fl.autocast_decrement_nesting() == 0:
            _fl.clear_autocast_cache()
        self._switch(self.prev, self.prev_fastdtype, self.prev_cache_enabled)
        return False

    def __call__(self, func):
        return autocast_decorator(self, func)


def _cast(value, device_type: str, dtype):
    """Floating-point tensors of a device (not float64) in another type, also within containers."""
    if isinstance(value, _fl.Tensor):
        if value.is_floating_point() and value.device.type == device_type and value.dtype is not _fl.float64:
            return value.to(dtype)
        return value
    if isinstance(value, (str, bytes)):
        return value
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return value
    if isinstance(value, collections.abc.Mapping):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, collections.abc.Iterable):
        items = [_cast(v, device_type, dtype) for v in value]
        return type(value)(items) if isinstance(value, (list, tuple)) else items
    return value


def _check_name(device_type) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def custom_fwd(fwd=None, *, device_type: str, cast_inputs=None):
    """Decorates the `forward` of an autograd Function: it runs with autocasting as outside, or off with inputs cast."""
    _check_name(device_type)
    if fwd is None:
        return lambda function: custom_fwd(function, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx, *args, **kwargs):
        active = _fl.is_autocast_enabled(device_type)
        ctx._dtype = _fl.get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = active and cast_inputs is None
        if cast_inputs is None or not active:
            return fwd(ctx, *args, **kwargs)
        args, kwargs = _cast(list(args), device_type, cast_inputs), _cast(kwargs, device_type, cast_inputs)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *args, **kwargs)

    return forward


def custom_bwd(bwd=None, *, device_type: str):
    """Decorates the `backward` of an autograd Function: it runs with autocasting as its `forward` did."""
    _check_name(device_type)
    if bwd is None:
        return lambda function: custom_bwd(function, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx, *grads, **kwargs):
        with autocast(device_type, dtype=ctx._dtype, enabled=ctx._fwd_used_autocast):
            return bwd(ctx, *grads, **kwargs)

    return backward
