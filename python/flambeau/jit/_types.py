"""The types of TorchScript: read from annotations, asked of values, and Python values brought into them."""
from __future__ import annotations

import ast
from typing import Any

import flambeau as _fl

from ._codes import number_of

SIMPLE = {name: name for name in ("Tensor", "int", "float", "bool", "str", "complex", "number", "NoneType", "Device",
                                  "Generator", "Stream", "Storage", "QScheme", "Layout", "ScalarType", "MemoryFormat")}
SIMPLE.update({"None": "NoneType", "Any": "Any", "AnyType": "Any", "AnyListType": "AnyList", "AnyTupleType": "AnyTuple",
               "AnyEnumType": "AnyEnum", "AnyClassType": "Any", "list": "AnyList", "tuple": "AnyTuple",
               "Scalar": "number"})
GENERIC = frozenset(("List", "Dict", "Tuple", "Optional", "Union", "Future", "Await", "RRef", "Final"))
INTEGERS = frozenset(("int", "Layout", "ScalarType", "MemoryFormat", "QScheme"))


class Mismatch(Exception):
    """A Python value that is not of the type; the message says what could not be cast."""


def _cannot_cast(value):
    return Mismatch(f"Unable to cast Python instance of type {type(value)} to C++ type '?' "
                    "(#define PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug mode for details)")


class Type:
    """A type: a kind, the types between its brackets, and the class that it names."""

    __slots__ = ("kind", "args", "script_class")

    def __init__(self, kind: str, args: tuple = (), script_class=None) -> None:
        self.kind, self.args, self.script_class = kind, args, script_class

    def __str__(self) -> str:
        """As an annotation: ``Optional[List[int]]``."""
        if self.kind == "class":
            return self.script_class.name
        if not self.args:
            return "Tuple[()]" if self.kind == "Tuple" else self.kind
        return f"{self.kind}[{', '.join(map(str, self.args))}]"

    def schema(self) -> str:
        """As in an operator's signature: ``int[]?``."""
        inner = [a.schema() for a in self.args]
        if self.kind == "class":
            name = self.script_class.name
            return f"Enum<{name}>" if self.script_class.kind == "enum" else name
        if self.kind in ("Optional", "List"):
            return inner[0] + ("?" if self.kind == "Optional" else "[]")
        if self.kind == "Tuple":
            return f"({', '.join(inner)})"
        if self.kind in ("Dict", "Union", "Future", "Await", "RRef"):
            return f"{self.kind}({', '.join(inner)})"
        return {"number": "Scalar"}.get(self.kind, self.kind)

    def matches(self, value: Any) -> bool:
        """Whether a value of the interpreter is of this type."""
        kind, cls = self.kind, type(value)
        if kind in ("Optional", "Union"):
            return kind == "Optional" and value is None or any(a.matches(value) for a in self.args)
        if kind == "List":
            return cls is list and all(map(self.args[0].matches, value))
        if kind == "Dict":
            return cls is dict and all(self.args[0].matches(k) and self.args[1].matches(v) for k, v in value.items())
        if kind == "Tuple":
            return isinstance(value, tuple) and len(value) == len(self.args) and all(
                a.matches(v) for a, v in zip(self.args, value))
        if kind == "class":
            return self.script_class.has(value)
        return _SIMPLE_CHECKS[kind](value) if kind in _SIMPLE_CHECKS else True

    def convert(self, value: Any) -> Any:
        """A Python value as one of this type, or `Mismatch`; lists and dicts are copied."""
        convert = _CONVERSIONS.get(self.kind)
        return value if convert is None else convert(self, value)


def _plain(value, kinds) -> bool:
    return type(value) in kinds


_SIMPLE_CHECKS = {
    "Tensor": lambda v: isinstance(v, _fl.Tensor),
    "int": lambda v: type(v) is int,
    "float": lambda v: type(v) is float,
    "bool": lambda v: type(v) is bool,
    "str": lambda v: type(v) is str,
    "complex": lambda v: type(v) is complex,
    "number": lambda v: type(v) in (int, float, complex, bool),
    "NoneType": lambda v: v is None,
    "Device": lambda v: isinstance(v, _fl.device),
    "Generator": lambda v: isinstance(v, _fl.Generator),
    "AnyList": lambda v: type(v) is list,
    "AnyTuple": lambda v: isinstance(v, tuple),
}
_SIMPLE_CHECKS.update((kind, _SIMPLE_CHECKS["int"]) for kind in INTEGERS)


# ---- from Python -------------------------------------------------------------------------------------------


def _to_tensor(self, value):
    if not isinstance(value, _fl.Tensor):
        raise Mismatch(f"Unable to cast {value!r} to Tensor")
    return value


def _to_int(self, value):
    if type(value) is int:
        return value
    code = number_of(value)
    if code is not None:
        return code
    if isinstance(value, (float, complex, str)) or not hasattr(value, "__index__"):
        raise _cannot_cast(value)
    try:
        return int(value.__index__())
    except (TypeError, ValueError, RuntimeError):
        raise _cannot_cast(value) from None


def _to_float(self, value):
    if isinstance(value, (str, complex)) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise _cannot_cast(value)
    return float(value)


