"""The older names of `torch.amp`, where the module tells the kind of device."""
from __future__ import annotations

import warnings

import flambeau as _fl

from . import autocast_mode, grad_scaler


def _deprecated(kind: str, name: str, arguments: str, level: int = 3) -> None:
    warnings.warn(f"`torch.{kind}.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}({arguments})` instead.",
                  FutureWarning, stacklevel=level)


def autocast_of(kind: str, default, module: str):
    """The `autocast` of a kind of device, whose usual type is `default`."""

    class autocast(autocast_mode.autocast):
        __doc__ = f"A block (or decorator) as `torch.amp.autocast('{kind}')` makes it."

        def __init__(self, enabled: bool = True, dtype=default, cache_enabled: bool = True) -> None:
            _deprecated(kind, "autocast", f"'{kind}', args...")
            super().__init__(kind, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)

    return _placed(autocast, module)


def scaler_of(kind: str, module: str):
    """The `GradScaler` of a kind of device."""

    class GradScaler(grad_scaler.GradScaler):
        __doc__ = f"A scaler as `torch.amp.GradScaler('{kind}')` makes it."

        def __init__(self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                     growth_interval: int = 2000, enabled: bool = True) -> None:
            _deprecated(kind, "GradScaler", f"'{kind}', args...")
            super().__init__(kind, init_scale, growth_factor, backoff_factor, growth_interval, enabled)

    return _placed(GradScaler, module)


def _placed(cls: type, module: str) -> type:
    cls.__module__, cls.__qualname__ = module, cls.__name__
    return cls


def custom_fwd(fwd=None, *, cast_inputs=None):
    """`torch.amp.custom_fwd` for CUDA."""
    _deprecated("cuda", "custom_fwd", "args..., device_type='cuda'")
    return autocast_mode.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd):
    """`torch.amp.custom_bwd` for CUDA."""
    _deprecated("cuda", "custom_bwd", "args..., device_type='cuda'")
    return autocast_mode.custom_bwd(bwd, device_type="cuda")


def amp_definitely_not_available() -> bool:
    """Whether mixed precision cannot be had on CUDA."""
    return not _fl.cuda.is_available()
