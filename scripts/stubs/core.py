"""The compiled half of the package: `_C.pyi` and the named results of operators."""

import builtins
import functools
import inspect

from flambeau import _C
from operators import lines, operator, parse
from signatures import Scope
from sources import HEADER, by_hand, headed

PLAIN = Scope({})


@functools.cache
def schemas():
    return {name: tuple(texts) for name, texts in sorted(_C._function_schemas().items())}


def write_class(name, cls, known):
    """A class: what is known of it, and every other public name untyped."""
    head = by_hand("_C").heads.get(name)
    if head is None:
        base = cls.__bases__[0].__name__
        head = f"class {name}({base}):" if base != "object" and hasattr(builtins, base) else f"class {name}:"
    body = []
    for member, rows in known.items():
        if hasattr(cls, member) or member in ("__init__", "__new__"):
            body += rows
    inherited = set(dir(cls.__bases__[0]))
    for member in sorted(vars(cls)):
        if member in known or member in inherited or member.startswith("_"):
            continue
        value = inspect.getattr_static(cls, member)
        body += PLAIN.function(member, value, "self") if callable(value) else [f"{member}: Any"]
    return [head, *("    " + row for row in body)] if body else [f"{head} ..."]


def tensor_class():
    """The class Tensor: properties, operators as methods, methods written by hand and in Python."""
    tensor, known = _C.Tensor, by_hand("_C").members["Tensor"]
    body = [row for name, rows in known.items() if hasattr(tensor, name) for row in rows]
    for name in sorted(vars(tensor)):
        value = inspect.getattr_static(tensor, name)
        if name in known or name.startswith("__"):
            continue
        if not inspect.isfunction(value) and name in schemas() and callable(value):
            body += lines(name, operator(name, schemas()[name], True), ("self",))
        elif callable(value):
            body += PLAIN.function(name, value, "self")
        elif not name.startswith("_"):
            body.append(f"{name}: Any")
    return ["class Tensor:", *("    " + row for row in body)]


def core():
    """`_C.pyi`."""
    hand = by_hand("_C")
    aliases = [n for n in hand.names if (n.startswith("_") or n == "Number") and not hasattr(_C, n)]
    classes, functions, constants = [], [], []
    for name in sorted(vars(_C)):
        value = getattr(_C, name)
        if name.startswith("__") and name not in schemas() or name in aliases or name == "Tensor":
            continue
        if isinstance(value, type):
            classes += write_class(name, value, hand.members.get(name, {}))
        elif name in hand.names:
            functions += hand.names[name]
        elif name in schemas():
            functions += lines(name, operator(name, schemas()[name], False))
        elif callable(value) and not isinstance(value, (_C.dtype, _C.device)):
            functions += PLAIN.function(name, value)
        elif type(value).__module__ in ("flambeau", "flambeau._C") and hasattr(_C, type(value).__name__):
            constants.append(f"{name}: {type(value).__name__}")
        elif type(value).__name__ != "module":
            constants.append(f"{name}: Any")
    rows = [row for n in aliases for row in hand.names[n]]
    body = ["from . import return_types", "", *rows, "", *classes, *tensor_class(), "", *constants, "", *functions]
    return headed("_C", False, body)


def result_types():
    """`return_types.pyi`: one named tuple per operator whose results have names."""
    rows = [HEADER, "from typing import NamedTuple", "", "from ._C import Tensor", ""]
    for name, texts in schemas().items():
        fields = next((f for f in (parse(s)[1] for s in sorted(texts)) if f), ())
        if fields:
            rows.append(f"class {name}(NamedTuple): " + "; ".join(f"{n}: {k}" for n, k in fields))
    return "\n".join(rows) + "\n"
