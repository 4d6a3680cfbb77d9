"""`ops`: every operator by namespace, name and overload, as `ops.aten.add.Tensor(a, b)`."""
import re
from functools import partial
from importlib import import_module
from types import ModuleType

from . import _C

# What stands before the arguments in a schema: 'aten::add.Tensor(' (the core leaves out its own namespace).
_NAME = re.compile(r"(?:(\w+)::)?(\w+)(?:\.(\w+))?\(")


class FunctionSchema:
    """The signature of an overload in PyTorch's schema language."""

    def __init__(self, text):
        namespace, name, overload = _NAME.match(text).groups()
        self._text = text
        self.name, self.overload_name = f"{namespace}::{name}", overload or ""

    def __str__(self):
        return self._text

    __repr__ = __str__

    def __eq__(self, other):
        return isinstance(other, FunctionSchema) and self._text == other._text

    def __hash__(self):
        return hash(self._text)

    @property
    def arguments(self):
        inside = self._text[self._text.index("(") + 1 : self._text.rindex(") ->")]
        return _arguments(inside)

    @property
    def returns(self):
        text = self._text[self._text.rindex(") ->") + 4 :].strip()
        text = text[1:-1] if text.startswith("(") else text
        return [Argument(part, False) for part in _parts(text)]

    @property
    def is_mutable(self):
        return any(a.alias_info and a.alias_info.is_write for a in self.arguments)


class _AliasInfo:
    def __init__(self, marks):
        self.is_write = "!" in marks
        self.before_set = {marks.split("->")[0].strip("!* ")}


class Argument:
    """One argument or result: its type, name, default and whether it is written to."""

    def __init__(self, text, kwarg_only):
        self.kwarg_only = kwarg_only
        declared, _, default = text.partition("=")
        kind, _, name = declared.strip().rpartition(" ")
        self.type, self.name = (kind, name) if kind else (name, "")
        marks = re.search(r"\(([^)]*)\)", self.type)
        self.alias_info = _AliasInfo(marks.group(1)) if marks else None
        self.is_out = kwarg_only and bool(self.alias_info and self.alias_info.is_write)
        self._default = default.strip()

    def has_default_value(self):
        return bool(self._default)

    @property
    def default_value(self):
        import ast

        words = {"None": None, "True": True, "False": False, "": None}
        if self._default in words:
            return words[self._default]
        try:
            return ast.literal_eval(self._default)
        except (ValueError, SyntaxError):
            return self._default


def _parts(text):
    """The parts between commas that stand in no brackets."""
    depth, start, parts = 0, 0, []
    for place, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    return [p for p in (*parts, text[start:].strip()) if p]


def _arguments(text):
    found, kwarg_only = [], False
    for part in _parts(text):
        if part == "*":
            kwarg_only = True
        else:
            found.append(Argument(part, kwarg_only))
    return found


class OpOverload(partial):
    """One overload of an operator."""

    def _set(self, packet, overload, schema):
        self.overloadpacket, self._overloadname, self._schema = packet, overload, schema
        self.namespace = packet._namespace
        self.__name__ = f"{packet.__name__}.{overload}"
        self.__module__ = packet.__module__
        return self

    @property
    def op(self):
        return self.overloadpacket

    def name(self):
        label = "" if self._overloadname == "default" else "." + self._overloadname
        return self.overloadpacket._qualified_op_name + label

    def __repr__(self):
        return f"<OpOverload(op='{self.namespace}.{self.overloadpacket.__name__}', overload='{self._overloadname}')>"

    def __str__(self):
        return f"{self.namespace}.{self.__name__}"

    __hash__ = object.__hash__

    def __eq__(self, other):
        return self is other

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return _find, (self.namespace, self.overloadpacket.__name__, self._overloadname)


