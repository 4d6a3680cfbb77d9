"""`Tensor.__rsub__` and its kin as plain functions, which take a number on their left too."""

import gc

from . import _C


def __rsub__(self, other):
    return _C.rsub(self, other)


def __rtruediv__(self, other):
    return _C.reciprocal(self) * other


def __rfloordiv__(self, other):
    return _C.floor_divide(other, self)


def __rpow__(self, other):
    return _C.pow(other, self)


def __rmod__(self, other):
    return _C.remainder(other, self)


def __rmatmul__(self, other):
    return _C.matmul(other, self)


def __rlshift__(self, other):
    return _C.bitwise_left_shift(other, self)


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
