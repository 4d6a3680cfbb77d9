"""Context managers and decorators that switch the recording of gradients."""
from .. import _C
from ..utils._contextlib import _DecoratorContextManager, _NoParamDecoratorContextManager

__all__ = [
    "no_grad",
    "enable_grad",
    "set_grad_enabled",
    "inference_mode",
    "set_multithreading_enabled",
    "enforce_grad_layout_policy",
]


def check_flag(function, value):
    """TypeError unless `value`, a function's argument called `enabled`, is a bool."""
    if not isinstance(value, bool):
        raise TypeError(f"{function}(): argument 'enabled' (position 1) must be bool, not {type(value).__name__}")


class _Switch(_NoParamDecoratorContextManager):
    _mode = True

    def __init__(self):
        self.prev = False

    def __enter__(self):
        self.prev = _C.is_grad_enabled()
        _C._set_grad_enabled(self._mode)

    def __exit__(self, exc_type, exc_value, traceback):
        _C._set_grad_enabled(self.prev)


class no_grad(_Switch):
    """Inside, no operation is recorded for gradients."""

    _mode = False


class enable_grad(_Switch):
    """Inside, operations are recorded even within `no_grad`."""

    _mode = True


class set_grad_enabled(_DecoratorContextManager):
    """Switches recording on or off, at once; as a context manager, until the end of the block."""

    def __init__(self, mode):
        check_flag("set_grad_enabled", mode)
        self.prev = _C.is_grad_enabled()
        self.mode = mode
        _C._set_grad_enabled(mode)

    def __call__(self, orig_func):
        _C._set_grad_enabled(self.prev)
        return super().__call__(orig_func)

    def __enter__(self):
        _C._set_grad_enabled(self.mode)

    def __exit__(self, exc_type, exc_value, traceback):
        _C._set_grad_enabled(self.prev)

    def __str__(self):
        return f"{type(self).__module__}.{type(self).__qualname__}(mode={self.mode})"

    __repr__ = __str__

    def clone(self):
        """Another manager with the same mode."""
        return self.__class__(self.mode)


class inference_mode(_DecoratorContextManager):
    """`no_grad` that also leaves out version counters and view tracking."""

    def __new__(cls, mode=True):
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls()(mode)

    def __init__(self, mode=True):
        self.mode = mode
        self._guard = None

    def __enter__(self):
        self._guard = _C._InferenceMode(self.mode)
        self._guard.__enter__()

    def __exit__(self, exc_type, exc_value, traceback):
        self._guard.__exit__(exc_type, exc_value, traceback)

    def clone(self):
        """Another manager with the same mode."""
        return self.__class__(self.mode)


class _Setting(_DecoratorContextManager):
    """A flag of the engine, set at once and restored at the end of the block."""

    _value = True

    def __init__(self, mode):
        self.prev = type(self)._value
        self.mode = mode
        type(self)._value = mode

    def __enter__(self):
        pass

    def __exit__(self, exc_type, exc_value, traceback):
        type(self)._value = self.prev

    def clone(self):
        """Another manager with the same mode."""
        return self.__class__(self.mode)


class set_multithreading_enabled(_Setting):
    """Kept for programs that set it; one thread runs a backward pass on a CPU."""


class enforce_grad_layout_policy(_Setting):
    """Kept for programs that set it: gradients follow the layout of their parameters."""

    def __init__(self, enable=True):
        super().__init__(enable)


class _force_original_view_tracking(_Setting):
    _value = False


def is_multithreading_enabled():
    """Whether backward may use several threads."""
    return set_multithreading_enabled._value


def is_view_replay_enabled():
    """Whether views are computed again in backward."""
    return _force_original_view_tracking._value
