"""Dictionaries that tell their keys by identity and do not keep them alive: tensors compare by value."""
import weakref
from collections.abc import MutableMapping

__all__ = ["TensorWeakRef", "WeakIdRef", "WeakIdKeyDictionary", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):
    """A weak reference that is equal to those of the same object, and to itself once that is gone."""

    __slots__ = ("_id",)

    def __init__(self, key, callback=None):
        super().__init__(key, callback)
        self._id = id(key)

    def __hash__(self):
        return self._id

    def __eq__(self, other):
        mine, others = self(), other()
        return mine is others if mine is not None and others is not None else self is other


class TensorWeakRef:
    """A weak reference to a tensor."""

    __slots__ = ["ref"]

    def __init__(self, tensor):
        from .. import Tensor

        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}.")
        self.ref = weakref.ref(tensor)

    def __call__(self):
        return self.ref()


class WeakIdKeyDictionary(MutableMapping):
    """A dictionary whose entries go when their keys do."""

    def __init__(self, dict=None, ref_type=WeakIdRef):
        self.data = {}
        self.ref_type = ref_type
        own = weakref.ref(self)

        def remove(reference):
            there = own()
            if there is not None:
                there.data.pop(reference, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key):
        return self.data[self.ref_type(key)]

    def __setitem__(self, key, value):
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key):
        del self.data[self.ref_type(key)]

    def __contains__(self, key):
        try:
            return self.ref_type(key) in self.data
        except TypeError:
            return False

    def __len__(self):
        return len(self.data)

    def __iter__(self):
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def keyrefs(self):
        """The references, some of which may be dead by the time they are used."""
        return list(self.data)

    def copy(self):
        """A dictionary with the same entries."""
        made = WeakIdKeyDictionary(ref_type=self.ref_type)
        made.update(self)
        return made

    __copy__ = copy

    def __deepcopy__(self, memo):
        from copy import deepcopy

        made = type(self)()
        for key, value in self.items():
            made[key] = deepcopy(value, memo)
        return made

    def __ior__(self, other):
        self.update(other)
        return self

    def __or__(self, other):
        if not hasattr(other, "items"):
            return NotImplemented
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other):
        if not hasattr(other, "items"):
            return NotImplemented
        made = type(self)()
        made.update(other)
        made.update(self)
        return made

    def __eq__(self, other):
        if not hasattr(other, "items"):
            return NotImplemented
        return {id(k): v for k, v in self.items()} == {id(k): v for k, v in other.items()}

    def __repr__(self):
        return f"<{type(self).__name__} at {id(self):#x}>"


WeakTensorKeyDictionary = WeakIdKeyDictionary
