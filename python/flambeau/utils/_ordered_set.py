"""A set that keeps the order in which its elements came."""
from collections.abc import MutableSet, Set

__all__ = []


class OrderedSet(MutableSet):
    """A set in order of insertion, with the methods of Python's; it reverses, pops from the end, and pickles."""

    __slots__ = ("_dict",)

    def __init__(self, iterable=None):
        self._dict = dict.fromkeys(iterable) if iterable is not None else {}

    @classmethod
    def _from_iterable(cls, it):
        return cls(it)

    def __contains__(self, elem):
        return elem in self._dict

    def __iter__(self):
        return iter(self._dict)

    def __reversed__(self):
        return reversed(self._dict)

    def __len__(self):
        return len(self._dict)

    def add(self, elem):
        self._dict[elem] = None

    def discard(self, elem):
        self._dict.pop(elem, None)

    def clear(self):
        self._dict.clear()

    def pop(self):
        """The element that came last, taken out; KeyError if there is none."""
        if not self:
            raise KeyError("pop from an empty set")
        return self._dict.popitem()[0]

    def copy(self):
        return type(self)(self)

    def update(self, *others):
        for other in others:
            for elem in other:
                self.add(elem)

    def union(self, *others):
        joined = self.copy()
        joined.update(*others)
        return joined

    def intersection(self, *others):
        return type(self)(x for x in self if all(x in other for other in map(_as_set, others)))

    def intersection_update(self, other):
        self._dict = self.intersection(other)._dict

    def difference(self, *others):
        return type(self)(x for x in self if not any(x in other for other in map(_as_set, others)))

    def difference_update(self, *others):
        self._dict = self.difference(*others)._dict

    def symmetric_difference(self, other):
        return self ^ type(self)(other)

    def symmetric_difference_update(self, other):
        self ^= type(self)(other)

    def issubset(self, other):
        return self <= _as_set(other)

    def issuperset(self, other):
        return self >= _as_set(other)

    def __eq__(self, other):
        return isinstance(other, Set) and len(self) == len(other) and all(x in other for x in self)

    __hash__ = None

    def __getstate__(self):
        return list(self._dict)

    def __setstate__(self, state):
        self._dict = dict.fromkeys(state)

    def __repr__(self):
        return f"{type(self).__name__}({list(self)})"


def _as_set(other):
    return other if isinstance(other, Set) else set(other)
