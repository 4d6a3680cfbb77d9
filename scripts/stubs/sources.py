"""What is written by hand, and the head of a stub: the imports that its lines need."""

import ast
import functools
import pathlib
import re

BY_HAND = pathlib.Path(__file__).resolve().parent / "by_hand"
HEADER = "# Made by scripts/stubs."

# Where names in stubs come from.
_IMPORTS = {
    "builtins": [f"{n} as _{n}" for n in ("bool", "complex", "float", "int", "slice", "type")],
    "collections": ["OrderedDict"],
    "collections.abc": "Callable Hashable Iterable Iterator Mapping MutableMapping Sequence Sized".split(),
    "types": ["EllipsisType", "ModuleType"],
    "typing": "Any ClassVar Generic Literal NamedTuple SupportsIndex TypeVar Union overload".split(),
    "typing_extensions": ["Self"],
    "numpy": ["ndarray as _ndarray"],
}
CORE = (
    "Generator", "Number", "Size", "Tensor", "UntypedStorage", "_Device", "_Number", "_device", "_dtype", "_layout",
    "_memory_format",
)  # fmt: skip
KNOWN = frozenset(n.split()[-1] for names in _IMPORTS.values() for n in names) | frozenset(CORE)


class Hand:
    """What is written by hand for a module: its names, and those of its classes' members."""

    def __init__(self, path):
        source = path.read_text() if path.exists() else ""
        self.rows = source.splitlines()
        self.names, self.heads, self.members, self.imports = {}, {}, {}, []
        for node in ast.parse(source).body:
            if isinstance(node, ast.ImportFrom):
                self.imports.append(ast.unparse(node))
                continue
            self._add(self.names, node, 0)
            if isinstance(node, ast.ClassDef):
                self.heads[node.name] = self.rows[node.lineno - 1].removesuffix(" ...")
                table = self.members.setdefault(node.name, {})
                for member in node.body:
                    if not isinstance(member, ast.Expr):
                        self._add(table, member, 4)

    def _add(self, table, node, indent):
        start = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
        name = node.name if target is None else target.id
        table.setdefault(name, []).extend(r[indent:] for r in self.rows[start - 1 : node.end_lineno])

    def is_class(self, name):
        return name in self.heads

    def functions(self):
        return {n: rows for n, rows in self.names.items() if any(r.startswith("def ") for r in rows)}


@functools.cache
def by_hand(module):
    return Hand(BY_HAND / f"{module or '__init__'}.pyi")


def relative(module, is_package, home):
    """How a module names another of the package in an import."""
    here = module.split(".") if module else []
    there = home.split(".") if home else []
    base = here if is_package else here[:-1]
    common = 0
    while common < min(len(base), len(there)) and base[common] == there[common]:
        common += 1
    return "." * (len(base) - common + 1) + ".".join(there[common:])


def exported(module, names):
    """The lines that re-export names of a module: `{here: there}`."""
    parts = [f"{there} as {here}" for here, there in sorted(names.items())]
    one = f"from {module} import {', '.join(parts)}"
    if len(one) <= 120:
        return [one]
    rows, row = [], "   "
    for part in parts:
        if len(row) + len(part) + 2 > 120:
            rows.append(row)
            row = "   "
        row += f" {part},"
    return [f"from {module} import (", *rows, row, ")"]


def headed(module, is_package, body, imports=(), own=()):
    """A stub of these lines; `own` are the names that it defines, which need no import."""
    body = [*body]
    words = set(re.findall(r"\w+", "\n".join(body))) - set(own)
    rows = [HEADER]
    for home, names in _IMPORTS.items():
        used = [n for n in names if n.split()[-1] in words]
        rows += [f"from {home} import {', '.join(used)}"] * bool(used)
    if module != "_C":
        used = [n for n in CORE if n in words]
        rows += [f"from {relative(module, is_package, '_C')} import {', '.join(used)}"] * bool(used)
    for line in imports:
        names = [n for n in ast.parse(line).body[0].names if (n.asname or n.name) in words]
        if names:
            texts = [n.name if n.asname is None else f"{n.name} as {n.asname}" for n in names]
            rows.append(f"{line.split(' import ')[0]} import {', '.join(texts)}")
    return "\n".join([*rows, "", *body]) + "\n"
