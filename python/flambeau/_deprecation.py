"""Functions that PyTorch has deprecated: they work, and say so."""
import functools
import warnings


def deprecated(message, category=FutureWarning):
    """Decorates a function: every call warns first, at the line of its caller."""

    def decorate(function):
        @functools.wraps(function)
        def warning(*args, **kwargs):
            warnings.warn(message, category, stacklevel=2)
            return function(*args, **kwargs)

        return warning

    return decorate