class OpOverloadPacket(partial):
    """All overloads of an operator name; a call takes the one that fits."""

    def _set(self, namespace, name, schemas):
        self._namespace, self.__name__, self.__module__ = namespace, name, "flambeau.ops." + namespace
        self._qualified_op_name = f"{namespace}::{name}"
        self._schemas = {s.overload_name or "default": s for s in schemas}
        return self

    def overloads(self):
        return list(self._schemas)

    def __iter__(self):
        return iter(self._schemas)

    def __getattr__(self, name):
        schemas = self.__dict__.get("_schemas", {})
        if name in schemas:
            native = self.__dict__.get("_native")
            made = OpOverload(self.func if native is None else getattr(native, name))._set(self, name, schemas[name])
            setattr(self, name, made)
            return made
        if name.startswith("__"):
            raise AttributeError(f"'OpOverloadPacket' object has no attribute '{name}'")
        raise AttributeError(f"The underlying op of '{self}' has no overload name '{name}'")

    def __repr__(self):
        return f"<OpOverloadPacket(op='{self}')>"

    def __str__(self):
        return f"{self._namespace}.{self.__name__}"

    __hash__ = object.__hash__

    def __eq__(self, other):
        return self is other

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return _find, (self._namespace, self.__name__, None)


class HigherOrderOperator:
    """The base of operators that take functions: a subclass's `__call__` ends in `super().__call__`, which runs the function
    given to `py_impl` last."""

    def __init__(self, name, *, cacheable=False, supports_training_input_mutation=False):
        if type(self) is HigherOrderOperator:
            raise RuntimeError(
                "Direct instantiation of HigherOrderOperator is not allowed. Please subclass it."
            )
        self._name = self.__name__ = name
        self._cacheable = cacheable
        self.supports_training_input_mutation = supports_training_input_mutation
        self.namespace = "higher_order"
        self._kernels = {}
        setattr(ops.higher_order, name, self)

    def cacheable(self):
        return self._cacheable

    def name(self):
        return self._name

    def py_impl(self, key):
        """A decorator that keeps the function for a dispatch key or mode."""

        def keep(fn):
            if key in self._kernels:
                raise RuntimeError(f"{self._name} already has an implementation for {key}")
            self._kernels[key] = fn
            return fn

        return keep

    def py_autograd_impl(self, fn):
        """Keeps the function that stands above autograd."""
        return self.py_impl("Autograd")(fn)

    def py_functionalize_impl(self, fn):
        """Keeps the function for functionalization, which nothing calls here."""
        return self.py_impl("Functionalize")(fn)

    def fallthrough(self, key):
        """Nothing stands at a key."""

    def __call__(self, *args, **kwargs):
        for key in ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "CPU"):
            for known, fn in self._kernels.items():
                if getattr(known, "name", known) == key:
                    return fn(*args, **kwargs)
        raise NotImplementedError(f"There was no kernel found for the operator {self._name} on the CPU")

    def __str__(self):
        return self._name


def _find(namespace, name, overload):
    packet = getattr(getattr(ops, namespace), name)
    return packet if overload is None else getattr(packet, overload)


def _qualified(namespace, schema):
    """A schema of the core, which leaves out the namespace."""
    return FunctionSchema(schema if "::" in schema.partition("(")[0] else f"{namespace}::{schema}")


# Modules that define operators of PyTorch's own in Python when they are imported.
_WRITTEN_IN_PYTHON = {"_grouped_mm": "_grouped", **dict.fromkeys(
    "size sym_size stride sym_stride numel sym_numel sym_storage_offset dim is_contiguous is_same_size is_floating_point "
    "is_complex detach_ lift_fresh copy _local_scalar_dense _assert_async _is_all_true _is_any_true "
    "_assert_tensor_metadata".split(), "_queries")}

# Operators defined in Python (`flambeau.library`): (namespace, name) to their functions and schemas.
_defined = {}


def define(qualname, schema, function):
    """Makes `ops.namespace.name` find an operator defined in Python; another overload of it replaces its function."""
    namespace, _, rest = qualname.partition("::")
    name, _, overload = rest.partition(".")
    label = f".{overload}" if overload else ""
    text = schema if "::" in schema.split("(")[0] else f"{namespace}::{name}{label}{schema[schema.index('('):]}"
    entry = _defined.setdefault((namespace, name), {})
    entry[overload or "default"] = (function, FunctionSchema(text))
    getattr(ops, namespace).__dict__.pop(name, None)


