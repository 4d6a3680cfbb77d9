"""`torch._check` and its relatives: conditions that libraries assert, each with its exception."""
import warnings

from . import _C

_FAILED = (
    "Expected cond to be True, but got False. (Could this error message be improved? "
    "If so, please report an enhancement request to PyTorch.)"
)


def _message(message):
    if message is None:
        return _FAILED
    if not callable(message):
        raise TypeError("message must be a callable")
    return str(message())


def _check_with(error_type, cond, message):
    """`error_type` with the text that `message()` gives (or a general one) unless `cond`."""
    if not isinstance(cond, bool):
        if isinstance(cond, _C.Tensor):
            raise TypeError(
                "cond must be a bool, but got a Tensor. For tensor conditions, use torch._check_tensor_all() to assert that "
                "all elements are true."
            )
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not cond:
        raise error_type(_message(message))


def _check(cond, message=None):
    """RuntimeError unless `cond`."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond, message=None):
    """IndexError unless `cond`."""
    _check_with(IndexError, cond, message)


def _check_value(cond, message=None):
    """ValueError unless `cond`."""
    _check_with(ValueError, cond, message)


def _check_type(cond, message=None):
    """TypeError unless `cond`."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond, message=None):
    """NotImplementedError unless `cond`."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i, message=None, *, max=None):
    """RuntimeError unless 0 <= i (<= max)."""
    warnings.warn(
        "_check_is_size will be removed in a future PyTorch release along with guard_size_oblivious. \
    Use _check(i >= 0) instead.",
        FutureWarning,
        stacklevel=2,
    )
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_tensor_all_with(error_type, cond, message=None):
    """`error_type` unless all elements of a bool tensor are true."""
    if not isinstance(cond, _C.Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype != _C.bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, cond.all().item(), message)


def _check_tensor_all(cond, message=None):
    """RuntimeError unless all elements of a bool tensor are true."""
    _check_tensor_all_with(RuntimeError, cond, message)
