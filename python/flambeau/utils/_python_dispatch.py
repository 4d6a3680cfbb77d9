"""Names of PyTorch's hook below autograd. Flambeau calls `__torch_function__` only."""
import contextlib

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass"]


class TorchDispatchMode:
    """A mode that would see operators below autograd. It cannot be entered: use `TorchFunctionMode`."""

    def __init__(self, _dispatch_key=None):
        pass

    def __enter__(self):
        raise NotImplementedError("TorchDispatchMode: Flambeau calls no __torch_dispatch__; use TorchFunctionMode")

    def __exit__(self, exc_type, exc_val, exc_tb):
        pass


def is_traceable_wrapper_subclass(t):
    """Is it a tensor made of others that says how to take it apart?"""
    from .. import Tensor

    return isinstance(t, Tensor) and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def is_traceable_wrapper_subclass_type(t):
    """The same for a class."""
    return hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def _get_current_dispatch_mode():
    return None


def _get_current_dispatch_mode_stack():
    return []


def _disable_current_modes():
    return contextlib.nullcontext([])
