"""Keys and paths into trees, and which tuples have names."""
import dataclasses
from typing import Generic, Protocol, TypeVar

T, K = TypeVar("T"), TypeVar("K")


class KeyEntry(Protocol):
    """What a path consists of."""

    def __hash__(self): ...

    def __eq__(self, other): ...

    def __str__(self): ...

    def get(self, parent):
        """The part of a container that the key stands for."""


KeyPath = tuple[KeyEntry, ...]


@dataclasses.dataclass(frozen=True)
class SequenceKey(Generic[T]):
    """A place in a sequence."""

    idx: int

    def __str__(self):
        return f"[{self.idx!r}]"

    def get(self, sequence):
        """The element there."""
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey(Generic[K, T]):
    """A key of a mapping."""

    key: K

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, mapping):
        """The value under it."""
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """The name of an attribute."""

    name: str

    def __str__(self):
        return f".{self.name}"

    def get(self, obj):
        """The attribute's value."""
        return getattr(obj, self.name)


def keystr(kp):
    """A path as it would be written in Python."""
    return "".join(map(str, kp))


def key_get(obj, kp):
    """What a path leads to."""
    for key in kp:
        obj = key.get(obj)
    return obj


def is_namedtuple_class(cls):
    """Whether a class was made by `namedtuple`, or derives from one that was."""
    if not (isinstance(cls, type) and issubclass(cls, tuple)):
        return False
    fields = getattr(cls, "_fields", None)
    return (
        type(fields) is tuple
        and all(type(field) is str for field in fields)
        and all(callable(getattr(cls, name, None)) for name in ("_make", "_asdict"))
    )


def is_namedtuple_instance(obj):
    """Whether a value is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj):
    """Whether this is a named tuple or a class of them."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls):
    """Whether a class is of tuples with names made in native code, as `time.struct_time` and `return_types.max`."""
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(isinstance(getattr(cls, n, None), int) for n in ("n_fields", "n_sequence_fields", "n_unnamed_fields"))
    )


def is_structseq_instance(obj):
    """Whether a value is a tuple with names made in native code."""
    return is_structseq_class(type(obj))


def is_structseq(obj):
    """Whether this is a tuple with names made in native code, or a class of them."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))