# PyTorch's operators that libraries name when they are imported, and that are methods of Tensor here or missing.
_METHODS = {
    "_pin_memory": "(Tensor self, Device? device=None) -> Tensor",
    "_sparse_mm_reduce_impl": "(Tensor self, Tensor other, str reduce) -> (Tensor, Tensor)",
    "detach": "(Tensor(a) self) -> Tensor(a)",
}


class _OpNamespace(ModuleType):
    """The operators of one namespace."""

    def __init__(self, name):
        super().__init__("flambeau.ops." + name)
        self.name = name
        self.__file__ = "flambeau.ops"

    def __getattr__(self, name):
        # `aten.__and__` is an operator, too.
        packet = self._packet(name)
        if packet is None:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        setattr(self, name, packet)
        return packet

    def _packet(self, name):
        if self.name == "aten" and name in _METHODS:
            method = getattr(_C.Tensor, name.lstrip("_"), None)
            define(f"aten::{name}", _METHODS[name], missing_operator(name) if method is None else method)
        if self.name == "aten" and name in _WRITTEN_IN_PYTHON:
            import_module("flambeau." + _WRITTEN_IN_PYTHON[name])
        own = _defined.get((self.name, name))
        if own:
            functions = {label: f for label, (f, _) in own.items()}
            default = functions.get("default", next(iter(functions.values())))
            packet = OpOverloadPacket(default)._set(self.name, name, [s for _, s in own.values()])
            for label, f in functions.items():
                setattr(packet, label, OpOverload(f)._set(packet, label, packet._schemas[label]))
            return packet
        native = _C._operator_packet(self.name, name)
        if native is None:
            return _placeholder(name) if self.name == "aten" else None
        schemas = [_qualified(self.name, getattr(native, o)._schema) for o in native.overloads()]
        function = vars(_C).get(name) if self.name == "aten" else None
        packet = OpOverloadPacket(native if function is None else function)._set(self.name, name, schemas)
        packet._native = native
        return packet

    def __dir__(self):
        names = {n for space, n in _defined if space == self.name}
        full = (n.partition("::") for n in _C._operator_names())
        names.update(name.partition(".")[0] for space, _, name in full if space == self.name)
        return sorted(names)


def _placeholder(name):
    """What stands for an operator of PyTorch's that is not here, or a method of Tensor only: libraries have tables of them.
    None if PyTorch has none either."""
    from ._aten_names import OVERLOADS

    if name not in OVERLOADS:
        return None
    labels = ("" if overload == "default" else "." + overload for overload in OVERLOADS[name])
    schemas = [FunctionSchema(f"aten::{name}{label}(...) -> ...") for label in labels]
    method = getattr(_C.Tensor, name, None)
    return OpOverloadPacket(method if callable(method) else missing_operator(name))._set("aten", name, schemas)


class _Ops(ModuleType):
    """The namespaces of operators."""

    def __init__(self):
        super().__init__("flambeau.ops")
        self.__file__ = "_ops.py"
        self.loaded_libraries = set()
        self.aten = _OpNamespace("aten")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(f"module 'flambeau.ops' has no attribute '{name}'")
        namespace = _OpNamespace(name)
        setattr(self, name, namespace)
        return namespace

    def load_library(self, path):
        """Operators compiled for PyTorch cannot be loaded."""
        raise OSError(f"Could not load this library: {path}")

    def import_module(self, module):
        import_module(module)


ops = _Ops()


# ---- for the modules of this package -----------------------------------------------------------------------


def missing_operator(name):
    """Stands in for an operator that a module names when it is imported; a call says that it is not there."""

    def missing(*args, **kwargs):
        raise AttributeError(f"PyTorch's operator '{name}' does not exist in Flambeau yet")

    missing.__name__ = missing.__qualname__ = name
    return missing


class _Needed:
    """`ops` for modules that name all their operators when they are imported, whether they exist yet or not."""

    class _Aten:
        def __getattr__(self, name):
            found = getattr(ops.aten, name, None)
            if found is None:
                found = missing_operator(name)
            setattr(self, name, found)
            return found

    aten = _Aten()


needed = _Needed()
