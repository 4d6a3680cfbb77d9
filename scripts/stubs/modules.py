"""Modules written in Python: every public one, and what these take from private ones."""

import ast
import enum
import functools
import importlib
import inspect
import pathlib
import re
import types

import flambeau
from flambeau import _C
from signatures import BARE, HOMES, Scope
from sources import BY_HAND, CORE, by_hand, exported, headed, relative

SOURCE = pathlib.Path(flambeau.__file__).parent
# Those that take over names of other modules when imported, and those that few programs name: checkers read their source.
SKIPPED = frozenset("as_torch return_types".split())
# PyTorch's classes override methods with other parameters than those of their bases.
OVERRIDES = [
    '# mypy: disable-error-code="override"',
    "# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false",
]
# Methods whose names begin with underscores and that are part of what a class offers.
_SPECIAL = frozenset(
    "init new call enter exit iter next len getitem setitem delitem contains add radd iadd mul rmul imul or ror ior and sub "
    "neg invert bool getattr init_subclass".split()
)
_CORE_NAMES = {id(value): name for name, value in sorted(vars(_C).items(), reverse=True) if callable(value)}
# The types of what the functions of a module return unless they say otherwise.
_RESULTS = {"nn.functional": "Tensor", "nn.init": "Tensor", "signal.windows": "Tensor"}


def load(module):
    return importlib.import_module("flambeau" + ("." + module) * bool(module))


@functools.cache
def place(module):
    """The source of a module and whether it is a package; None for neither."""
    path = SOURCE.joinpath(*module.split(".")) if module else SOURCE
    if (path / "__init__.py").exists():
        return path / "__init__.py", True
    path = path.with_suffix(".py")
    return (path, False) if path.exists() else None


