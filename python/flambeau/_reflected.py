"""`Tensor.__rsub__` and its kin as plain functions, which take a number on their left too."""

import functools
import gc

from . import _C


def _or_not_implemented(function):
    """What takes no such operand leaves the operation to the operand's type."""

    @functools.wraps(function)
    def method(self, other):
        try:
            return function(self, other)
        except TypeError:
            return NotImplemented

    return method


def _of_tensors(function):
    """As PyTorch's slots of the type: nothing but a tensor stands in front."""

    @functools.wraps(function)
    def method(self, other):
        if not isinstance(self, _C.Tensor):
            kind = type(self).__name__
            raise TypeError(f"descriptor '{function.__name__}' for 'Tensor' objects doesn't apply to a '{kind}' object")
        return function(self, other)

    return method


@_of_tensors
@_or_not_implemented
def __radd__(self, other):
    return _C.add(self, other)


@_of_tensors
@_or_not_implemented
def __rmul__(self, other):
    return _C.mul(self, other)


@_or_not_implemented
def __rsub__(self, other):
    return _C.rsub(self, other)


@_or_not_implemented
def __rtruediv__(self, other):
    return self.reciprocal() * other


@_or_not_implemented
def __rfloordiv__(self, other):
    return _C.floor_divide(other, self)


@_or_not_implemented
def __rpow__(self, other):
    return _C.pow(other, self)


@_or_not_implemented
def __rmod__(self, other):
    return _C.remainder(other, self)


@_or_not_implemented
def __rmatmul__(self, other):
    return _C.matmul(other, self)


@_or_not_implemented
def __rlshift__(self, other):
    return _C.bitwise_left_shift(other, self)


@_or_not_implemented
def __rrshift__(self, other):
    return _C.bitwise_right_shift(other, self)


def install(cls):
    """Puts the functions where `Tensor.__rsub__` is looked up.

    Assigning them would replace the type's own slots, by which `2 - x` is three times as fast; so they go into the
    type's dictionary itself, which the proxy refers to.
    """
    (namespace,) = gc.get_referents(cls.__dict__)
    for name, function in list(globals().items()):
        if name.startswith("__r") and callable(function):
            namespace[name] = function
