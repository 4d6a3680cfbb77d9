"""Dispatch modes: `with mode:`, every operator that would reach a backend goes to the mode's `__torch_dispatch__`."""
import contextlib

from .. import _C

__all__ = ["TorchDispatchMode", "BaseTorchDispatchMode", "is_traceable_wrapper_subclass"]


def _overload(namespace, name, overload):
    from .._ops import ops

    return getattr(getattr(getattr(ops, namespace), name), overload)


_C._set_overload_finder(_overload)


class TorchDispatchMode:
    """Inside `with mode:`, every operator that would reach a backend goes to the mode's `__torch_dispatch__`: below autograd,
    and what operators are made of instead of them. Operators that the handler calls go to the mode outside."""

    def __init__(self, _dispatch_key=None):
        pass

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        _C._push_torch_dispatch_mode(self)
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        _C._pop_torch_dispatch_mode()

    @classmethod
    def push(cls, *args, **kwargs):
        """A mode made of these arguments."""
        import warnings

        warnings.warn("`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`", stacklevel=2)
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls):
        """Is it one of PyTorch's own for tracing? None is here."""
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that only passes calls on."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def is_in_torch_dispatch_mode(include_infra_modes=True):
    """Is there a mode?"""
    return _C._len_torch_dispatch_stack() > 0


def is_traceable_wrapper_subclass(t):
    """Is it a tensor made of others that says how to take it apart?"""
    return isinstance(t, _C.Tensor) and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def is_traceable_wrapper_subclass_type(t):
    """The same for a class."""
    return hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def _get_current_dispatch_mode():
    n = _C._len_torch_dispatch_stack()
    return _C._get_dispatch_stack_at(n - 1) if n else None


def _get_current_dispatch_mode_stack():
    return [_C._get_dispatch_stack_at(i) for i in range(_C._len_torch_dispatch_stack())]


def _push_mode(mode):
    _C._push_torch_dispatch_mode(mode)


def _pop_mode(k=None):
    return _C._pop_torch_dispatch_mode()


@contextlib.contextmanager
def _pop_mode_temporarily(k=None):
    mode = _C._pop_torch_dispatch_mode()
    try:
        yield mode
    finally:
        _C._push_torch_dispatch_mode(mode)


@contextlib.contextmanager
def _disable_current_modes():
    """Within the block, no mode sees anything."""
    modes = [_C._pop_torch_dispatch_mode() for _ in range(_C._len_torch_dispatch_stack())]
    try:
        yield modes
    finally:
        for mode in reversed(modes):
            _C._push_torch_dispatch_mode(mode)
