"""Operators: their schemas as overloads of functions and of methods."""

import ast
import keyword
import math
import re
from dataclasses import dataclass, replace

ARITHMETIC = frozenset("add sub mul div divide multiply subtract true_divide floor_divide rsub".split())
TYPES = {
    "Tensor": "Tensor", "Scalar": "_Number", "int": "_int", "SymInt": "_int", "float": "_float", "bool": "_bool",
    "str": "str", "ScalarType": "_dtype", "Layout": "_layout", "Device": "_Device", "MemoryFormat": "_memory_format",
    "Generator": "Generator", "Storage": "UntypedStorage",
}  # fmt: skip
RETURNS = {**TYPES, "Scalar": "Number"}


# ---- schemas -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Param:
    """A parameter: the members of its type's union, its default as source text (None: it has none)."""

    name: str
    types: tuple
    default: str | None = None
    keyword: bool = False
    star: bool = False
    written: bool = False

    def __str__(self):
        text = f"{'*' * self.star}{self.name}: {' | '.join(self.types)}"
        return text if self.default is None else f"{text} = {self.default}"


@dataclass(frozen=True)
class Signature:
    """One overload."""

    params: tuple
    returns: str
    outs: int = 0

    def text(self, name, first=()):
        shown = list(first)
        star = False
        for p in self.params:
            if p.keyword and not star and not any(q.star for q in self.params):
                shown.append("*")
                star = True
            shown.append(str(p))
        return f"def {name}({', '.join(shown)}) -> {self.returns}: ..."


def split(text):
    """The parts between commas that stand in no brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [p for p in (*parts, text[start:].strip()) if p]


_TYPE = re.compile(r"(\w+)(\([^)]*\))?((?:\?|\[\d*\])*)$")


def type_of(text, table=TYPES):
    """(members of the union, whether it is an open list of integers, whether it is written)."""
    base, alias, suffix = _TYPE.match(text).groups()
    one = table.get(base, "Any")
    optional = suffix.endswith("?")
    suffix = suffix.removesuffix("?")
    if not suffix:
        members = (one,)
    else:
        item = one + " | None" if suffix.startswith("?") else one
        members = (f"Sequence[{item}]",)
        if suffix[-2] != "[" and base != "Tensor":
            members = (one, *members)
    return members + ("None",) * optional, one == "_int" and suffix == "[]", bool(alias and "!" in alias)


def default_of(text):
    """A schema's default as Python has it."""
    if text in ("None", "True", "False") or text.startswith('"'):
        return text
    if text.startswith("["):
        items = split(text[1:-1])
        return items[0] if items and len(set(items)) == 1 else f"({', '.join(items)}{',' * (len(items) == 1)})"
    try:
        number = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return "..."
    return repr(number) if not isinstance(number, float) or math.isfinite(number) else "..."


def returns_of(text, name):
    """The Python type of what an operator returns."""
    parts = split(text[1:-1]) if text.startswith("(") else [text]
    kinds, names = [], []
    for part in parts:
        kind, _, label = part.rpartition(" ") if re.search(r"[\])\w] \w+$", part) else (part, "", "")
        members, _, _ = type_of(kind, RETURNS)
        kind = " | ".join(members)
        kinds.append(re.sub(r"^Sequence\[(.*)\]$", r"tuple[\1, ...]", kind))
        names.append(label)
    if not kinds:
        return "None", ()
    if len(kinds) == 1:
        return kinds[0], ()
    if all(names) and not name.startswith("_"):
        return f"return_types.{name}", tuple(zip(names, kinds))
    return f"tuple[{', '.join(kinds)}]", ()


def parse(schema):
    """(signature, named results, index of `self` if it is a tensor) of a schema."""
    head, returns = schema.split(" -> ") if schema.count(" -> ") == 1 else re.split(r"(?<=\)) -> ", schema, maxsplit=1)
    full, inner = head.split("(", 1)
    name = full.split(".")[0]
    params, this, is_keyword = [], None, False
    for text in split(inner.rstrip()[:-1]):
        if text == "*":
            is_keyword = True
            continue
        kind, label = re.match(r"(.*\S) (\S+)$", text.split("=")[0]).groups()
        default = default_of(text.split("=", 1)[1]) if "=" in text else None
        types, open_list, written = type_of(kind)
        if types[0].startswith(("_dtype", "_layout", "_memory_format")) and default != "None" and default is not None:
            default = "..."
        if default == "()" and "None" not in types:
            types += ("None",)  # as nothing given
        if label == "self" and types == ("Tensor",):
            this = len(params)
        params.append(Param(label, types, default, is_keyword, written=written))
    kind, fields = returns_of(returns, name)
    outs = sum(p.written and p.keyword for p in params)
    return Signature(tuple(params), kind, outs), fields, this


