"""Declared sizes of the tensors that an exported program takes."""
import enum
from dataclasses import dataclass

__all__ = ["AdditionalInputs", "Constraint", "Dim", "ShapesCollection", "dims"]

_UNBOUNDED = float("inf")


class _HintKind(enum.Enum):
    AUTO = enum.auto()
    STATIC = enum.auto()
    DYNAMIC = enum.auto()


@dataclass
class _DimHint:
    """What is to be found out about a size: `Dim.AUTO`, `Dim.DYNAMIC(min=2)`, `Dim.STATIC`."""

    type: _HintKind
    min: "int | None" = None
    max: "int | None" = None
    _made: bool = False

    def __call__(self, min=None, max=None):
        if self._made:
            raise TypeError(f"'{type(self).__name__}' object is not callable")
        if min is not None and min < 0 or max is not None and max < 0:
            raise AssertionError("min and max must be non-negative")
        if min is not None and max is not None and min > max:
            raise AssertionError("min must be <= max")
        return _DimHint(self.type, min, max, True)

    def __repr__(self):
        bounds = "".join(f", {name}={value}" for name, value in (("min", self.min), ("max", self.max)) if value is not None)
        return f"DimHint({self.type.name}{bounds})"


class Dim:
    """A named size between `min` and `max`; `2 * d + 1` is a size that follows from it."""

    AUTO = _DimHint(_HintKind.AUTO)
    DYNAMIC = _DimHint(_HintKind.DYNAMIC)
    STATIC = _DimHint(_HintKind.STATIC)

    def __init__(self, name, *, min=None, max=None):
        low, high = 0 if min is None else min, _UNBOUNDED if max is None else max
        if not isinstance(min, tuple) and not isinstance(max, tuple) and high <= low:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__, self.min, self.max = name, low, high

    def __add__(self, other):
        self._check("add", other, "to", 0)
        return _Derived(self, lambda size: size + other, f"{self.__name__} + {other}")

    __radd__ = __add__

    def __sub__(self, other):
        self._check("subtract", other, "from", 0)
        return _Derived(self, lambda size: size - other, f"{self.__name__} - {other}")

    def __rsub__(self, other):
        raise NotImplementedError(f"Attempted to negate {self.__name__}. "
                                  "(Only increasing linear operations with integer coefficients are supported.)")  # fmt: skip

    def __mul__(self, other):
        self._check("multiply", other, "with", 1)
        return _Derived(self, lambda size: size * other, f"{other}*{self.__name__}")

    __rmul__ = __mul__

    def _check(self, verb, other, preposition, least):
        if type(other) is not int or other < least:
            kind = "a positive integer" if least else "an integer"
            raise NotImplementedError(
                f"Attempted to {verb} {other} {preposition} {self.__name__}, where {kind} was expected. "
                "(Only increasing linear operations with integer coefficients are supported.)"
            )

    def __repr__(self):
        low = f", min={self.min}" if self.min != 2 else ""
        high = f", max={self.max}" if self.max != _UNBOUNDED else ""
        return f"Dim('{self.__name__}'{low}{high})"


class _Derived(Dim):
    """A size that follows from another one."""

    def __init__(self, root, fn, name):
        self.__name__, self.root, self.fn = name, root if not isinstance(root, _Derived) else root.root, fn
        inner = root.fn if isinstance(root, _Derived) else None
        self.fn = (lambda size: fn(inner(size))) if inner else fn

    @property
    def min(self):
        return self.fn(self.root.min)

    @property
    def max(self):
        return self.fn(self.root.max)

    def __repr__(self):
        return self.__name__


Constraint = Dim


def dims(*names, min=None, max=None):
    """A `Dim` of each name, with the same bounds."""
    return tuple(Dim(name, min=min, max=max) for name in names)


class ShapesCollection:
    """Declared sizes by tensor: `shapes[tensor] = (dim, None)`."""

    def __init__(self):
        self._shapes = {}

    def __setitem__(self, tensor, shape):
        known = self._shapes.setdefault(id(tensor), (tensor, shape))[1]
        if known != shape:
            raise AssertionError(f"Shapes assigned to input is a mismatch: {known} and {shape}")

    def __getitem__(self, tensor):
        return self._shapes.setdefault(id(tensor), (tensor, {}))[1]

    def __len__(self):
        return len(self._shapes)

    def dynamic_shapes(self, m, args, kwargs=None):
        """The declared sizes in the structure of a call's arguments."""
        from ..utils._pytree import tree_map

        def declared(value):
            entry = self._shapes.get(id(value))
            return entry[1] if entry else None

        return tree_map(declared, (*args, *(kwargs or {}).values()))


class AdditionalInputs:
    """Further arguments of a program, from which varying sizes can be seen."""

    def __init__(self):
        self._examples = []

    def add(self, args, kwargs=None):
        """Another call's arguments."""
        if type(args) is not tuple:
            raise AssertionError(f"Representative args {args} must be a tuple")
        if kwargs is not None and type(kwargs) is not dict:
            raise AssertionError(f"Representative kwargs {kwargs} must be None or a dict")
        self._examples.append((args, kwargs))
