"""Neural networks: modules, their parameters and functions, initial values."""
import importlib as _importlib

from .. import _C
from . import functional, init, modules, parameter
from .modules import *  # noqa: F403
from .modules.module import Module
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

Tensor = _C.Tensor

_LAZY = ("attention", "common_types", "grad", "parallel", "utils")

__all__ = [
    *modules.__all__, "Buffer", "DataParallel", "Parameter", "UninitializedBuffer", "UninitializedParameter",
    "factory_kwargs", "functional", "init", "modules", "parameter", *_LAZY,
]


def factory_kwargs(kwargs):
    """The tensor-constructor arguments among `kwargs` (device, dtype, memory_format, or grouped in factory_kwargs)."""
    direct = dict(kwargs or {})
    grouped = direct.pop("factory_kwargs", {})
    unknown = direct.keys() - {"device", "dtype", "memory_format"}
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    for name in direct.keys() & grouped.keys():
        raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
    return {**grouped, **direct}


def __getattr__(name):
    if name in _LAZY:
        return _importlib.import_module("." + name, __name__)
    if name == "DataParallel":
        from .parallel import DataParallel

        return DataParallel
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
