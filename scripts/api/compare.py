"""PyTorch's public names against this package's."""

import ast
import fnmatch
import importlib
import inspect
import pathlib
import re
from dataclasses import dataclass, field

HERE = pathlib.Path(__file__).parent
# A section of absent.txt with names that are to come; operators of the core are known by operators.txt.
NOT_YET = "Not yet"


@dataclass
class Namespace:
    """A module's, or Tensor's, names: how many there are, and which are absent or have other parameters."""

    name: str
    total: int = 0
    absent: list = field(default_factory=list)
    members: int = 0
    absent_members: list = field(default_factory=list)
    compared: int = 0
    different: list = field(default_factory=list)


@dataclass
class Interface:
    """All of it: `reasons` maps a reason to the full names that are absent for it, `waiting` are operators to come."""

    namespaces: list
    reasons: dict
    waiting: list
    unexplained: list
    stale: list


def interface():
    """Looks every name up."""
    namespaces = [_look(name, lines) for name, lines in _sections(HERE / "public_names.txt")]
    absent = [f"{n.name}.{name}" for n in namespaces for name in n.absent + n.absent_members]
    reasons, left, stale, waiting = {}, dict.fromkeys(absent), [], []
    for reason, patterns in _sections(HERE / "absent.txt"):
        for pattern in patterns:
            matched = fnmatch.filter(left, pattern)
            for name in matched:
                del left[name]
            if reason.startswith(NOT_YET):
                waiting += matched
                continue
            if not matched:
                stale.append(pattern)
            reasons.setdefault(reason, []).extend(matched)
    operators = set((HERE / "operators.txt").read_text().split())
    waiting += [name for name in left if _operator(name) in operators]
    return Interface(namespaces, reasons, waiting, [name for name in left if name not in waiting], stale)


def _operator(name):
    """The operator's name that a public name would stand for: `linalg_norm` for torch.linalg.norm."""
    *spaces, short = name.split(".")[1:]
    prefix = "_".join(spaces) + "_" if spaces and spaces != ["Tensor"] else ""
    short = short if short.startswith("__") else short.removesuffix("_")
    return prefix + short


def _sections(path):
    """Pairs of what stands in brackets and the lines below it."""
    title, lines = None, []
    for line in path.read_text().splitlines():
        if line.startswith("["):
            if title is not None:
                yield title, lines
            title, lines = line[1:-1], []
        elif line:
            lines.append(line)
    yield title, lines


def find(path):
    """Our object for a name of PyTorch's; AttributeError if there is none."""
    ours = "flambeau" + path.removeprefix("torch")
    parts = ours.split(".")
    for split in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:split]))
        except ImportError:
            continue
        for part in parts[split:]:
            found = getattr(found, part)
        return found
    raise AttributeError(path)


def _look(name, lines):
    result = Namespace(name)
    owner = None
    for line in lines:
        short, _, parameters = line.partition("(")
        if line.startswith("."):
            if owner is None or owner in result.absent:
                continue
            short = owner + short
            result.members += 1
        else:
            owner = short
            result.total += 1
        try:
            found = find(f"{name}.{short}")
        except AttributeError:
            (result.absent_members if line.startswith(".") else result.absent).append(short)
            continue
        # Python itself fixes how the special methods are called.
        ours = _parameters(found) if parameters and not short.endswith("__") else None
        if ours is not None:
            result.compared += 1
            theirs = _split(f"({parameters}")
            if theirs[:1] == [("", "cls", None)] and ours[:1] != theirs[:1]:
                del theirs[0]
            if not _agree(theirs, ours):
                result.different.append(short)
    return result


def _split(text):
    """(kind, name, default) for each parameter in source text."""
    arguments = ast.parse(f"def f{text}: pass").body[0].args
    positional = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    result = [("", a.arg, d and ast.unparse(d)) for a, d in zip(positional, defaults)]
    if arguments.vararg:
        result.append(("*", arguments.vararg.arg, None))
    result += [("=", a.arg, d and ast.unparse(d)) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    if arguments.kwarg:
        result.append(("**", arguments.kwarg.arg, None))
    return result


def _parameters(found):
    """The same for one of our functions or classes; None if it has no signature."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.KEYWORD_ONLY: "=", inspect.Parameter.VAR_KEYWORD: "**"}
    empty = inspect.Parameter.empty
    return [(kinds.get(p.kind, ""), p.name, None if p.default is empty else _shown(p.default)) for p in parameters]


def _shown(value):
    """A default value as source text; `...` for what has none."""
    text = re.sub(r"<.*>", "...", repr(value)).replace("flambeau.", "torch.")
    try:
        return ast.unparse(ast.parse(text, mode="eval").body)
    except SyntaxError:
        return "..."


def _agree(theirs, ours):
    """Whether a call for theirs means the same to ours, which may take more by keyword, or anything."""
    if {kind for kind, _, _ in ours} >= {"*", "**"}:
        return True
    mine = {name: (kind, default) for kind, name, default in ours}
    for kind, name, default in theirs:
        if kind.startswith("*"):
            if kind not in {k for k, _, _ in ours}:
                return False
            continue
        if name not in mine:
            return False
        have, value = mine[name]
        if kind == "" and have == "=" or (default is None) != (value is None):
            return False
        if default != value and "..." not in (default, value):
            return False
    order = [name for kind, name, _ in theirs if kind == ""]
    return [name for kind, name, _ in ours if kind == ""][: len(order)] == order
