"""The size of a ragged dimension: a number that is known by name only."""
from ..._symbolic import SymInt

__all__ = ["NestedInt"]


class NestedInt(SymInt):
    """The size `j<number>` of a ragged dimension, or a multiple of it.

    Two are equal where they come from the same offsets. All that is known beside is that it is at least 2, as a compiler
    would assume: other comparisons are a ValueError.
    """

    __slots__ = ("_number", "_factor")
    __module__ = "flambeau"

    def __new__(cls, number, factor=1):
        self = object.__new__(cls)
        self._number, self._factor = number, factor
        return self

    node = property(lambda self: self)

    def nested_int(self):
        """The number of its name."""
        return self._number

    def nested_int_coeff(self):
        """What it is a multiple by."""
        return self._factor

    def is_nested_int(self):
        return True

    def is_symbolic(self):
        return False

    def maybe_as_int(self):
        """None: it is no plain number."""
        return None

    def __repr__(self):
        return f"j{self._number}" if self._factor == 1 else f"{self._factor}*j{self._number}"

    def __hash__(self):
        return hash((self._number, self._factor))

    def __bool__(self):
        return True

    def __eq__(self, other):
        return isinstance(other, NestedInt) and (self._number, self._factor) == (other._number, other._factor)

    def __ne__(self, other):
        return not self == other

    def __ge__(self, other):
        if isinstance(other, NestedInt) and other._number == self._number:
            return self._factor >= other._factor
        return self._at_least(other, 2)

    def __gt__(self, other):
        if isinstance(other, NestedInt) and other._number == self._number:
            return self._factor > other._factor
        return self._at_least(other, 1)

    def __le__(self, other):
        return not self > other

    def __lt__(self, other):
        return not self >= other

    @staticmethod
    def _at_least(other, limit):
        """True for a number that is at most `limit`; nothing is known of others."""
        if isinstance(other, int) and other <= limit:
            return True
        raise ValueError("ge: relation is indeterminate")

    def __mul__(self, other):
        if isinstance(other, NestedInt) or not isinstance(other, int):
            raise ValueError(f"unsupported: {type(other)}")
        return NestedInt(self._number, self._factor * other)

    __rmul__ = __mul__


def _unknown(name):
    def refused(self, *others):
        raise AttributeError(f"'NestedIntNode' object has no attribute '{name}'")

    return refused


for _method, _name in {
    "__int__": "int_", "__float__": "int_", "__index__": "int_", "__neg__": "neg", "__add__": "add", "__radd__": "add",
    "__sub__": "sub", "__rsub__": "sub", "__mod__": "mod", "__rmod__": "mod", "__floordiv__": "int_floordiv",
    "__rfloordiv__": "int_floordiv", "__truediv__": "int_truediv", "__rtruediv__": "int_truediv",
    "__pow__": "pow_by_natural",
}.items():
    setattr(NestedInt, _method, _unknown(_name))
