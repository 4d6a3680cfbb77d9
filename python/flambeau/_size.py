"""`Size`: the shape of a tensor, a tuple of integers."""
from operator import index as _index

from . import _C

_new = tuple.__new__


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
        if not isinstance(other, tuple):
            raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to torch.Size")
        return Size(tuple.__add__(self, other))

    def __radd__(self, other):
        return Size(tuple.__add__(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times):
        return _new(Size, tuple(self) * times)

    __rmul__ = __mul__

    def __reduce__(self):
        return Size, (tuple(self),)