def spread(signature):
    """The form with sizes as separate arguments, if it has one: its only positional parameter lists integers."""
    positional = [p for p in signature.params if not p.keyword]
    if len(positional) != 1 or "Sequence[_int]" not in positional[0].types or "_int" in positional[0].types:
        return []
    star = Param(positional[0].name, ("_int",), star=True)
    return [replace(signature, params=(star, *(p for p in signature.params if p.keyword)))]


def merge(a, b):
    """One signature for both, if they differ in the type of one parameter only."""
    shape = [(p.name, p.default, p.keyword, p.star) for p in a.params]
    if a.returns != b.returns or shape != [(p.name, p.default, p.keyword, p.star) for p in b.params]:
        return None
    different = [i for i, (p, q) in enumerate(zip(a.params, b.params)) if p.types != q.types]
    if len(different) > 1:
        return None
    params = list(a.params)
    for i in different:
        members = dict.fromkeys((*a.params[i].types, *b.params[i].types))
        members = [m for m in members if m != "None"] + ["None"] * ("None" in members)
        params[i] = replace(params[i], types=tuple(members))
    return replace(a, params=tuple(params))


def covers(a, b):
    """Whether every call that fits `b` fits `a` too, with the same result."""
    if a.returns != b.returns or any(p.star for p in (*a.params, *b.params)):
        return False
    fits = lambda p, q: (  # noqa: E731
        p.name == q.name and set(p.types) >= set(q.types) and (q.default is None or p.default is not None)
    )
    ours = [p for p in a.params if not p.keyword]
    theirs = [p for p in b.params if not p.keyword]
    if len(theirs) > len(ours) or not all(map(fits, ours, theirs)):
        return False
    rest = {p.name: p for p in (*ours[len(theirs):], *a.params[len(ours):])}  # fmt: skip
    for q in b.params[len(theirs):]:  # fmt: skip
        p = rest.pop(q.name, None)
        if p is None or not fits(p, q):
            return False
    return all(p.default is not None for p in rest.values())


def condensed(signatures):
    """As few signatures as say the same."""
    found = []
    for s in signatures:
        for i, known in enumerate(found):
            merged = merge(known, s)
            if merged:
                found[i] = merged
                break
        else:
            found.append(s)
    if len(found) < len(signatures):
        return condensed(found)
    return [s for i, s in enumerate(found)
            if not any(covers(o, s) and (j < i or not covers(s, o)) for j, o in enumerate(found) if j != i)]  # fmt: skip


def with_outputs(plain, outs):
    """The signatures with their `out=` forms folded in."""
    result, outs = [], list(outs)
    for s in plain:
        is_factory = {"dtype", "layout", "device"} <= {p.name for p in s.params}
        wanted = [(p.name, p.types) for p in s.params]
        for o in outs:
            theirs = [(p.name, p.types) for p in o.params if not p.written]
            if theirs == wanted or (is_factory and theirs == wanted[: len(theirs)]):
                outs.remove(o)
                kind = "Tensor" if o.outs == 1 else "Sequence[Tensor]"
                out = Param("out", (kind, "None"), "None", keyword=True)
                s = replace(s, params=(*s.params, out))
                break
        if is_factory:
            s = replace(s, params=(*s.params, Param("requires_grad", ("_bool",), "False", keyword=True)))
        result.append(s)
    for o in outs:
        kind = "Tensor" if o.outs == 1 else "Sequence[Tensor]"
        kept = tuple(p for p in o.params if not p.written)
        result.append(replace(o, params=(*kept, Param("out", (kind,), keyword=True))))
    return result


def legal(p):
    return replace(p, name=p.name + "_") if keyword.iskeyword(p.name) else p


def operator(name, schemas, method):
    """The overloads of an operator as a function or as a method."""
    parsed = [parse(s) for s in sorted(schemas)]
    numbers = name.removesuffix("_") in ARITHMETIC
    plain, outs = [], []
    for s, _, this in parsed:
        if method and (this is None or s.outs):
            continue
        if numbers and len(s.params) > 1 and s.params[1].types == ("_Number",):
            continue
        in_place = this is not None and s.params[this].written
        params = [p for i, p in enumerate(s.params) if not method or i != this]
        if numbers:
            params = [replace(p, types=("Tensor", "_Number")) if p.types == ("Tensor",) and not p.written else p
                      for p in params]  # fmt: skip
        if all(p.name != "input" for p in params):
            params = [replace(p, name="input") if p.name == "self" else p for p in params]
        returns = "Self" if method and in_place and s.returns == "Tensor" else s.returns
        s = replace(s, params=tuple(map(legal, params)), returns=returns)
        (outs if s.outs else plain).append(s)
    plain.sort(key=lambda s: len(s.params))
    signatures = condensed(with_outputs(plain, outs))
    has_self = not method and any(this is not None for _, _, this in parsed)
    spreads = [] if has_self else [x for s in signatures for x in spread(s)]
    return signatures + spreads


def lines(name, signatures, first=()):
    """The lines of a function's stub."""
    texts = list(dict.fromkeys(s.text(name, first) for s in signatures))
    return texts if len(texts) == 1 else [line for t in texts for line in ("@overload", t)]