def public_modules():
    """All public modules but the package itself."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name and not any(p.startswith("_") for p in name.split(".")) and not _skipped(name):
            found.append(name)
    return found


def _skipped(name):
    return any(name == s or name.startswith(s + ".") for s in SKIPPED)


def core_name(value):
    """The name of a value of the core, or None."""
    name = _CORE_NAMES.get(id(value))
    return name if name is not None and vars(_C)[name] is value else None


def home_of(value, name):
    """The module of this package that defines a function or class; None if none is known."""
    home = getattr(value, "__module__", None) or ""
    if home == "flambeau":
        home = "flambeau." + flambeau._FROM.get(name, {"finfo": "_dtype_info", "iinfo": "_dtype_info"}.get(name, ""))
    home = home.removeprefix("flambeau").removeprefix(".") if home.partition(".")[0] == "flambeau" else None
    if not home or home == "_C" or place(home) is None:
        return None
    return home if getattr(load(home), name, None) is value else None


class Module:
    """The stub of one module."""

    def __init__(self, name, wanted=None):
        self.name, self.module = name, load(name)
        self.path, self.is_package = place(name)
        self.hand = by_hand(name)
        self.scope = Scope(vars(self.module), self.refer, name)
        self.tree = ast.parse(self.path.read_text())
        self.pending = sorted({*(self.public() if wanted is None else wanted), *self.hand.heads})
        self.taken = {}  # {home: {here: there}}: re-exported
        self.used = {}  # {home: names}: only named in types
        self.written = {}
        self.imports = [*self.hand.imports]

    def public(self):
        listed = getattr(self.module, "__all__", None)
        own = [n for n, v in vars(self.module).items() if not n.startswith("_") and not isinstance(v, types.ModuleType)
               and (self._is_ours(n, v) if listed is None or self.is_package else n in self._defined())]  # fmt: skip
        listed = listed or ()
        return sorted(dict.fromkeys([*listed, *own, *(n for n in self.hand.names if not n.startswith("_"))]))

    def _is_ours(self, name, value):
        home = getattr(value, "__module__", None)
        if isinstance(value, type) or callable(value):
            return str(home).partition(".")[0] == "flambeau" or core_name(value) is not None
        # Of what is imported, only its own constants can be told apart.
        return name in self._assigned() and type(value).__module__ != "__future__"

    @functools.cache
    def _defined(self):
        """Names of the functions, classes and constants that stand in the source."""
        nodes = (ast.FunctionDef, ast.ClassDef)
        return {n.name for n in self.tree.body if isinstance(n, nodes)} | self._assigned()

    @functools.cache
    def _imported(self):
        """{name: module} of what the source imports from the package."""
        found = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                parts = self.name.split(".") if self.name else []
                base = parts[: len(parts) - node.level + self.is_package]
                home = ".".join([*base, node.module] if node.module else base)
                found.update((a.asname or a.name, home) for a in node.names)
        return found

    def home(self, value, name):
        """The module that defines a function or class; None if none is known."""
        home = home_of(value, name)
        if home is None and name in self._defined():
            return self.name
        if home is None and self._imported().get(name) and place(self._imported()[name]):
            return self._imported()[name]
        return home

    @functools.cache
    def _assigned(self):
        return {t.id for n in self.tree.body if isinstance(n, (ast.Assign, ast.AnnAssign))
                for t in (n.targets if isinstance(n, ast.Assign) else [n.target]) if isinstance(t, ast.Name)}  # fmt: skip

    def refer(self, value):
        """How this module names a class of the package; None if it cannot."""
        name = value.__name__
        if core_name(value) is not None:
            return self._use("_C", core_name(value))
        home = self.home(value, name)
        if home is None or _skipped(home) or getattr(self.module, name, value) is not value:
            return None
        if home == self.name:
            if name not in self.written:
                self.pending.append(name)
            return name
        return self._use(home, name)

    def _use(self, home, name):
        self.used.setdefault(home, set()).add(name)
        return name

    def needs(self):
        """{module: names} that this stub imports."""
        found = {}
        for home, names in self.taken.items():
            found.setdefault(home, set()).update(names.values())
        for home, names in self.used.items():
            found.setdefault(home, set()).update(names)
        found.pop("_C", None)
        return found

    # ---- definitions ----

    def text(self):
        for name in self.pending:
            if name not in self.written:
                self.written[name] = ()
                self.written[name] = self.define(name)
        first = [row for n, rows in self.hand.names.items() if n not in self.written and not self.hand.is_class(n)
                 for row in rows]  # fmt: skip
        body = [*first, *(row for name in sorted(self.written) for row in self.written[name])]
        # What is taken stands before what is written: `from . import functional` and a function of that name.
        rows = self.submodules()
        for home, names in sorted(self.taken.items()):
            rows += exported(relative(self.name, self.is_package, home), names)
        own = {n for n, lines in self.written.items() if lines} | {n for group in self.taken.values() for n in group}
        if any(re.match(r"class \w+\(", row) for row in body):
            rows = [*OVERRIDES, *rows]
        return headed(self.name, self.is_package, [*rows, *body], self.needed_imports(body, own), own)

    def needed_imports(self, body, own):
        """The imports of what the lines name besides the usual types."""
        imports = list(dict.fromkeys(self.imports))
        words = set(re.findall(r"\w+", "\n".join(body)))
        used = {home: set(names) for home, names in self.used.items()}
        for name in HOMES.keys() & words - set(self.hand.names):
            used.setdefault(HOMES[name], set()).add(name)
        for home, names in sorted(used.items()):
            names -= own | (set(CORE) if home == "_C" else set())
            if names:
                imports.append(f"from {relative(self.name, self.is_package, home)} import {', '.join(sorted(names))}")
        return imports

    def submodules(self):
        if not self.is_package:
            return []
        folder = self.path.parent
        names = {p.stem for p in folder.glob("*.py")} | {p.parent.name for p in folder.glob("*/__init__.py")}
        prefix = self.name + "." if self.name else ""
        names = {n for n in names if not n.startswith("_") and not _skipped(prefix + n)}
        names -= {n for n in self.written if not isinstance(getattr(self.module, n, None), types.ModuleType)}
        return exported(".", {n: n for n in names}) if names else []

    def define(self, name):
        hand = self.hand
        if name in hand.names and not hand.is_class(name):
            return hand.names[name]
        try:
            value = getattr(self.module, name)
        except Exception:  # needs more than this core has
            return [f"{name}: Any"]
        if name in flambeau._FROM and not self.name:
            self.taken.setdefault(flambeau._FROM[name], {})[name] = name
            return ()
        if isinstance(value, types.ModuleType):
            return ()
        there = core_name(value)
        if there is not None:
            self.taken.setdefault("_C", {})[name] = there
            return ()
        home = self.home(value, name) if callable(value) else None
        if home is not None and home != self.name and not _skipped(home):
            self.taken.setdefault(home, {})[name] = name
            return ()
        if inspect.isclass(value) and (home == self.name or hand.is_class(name)):
            return self.define_class(name, value)
        if inspect.isfunction(value):
            return self.scope.function(name, value, returns=_RESULTS.get(self.name))
        return [f"{name}: {self.constant(value)}"]

    def constant(self, value):
        kind = type(value).__name__
        if kind in ("bool", "int", "float"):
            return "_" + kind
        return kind if kind == "str" else "Any"

    def define_class(self, name, cls):
        head = self.hand.heads.get(name)
        known = self.hand.members.get(name, {})
        if head is None:
            bases = [b for b in map(self.base, cls.__bases__) if b]
            if issubclass(cls, tuple) and hasattr(cls, "_fields"):
                return [f"class {name}(NamedTuple):", *(f"    {f}: Any" for f in cls._fields)]
            head = f"class {name}({', '.join(bases)}):" if bases else f"class {name}:"
        if issubclass(cls, enum.Enum):
            return [head, *(f"    {n} = {m.value!r}" for n, m in cls.__members__.items())]
        body = [row for rows in known.values() for row in rows]
        attributes = self.attributes(cls)
        for member, value in vars(cls).items():
            if member in known or not (member.strip("_") in _SPECIAL if member.startswith("__") else member[0] != "_"):
                continue
            if member.startswith("__") and not isinstance(value, (types.FunctionType, staticmethod, classmethod)):
                continue
            if isinstance(value, (types.MethodDescriptorType, types.WrapperDescriptorType)):
                continue  # lent by a builtin class, which gains more with each Python
            attributes.pop(member, None)
            body += self.member(cls, member, value)
        for member, kind in attributes.items():
            if member not in known and not any(member in vars(b) for b in cls.__mro__[:-1]):
                body.append(f"{member}: {kind}")
        return [head, *("    " + row for row in body)] if body else [head + " ..."]

    def base(self, cls):
        if cls is object:
            return None
        if cls.__module__ in ("builtins", "typing"):
            return None if cls.__name__ == "Generic" else "type" if cls is type else BARE.get(cls.__name__, cls.__name__)
        if cls.__module__.partition(".")[0] == "flambeau":
            return self.refer(cls)
        self.imports.append(f"from {cls.__module__} import {cls.__name__}")
        return cls.__name__

    def member(self, cls, name, value):
        function = self.scope.function
        if isinstance(value, (staticmethod, classmethod)):
            kind, first = ("staticmethod", None) if isinstance(value, staticmethod) else ("classmethod", "cls")
            return [f"@{kind}", *function(name, value.__func__, first)]
        if isinstance(value, property):
            declared = self.scope.annotation(inspect.signature(value.fget).return_annotation) if value.fget else None
            rows = ["@property", f"def {name}(self) -> {declared or 'Any'}: ..."]
            # A property over a plain attribute stays one that may be set.
            inherited = [vars(b)[name] for b in cls.__mro__[1:] if name in vars(b)]
            is_plain = value.fset is not None or any(not isinstance(v, property) for v in inherited)
            return [f"{name}: {declared or 'Any'}"] if is_plain else rows
        if inspect.isfunction(value):
            is_forward = name == "forward" and issubclass(cls, flambeau.nn.Module)
            return function(name, value, "self", "Tensor" if is_forward else None)
        return [f"{name}: {self.constant(value)}"]

    def attributes(self, cls):
        """{name: type} of what methods set on `self` and of what a class only declares."""
        found = {}
        for name, kind in inspect.get_annotations(cls).items():
            if not name.startswith("_"):
                found[name] = self.scope.annotation(kind) or "Any"
        node = next((n for n in ast.walk(self.tree) if isinstance(n, ast.ClassDef) and n.name == cls.__name__), None)
        loose = issubclass(cls, flambeau.nn.Module)  # whose __getattr__ answers for whatever is not declared
        for method in node.body if node else ():
            if not isinstance(method, ast.FunctionDef):
                continue
            kinds = self.parameters(cls, method.name)
            for statement in ast.walk(method):
                if isinstance(statement, ast.AnnAssign):
                    targets, value = [statement.target], None
                elif isinstance(statement, ast.Assign):
                    targets, value = statement.targets, statement.value
                else:
                    continue
                for target in targets:
                    pairs = [(target, value)]
                    if isinstance(target, ast.Tuple):
                        values = value.elts if isinstance(value, ast.Tuple) else [None] * len(target.elts)
                        pairs = list(zip(target.elts, values))
                    for place_, given in pairs:
                        if not isinstance(place_, ast.Attribute) or getattr(place_.value, "id", "") != "self":
                            continue
                        kind = kinds.get(getattr(given, "id", None), "Any")
                        if not place_.attr.startswith("_") and not (loose and kind == "Any"):
                            found.setdefault(place_.attr, kind)
        return found

    def parameters(self, cls, method):
        """{name: type} of a method's parameters."""
        try:
            signature = inspect.signature(vars(cls)[method])
        except (KeyError, TypeError, ValueError):
            return {}
        return {n: self.scope.parameter(p)[0] for n, p in signature.parameters.items()
                if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}  # fmt: skip


