"""Settings of the process, most of them kept because programs set and read them."""
from . import _C

__all__ = [
    "use_deterministic_algorithms", "are_deterministic_algorithms_enabled",
    "is_deterministic_algorithms_warn_only_enabled", "set_deterministic_debug_mode", "get_deterministic_debug_mode",
    "set_float32_matmul_precision", "get_float32_matmul_precision", "set_warn_always", "is_warn_always_enabled",
    "set_num_interop_threads", "get_num_interop_threads", "set_flush_denormal", "init_num_threads",
    "set_default_dtype", "set_default_tensor_type", "compiled_with_cxx11_abi", "is_vulkan_available",
]  # fmt: skip

_state = {
    "deterministic": False, "warn_only": False, "fill_uninitialized": True, "precision": "highest", "warn_always": False,
    "interop": None,
}  # fmt: skip


def _must_be_bool(function, name, place, value):
    if not isinstance(value, bool):
        raise TypeError(f"{function}(): argument '{name}' (position {place}) must be bool, not {type(value).__name__}")


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Ask for the same bits from run to run. Every operator gives them anyway; new memory is filled for it, too."""
    _must_be_bool("_set_deterministic_algorithms", "mode", 1, mode)
    _must_be_bool("_set_deterministic_algorithms", "warn_only", 2, warn_only)
    _state.update(deterministic=mode, warn_only=warn_only)
    _fill_uninitialized(_state["fill_uninitialized"])


def _fill_uninitialized(mode):
    """Whether new memory is filled while only deterministic algorithms are wanted."""
    _state["fill_uninitialized"] = mode
    _C._set_fill_uninitialized(mode and _state["deterministic"])


def are_deterministic_algorithms_enabled():
    return _state["deterministic"]


def is_deterministic_algorithms_warn_only_enabled():
    return _state["warn_only"]


_DEBUG_MODES = ("default", "warn", "error")


def set_deterministic_debug_mode(debug_mode):
    """The same by name or number: 'default' (0), 'warn' (1) or 'error' (2)."""
    if isinstance(debug_mode, str):
        if debug_mode not in _DEBUG_MODES:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`, "
                               f"but got {debug_mode}")
        debug_mode = _DEBUG_MODES.index(debug_mode)
    elif not isinstance(debug_mode, int):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    elif debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode():
    return 0 if not _state["deterministic"] else 1 if _state["warn_only"] else 2


def set_float32_matmul_precision(precision):
    """'highest', 'high' or 'medium'. Products are always computed in full precision."""
    if not isinstance(precision, str):
        raise RuntimeError(f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}")
    if precision in ("highest", "high", "medium"):
        _state["precision"] = precision
        return
    import warnings

    warnings.warn(f"{precision} is not one of 'highest', 'high', or 'medium'; the current"
                  "setFloat32MatmulPrecision call has no effect.",
                  stacklevel=2)


def get_float32_matmul_precision():
    return _state["precision"]


def set_warn_always(b):
    """Whether warnings that are given once are given every time."""
    if not isinstance(b, bool):
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _state["warn_always"] = b


def is_warn_always_enabled():
    return _state["warn_always"]


def set_num_interop_threads(int):
    """How many threads run different operators at once."""
    if int <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    _state["interop"] = int


def get_num_interop_threads():
    import os

    return _state["interop"] or os.cpu_count()


def init_num_threads():
    """Nothing: the number of threads is right from the start."""


def set_flush_denormal(mode):
    """Whether tiny numbers become zero: not supported here, so the answer is False."""
    if not isinstance(mode, bool):
        raise RuntimeError(f"flush_denormal expects a bool, but got {type(mode).__name__}")
    return False


def compiled_with_cxx11_abi():
    return True


def is_vulkan_available():
    return False


def set_default_dtype(d, /):
    """The dtype that tensors of Python floats get."""
    if not isinstance(d, _C.dtype):
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    _C._set_default_dtype(d)


def set_default_tensor_type(t, /):
    """Deprecated: the same by an old tensor class, or its name."""
    from ._typed import CLASSES, tensortype

    if isinstance(t, str):
        name = t.rpartition(".")[2]
        home = t.rpartition(".")[0]
        if not home:
            raise ModuleNotFoundError(f"No module named '{t}'")
        if name not in CLASSES or home not in ("torch", "flambeau"):
            raise AttributeError(f"module 'torch' has no attribute '{name}'")
        t = CLASSES[name]
    if not isinstance(t, tensortype):
        raise TypeError("invalid type object: only floating-point types are supported as the default type")
    import warnings

    warnings.warn("torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
                  "torch.set_default_device() as alternatives.", stacklevel=2)
    _C._set_default_dtype(t.dtype)
