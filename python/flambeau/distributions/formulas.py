"""Turns plain functions of parameters into members of a distribution.

A formula names its parameters as arguments, `variance = moment(lambda scale: scale.square())`; they are read from the
distribution when the member is used.
"""
from operator import attrgetter

from .constraints import dependent_property

__all__ = ["at", "checked", "moment", "overall", "region"]


def _reader(formula, skipped):
    code = formula.__code__
    names = code.co_varnames[skipped : code.co_argcount]
    if len(names) < 2:
        return lambda owner: tuple(getattr(owner, name) for name in names)
    return attrgetter(*names)


def _named(method, name, formula):
    """`method`, called as the formula is, or `name` for a formula without one."""
    method.__name__ = name if formula.__name__ == "<lambda>" else formula.__name__
    method.__doc__ = formula.__doc__
    return method


def moment(formula):
    """A property."""
    read = _reader(formula, 0)
    return property(lambda self: formula(*read(self)), doc=formula.__doc__)


def region(formula, **facts):
    """A support that depends on parameters; `is_discrete` and `event_dim` are known without them."""
    read = _reader(formula, 0)
    return dependent_property(lambda self: formula(*read(self)), **facts)


def overall(formula, name="entropy"):
    """A method without arguments."""
    read = _reader(formula, 0)
    return _named(lambda self: formula(*read(self)), name, formula)


def at(formula, name="icdf"):
    """A method of `value`, the formula's first argument."""
    read = _reader(formula, 1)
    return _named(lambda self, value: formula(value, *read(self)), name, formula)


def checked(formula, name="log_prob"):
    """A method of `value`, which must lie in the support where the distribution validates its arguments."""
    read = _reader(formula, 1)

    def method(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return formula(value, *read(self))

    return _named(method, name, formula)