def _to_bool(self, value):
    if type(value) is bool:
        return value
    if value is None:
        return False
    if isinstance(value, (str, list, dict, tuple)) or not hasattr(value, "__bool__"):
        raise _cannot_cast(value)
    return bool(value)


def _to_str(self, value):
    if not isinstance(value, str):
        raise _cannot_cast(value)
    return str(value)


def _to_complex(self, value):
    if isinstance(value, str) or not any(hasattr(value, n) for n in ("__complex__", "__float__", "__index__")):
        raise _cannot_cast(value)
    return complex(value)


def _to_number(self, value):
    if isinstance(value, _fl.Tensor) and value.numel() == 1:
        return value.item()
    code = number_of(value)
    if code is not None:
        return code
    if isinstance(value, bool) or not isinstance(value, (int, float, complex)):
        if isinstance(value, bool):
            return value
        raise Mismatch(f"Cannot cast {value!r} to Number")
    return value


def _to_none(self, value):
    if value is not None:
        raise Mismatch(f"Cannot cast {value!r} to None")
    return None


def _to_device(self, value):
    if isinstance(value, _fl.device):
        return value
    if isinstance(value, str):
        return _fl.device(value)
    raise _cannot_cast(value)


def _to_generator(self, value):
    if not isinstance(value, _fl.Generator):
        raise _cannot_cast(value)
    return value


def _to_optional(self, value):
    return None if value is None else self.args[0].convert(value)


def _to_union(self, value):
    for option in self.args:
        if option.matches(value):
            return option.convert(value)
    for option in self.args:
        try:
            return option.convert(value)
        except Mismatch:
            pass
    raise Mismatch(f"Expected a member of {self} but instead found type {type(value).__name__}")


def _to_list(self, value):
    if isinstance(value, (str, dict)) or not (isinstance(value, (list, tuple)) or hasattr(value, "__iter__")):
        raise _cannot_cast(value)
    convert = self.args[0].convert
    return [convert(v) for v in value]


def _to_dict(self, value):
    if not isinstance(value, dict):
        raise _cannot_cast(value)
    key, item = self.args
    return {key.convert(k): item.convert(v) for k, v in value.items()}


def _to_tuple(self, value):
    if not isinstance(value, tuple):
        raise _cannot_cast(value)
    if len(value) != len(self.args):
        raise Mismatch(f"Object {value!r} had a different number of elements than type {self}")
    return tuple(a.convert(v) for a, v in zip(self.args, value))


def _to_class(self, value):
    return self.script_class.convert(value)


def _to_any(self, value):
    from ._objects import is_script_value

    if type(value) in (list, tuple):
        return type(value)(_to_any(self, v) for v in value)
    if type(value) is dict:
        return {_to_any(self, k): _to_any(self, v) for k, v in value.items()}
    if value is None or isinstance(value, _fl.Tensor) or type(value) in (int, float, bool, str, complex):
        return value
    code = number_of(value)
    if code is not None:
        return code
    if isinstance(value, (_fl.device, _fl.Generator)) or is_script_value(value):
        return value
    if isinstance(value, tuple):  # torch.Size
        return [_to_any(self, v) for v in value]
    raise Mismatch(f"Type '{type(value)}' cannot be used in TorchScript")


def _to_future(self, value):
    from . import Future

    if not isinstance(value, Future):
        raise _cannot_cast(value)
    return value


_CONVERSIONS = {
    "Tensor": _to_tensor, "float": _to_float, "bool": _to_bool, "str": _to_str, "complex": _to_complex,
    "number": _to_number, "NoneType": _to_none, "Device": _to_device, "Generator": _to_generator,
    "Optional": _to_optional, "Union": _to_union, "List": _to_list, "Dict": _to_dict, "Tuple": _to_tuple,
    "class": _to_class, "Any": _to_any, "AnyList": _to_any, "AnyTuple": _to_any, "Future": _to_future,
}  # fmt: skip
_CONVERSIONS.update((kind, _to_int) for kind in INTEGERS)


# ---- from annotations --------------------------------------------------------------------------------------


def dotted(node) -> list[str] | None:
    """The parts of ``a.b.c``; None for other expressions."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return [node.id, *reversed(parts)]


def read_type(node, find_class) -> Type:
    """The type that an annotation means; `find_class` finds classes by qualified name."""
    if isinstance(node, ast.Constant) and node.value is None:
        return Type("NoneType")
    if isinstance(node, ast.Name) and node.id in SIMPLE:
        return Type(SIMPLE[node.id])
    parts = dotted(node)
    if parts is not None and parts[0] == "__torch__":
        return Type("class", (), find_class(".".join(parts)))
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in GENERIC:
        inside = node.slice
        items = inside.elts if isinstance(inside, ast.Tuple) else [inside]
        kind = node.value.id
        if kind == "Final":
            return read_type(inside, find_class)
        if len(items) != {"Tuple": len(items), "Union": len(items), "Dict": 2}.get(kind, 1):
            raise RuntimeError(f"Wrong number of types for {kind}: {ast.unparse(node)}")
        return Type(kind, tuple(read_type(item, find_class) for item in items))
    raise RuntimeError(f"Unknown type name '{ast.unparse(node)}'")
