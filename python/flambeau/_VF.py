"""The core's functions by their names, where modules written for PyTorch call them as `_VF.lstm(...)`."""
from . import _C


def __getattr__(name):
    try:
        return getattr(_C, name)
    except AttributeError:
        raise AttributeError(f"module 'flambeau._VF' has no attribute '{name}'") from None


def __dir__():
    return dir(_C)