def top_level():
    """The stub of the package itself."""
    module = Module("")
    hidden = flambeau._MODULES
    wanted = {n for n in (*flambeau.__all__, *vars(flambeau)) if not n.startswith("_")} - set(hidden) | {"__version__"}
    module.pending = sorted(wanted)
    return module


def write():
    """{path within the package: text} of all modules."""
    modules = {name: Module(name) for name in public_modules()}
    modules[""] = top_level()
    texts, wanted = {}, {}
    names = list(modules)
    while names:
        for name in names:
            texts[name] = modules[name].text()
        missing = {}
        for name in names:
            for home, needed in modules[name].needs().items():
                if home not in modules or not needed <= set(modules[home].pending):
                    missing.setdefault(home, set()).update(needed)
        names = []
        for home, needed in sorted(missing.items()):
            wanted.setdefault(home, set()).update(needed)
            before = set(modules[home].pending) if home in modules else set()
            modules[home] = Module(home, before | wanted[home])
            names.append(home)
    for name in [n for n in texts if n]:
        parent = name.rpartition(".")[0]
        if parent not in texts and parent.rpartition(".")[2].startswith("_"):
            texts[parent] = Module(parent, ()).text()
    return {str(place(n)[0].relative_to(SOURCE).with_suffix(".pyi")): text for n, text in texts.items()}


def contradictions():
    """Functions and methods written by hand whose parameters are not those of the package."""
    found = []
    for path in sorted(BY_HAND.glob("*.pyi")):
        module = path.stem
        hand, scope = by_hand(module), load(module)
        tables = [(scope, hand.functions())]
        tables += [(getattr(scope, name, None), members) for name, members in hand.members.items()]
        for owner, table in tables:
            for name, rows in table.items():
                function = inspect.getattr_static(owner, name, None)
                given = _parameters(function)
                node = ast.parse("\n".join(rows)).body[-1]
                is_special = name.startswith("__") and name != "__init__"
                if is_special or given is None or not isinstance(node, ast.FunctionDef) or node.args.vararg or node.args.kwarg:
                    continue
                written = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                if written != given:
                    found.append(f"{path.name}: {name}{tuple(written)} is {name}{tuple(given)}")
    return found


def _parameters(function):
    """The names of a function's parameters; None where it takes any, or does not say."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    is_open = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)
    return None if is_open else [p.name for p in parameters]
