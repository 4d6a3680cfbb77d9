"""`Size`: the shape of a tensor, a tuple of integers."""
from collections.abc import Sequence as _Sequence
from numbers import Integral as _Integral
from operator import index as _index

from . import _C

_new = tuple.__new__


def _reflected(other, name, size):
    """What the other operand makes of `size + other`: arrays take a size for one of them. Nothing is tried after the
    method of a tuple's class refuses, so it asks before."""
    method = getattr(type(other), name, None)
    return NotImplemented if method is None else method(other, size)


class Size(_C._SizeBase):
    """Sizes of a tensor's dimensions."""

    __slots__ = ()
    __module__ = "flambeau"

    def __new__(cls, *sizes):
        self = _new(cls, *sizes)
        if all(type(item) is int for item in self):
            return self
        whole = []
        for place, item in enumerate(self):
            try:
                whole.append(_index(item))
            except AttributeError:
                if not hasattr(item, "nested_int"):
                    raise
                whole.append(item)  # the size of a ragged dimension
            except TypeError:
                kind = type(item).__name__
                raise TypeError(f"torch.Size() takes an iterable of 'int' (item {place} is '{kind}')") from None
        return _new(cls, whole)

    def numel(self):
        """How many elements a tensor of this size has."""
        product = 1
        for n in self:
            product *= n
        return product

    def __repr__(self):
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __add__(self, other):
        if isinstance(other, tuple):
            return Size(tuple.__add__(self, other))
        answer = _reflected(other, "__radd__", self)
        if answer is NotImplemented:
            raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to torch.Size")
        return answer

    def __radd__(self, other):
        return Size(tuple.__add__(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times):
        answer = NotImplemented if isinstance(times, (_Integral, _Sequence)) else _reflected(times, "__rmul__", self)
        return self.__rmul__(times) if answer is NotImplemented else answer

    def __rmul__(self, times):
        return _new(Size, tuple(self) * times)

    def __reduce__(self):
        return Size, (tuple(self),)
