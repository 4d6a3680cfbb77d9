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
    namespace = _namespace(cls)
    for name, function in list(globals().items()):
        if name.startswith("__r") and callable(function):
            if name in namespace:
                _OF_SLOTS[name] = namespace[name]
            namespace[name] = function
    cls.__init_subclass__ = classmethod(functools.partial(_keep_slots, cls))


_OF_SLOTS = {}  # what of the type's own the functions replaced


def _namespace(cls):
    (namespace,) = gc.get_referents(cls.__dict__)
    return namespace


def _keep_slots(base, cls, **kwargs):
    """Gives a subclass the type's slots back.

    A new class that finds a function under `__rsub__` gets a slot that looks it up, and takes its turn before the left
    operand's: `x / parameter` would be the product with a reciprocal. A class with such a method of its own keeps that;
    one that is asked about functions is asked about `add`, as by PyTorch, also where the number stands in front.
    """
    super(base, cls).__init_subclass__(**kwargs)
    of_class, of_base = (getattr(c.__torch_function__, "__func__", c.__torch_function__) for c in (cls, base))
    plain = of_class is of_base or of_class is _C._disabled_torch_function_impl
    inherited = [n for n in _OF_SLOTS if next(c for c in cls.__mro__ if n in c.__dict__) is base]
    if not plain:
        inherited = [n for n in inherited if n not in ("__radd__", "__rmul__")]
    for name in inherited:
        type.__setattr__(cls, name, _OF_SLOTS[name])
    namespace = _namespace(cls)
    for name in inherited:
        del namespace[name]
    type.__setattr__(cls, "__module__", cls.__module__)  # what was looked up meanwhile is forgotten
