"""What an archive's classes describe: modules, objects, named tuples, enumerations and interfaces."""
from __future__ import annotations

import ast
import enum
import keyword
import re
from collections import OrderedDict
from typing import Any

import flambeau as _fl

from ._types import Mismatch, Type, dotted, read_type

_BASES = {"Module": "module", "NamedTuple": "namedtuple", "Enum": "enum", "Interface": "interface",
          "ModuleInterface": "interface", "object": "class"}
_MANGLED = re.compile(r"\.___torch_mangle_\d+")


class ScriptObject:
    """An object of a class of the archive; its attributes and methods are those that the class declares."""

    def __init__(self, script_class) -> None:
        self.__dict__["_script_class"] = script_class
        self.__dict__["_values"] = {}

    def __getattr__(self, name: str) -> Any:
        cls, values = self._script_class, self._values
        if name in values:
            return to_python(values[name])
        return cls.member(self, name)

    def __setattr__(self, name: str, value) -> None:
        cls = self._script_class
        setter = f"__{name}_setter"
        if setter in cls.methods:
            cls.bound(self, setter)(value)
        else:
            cls.put(self, name, cls.converted(name, value))

    def __dir__(self):
        return sorted({*self._values, *self._script_class.methods})

    def forward_magic_method(self, method_name: str, *args, **kwargs):
        """Calls a method with two underscores, if the class has it."""
        cls = self._script_class
        if method_name not in cls.methods:
            raise NotImplementedError(f"'{cls.name}' object has no method '{method_name}'")
        return cls.bound(self, method_name)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<torch.ScriptObject of {self._script_class.name}>"

    def __str__(self) -> str:
        return self.forward_magic_method("__str__") if "__str__" in self._script_class.methods else repr(self)

    def __bool__(self) -> bool:
        return True

    def __deepcopy__(self, memo):
        from copy import deepcopy

        copied = memo[id(self)] = ScriptObject(self._script_class)
        copied._values.update(deepcopy(self._values, memo))
        return copied

    def __reduce_ex__(self, protocol):
        raise unpicklable(self._script_class)


def _magic(name: str):
    def call(self, *args):
        return self.forward_magic_method(name, *args)

    call.__name__ = name
    return call


for _name in ("__len__ __contains__ __getitem__ __setitem__ __call__ __add__ __sub__ __mul__ __truediv__ __neg__ __lt__ "
              "__le__ __gt__ __ge__ __enter__ __exit__ __iter__").split():
    setattr(ScriptObject, _name, _magic(_name))


def unpicklable(cls) -> RuntimeError:
    return RuntimeError(f"Tried to serialize object {cls.name} which does not have a __getstate__ method defined!")


class NamedTuple(tuple):
    """A tuple whose places have names."""

    script_class: Any
    _fields: tuple[str, ...] = ()

    def field(self, name: str):
        """The value at a name."""
        if name not in self._fields:
            raise RuntimeError(f"'{type(self).__name__}' object has no attribute or method '{name}'.")
        return self[self._fields.index(name)]

    def __getattr__(self, name: str):
        if name in type(self)._fields:
            return self[type(self)._fields.index(name)]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _asdict(self):
        return dict(zip(self._fields, self))

    def _replace(self, **changes):
        return type(self)(changes.get(name, value) for name, value in zip(self._fields, self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in zip(self._fields, self))})"


_scripted: set[type] = {ScriptObject}


def scripted(cls: type) -> type:
    """Marks a class whose objects have a script class."""
    _scripted.add(cls)
    return cls


def class_of(value):
    """The script class of a module or object; None for other values."""
    return value.__dict__["_script_class"] if type(value) in _scripted else None


def is_member(value) -> bool:
    """Whether a value is a member of an enumeration."""
    return isinstance(value, enum.Enum)


def is_script_value(value) -> bool:
    """Whether a value belongs to a class of an archive."""
    return class_of(value) is not None or is_member(value) or isinstance(value, NamedTuple)


def to_python(value):
    """A value of the interpreter for Python: lists and dicts are copied."""
    if isinstance(value, _fl.Tensor):
        return value
    kind = type(value)
    if kind is list:
        return [to_python(v) for v in value]
    if kind is dict:
        return {to_python(k): to_python(v) for k, v in value.items()}
    if isinstance(value, NamedTuple):
        return kind(to_python(v) for v in value)
    if isinstance(value, tuple):
        return tuple(to_python(v) for v in value)
    return value


_TABLES = ("_script_values", "_parameters", "_buffers", "_modules")


class ScriptClass:
    """A class of the archive: what it declares, and its methods as they are compiled."""

    def __init__(self, unit, name: str, node: ast.ClassDef, path: str) -> None:
        self.unit, self.name, self.path = unit, name, path
        self.base = dotted(node.bases[0])[-1] if node.bases and dotted(node.bases[0]) else "object"  # type: ignore[index]
        if self.base not in _BASES or len(node.bases) > 1 or node.keywords or node.decorator_list:
            raise RuntimeError(f"{path}: class '{node.name}' has unknown bases")
        self.kind = _BASES[self.base]
        self.methods: dict[str, ast.FunctionDef] = {}
        self.annotations: dict[str, ast.expr] = {}
        self.lists: dict[str, list[str]] = {}
        self.constants: dict[str, Any] = {}
        self.members: dict[str, enum.Enum] = {}
        self._types: dict[str, Type] = {}
        self._compiled: dict[str, Any] = {}
        self._signatures: dict[str, Any] = {}
        self._tuple: type | None = None
        values: dict[str, Any] = {}
        for item in node.body:
            self._read(item, values)
        if self.kind == "enum":
            self._make_members(values)
        self.hooks = frozenset(self.lists.get("__forward_hooks__", []) + self.lists.get("__forward_pre_hooks__", []))

    @property
    def short_name(self) -> str:
        """The name without module and mangling."""
        return self.name.rpartition(".")[2]

    @property
    def plain_name(self) -> str:
        """The qualified name without mangling."""
        return _MANGLED.sub("", self.name)

    # ---- reading the declaration ----

    def _read(self, item, values) -> None:
        if isinstance(item, ast.FunctionDef):
            self.methods[item.name] = item
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            self.annotations[item.target.id] = item.annotation
            if item.value is not None:
                self.constants[item.target.id] = self.unit.literal(item.value, self.path)
        elif isinstance(item, ast.Assign) and len(item.targets) == 1:
            target = item.targets[0]
            if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) and dotted(target.value) == [
                    "__annotations__"]:
                self.annotations[str(target.slice.value)] = item.value
            elif isinstance(target, ast.Name) and target.id in ("__parameters__", "__buffers__", "__forward_hooks__",
                                                                "__forward_pre_hooks__"):
                self.lists[target.id] = [str(v) for v in self.unit.literal(item.value, self.path)]
            elif isinstance(target, ast.Name) and self.kind == "enum":
                values[target.id] = self.unit.literal(item.value, self.path)
            else:
                raise self._strange(item)
        elif not isinstance(item, ast.Pass):
            raise self._strange(item)

    def _strange(self, item) -> RuntimeError:
        return RuntimeError(f"{self.path}, line {item.lineno}: unexpected statement in class '{self.name}'")

    def _make_members(self, values) -> None:
        for name in values:
            if name.startswith("_") or name in ("mro", "name", "value") or keyword.iskeyword(name):
                raise RuntimeError(f"'{name}' cannot be a member of the enumeration '{self.name}'")
        made = enum.Enum(self.short_name, values, module=self.name.rpartition(".")[0])  # type: ignore[misc]
        self.members = dict(made.__members__)

    # ---- types ----

    def type_of(self, name: str) -> Type | None:
        """The declared type of an attribute."""
        if name not in self._types and name in self.annotations:
            self._types[name] = read_type(self.annotations[name], self.unit.find_class)
        return self._types.get(name)

    def converted(self, name: str, value):
        """A Python value as the attribute's type."""
        wanted = self.type_of(name)
        if wanted is None:
            raise AttributeError(f"'{self.short_name}' object has no attribute '{name}'")
        try:
            return wanted.convert(value)
        except Mismatch as error:
            raise RuntimeError(f"Could not cast attribute '{name}' to type {wanted}: {error}") from None

    def has(self, value) -> bool:
        """Whether a value of the interpreter is of this class."""
        if self.kind == "interface":
            cls = class_of(value)
            return cls is not None and all(name in cls.methods for name in self.methods)
        if self.kind == "enum":
            return value in self.members.values()
        if self.kind == "namedtuple":
            return type(value) is self._tuple or isinstance(value, tuple) and len(value) == len(self.annotations)
        return class_of(value) is self

    def convert(self, value):
        """A Python value as one of this class, or `Mismatch`."""
        if self.kind == "namedtuple":
            if not isinstance(value, tuple) or len(value) != len(self.annotations):
                raise Mismatch(f"Object {value!r} is not a {self.name}")
            return self.make(self.type_of(n).convert(v) for n, v in zip(self.annotations, value))  # type: ignore[union-attr]
        if self.kind == "enum":
            member = self.members.get(getattr(value, "name", None))
            if not is_member(value) or member is None or member.value != value.value:
                raise Mismatch(f"{value!r} is not a member of {self.name}")
            return member
        if not self.has(value):
            raise Mismatch(f"Object {value!r} is not compatible with {self.name}")
        return value

    def restore(self, value):
        """A value read from a pickle, where named tuples are plain ones."""
        return self.make(value) if self.kind == "namedtuple" and isinstance(value, tuple) else value

    def make(self, values):
        """A named tuple of these values."""
        if self._tuple is None:
            fields = tuple(self.annotations)
            self._tuple = type(self.short_name, (NamedTuple,), {"_fields": fields, "script_class": self})
        made = self._tuple(values)
        if len(made) != len(self.annotations):
            raise RuntimeError(f"{self.name} takes {len(self.annotations)} values but {len(made)} were given")
        return made

    # ---- attributes ----

    def get(self, owner, name: str):
        """An attribute, for the interpreter."""
        fields = owner.__dict__
        if self.kind == "module":
            for table in _TABLES:
                if name in fields[table]:
                    return fields[table][name]
            if name in ("training", "_is_full_backward_hook"):
                return fields[name]
        elif name in fields["_values"]:
            return fields["_values"][name]
        if name in self.constants:
            return self.constants[name]
        raise RuntimeError(f"'{self.name}' object has no attribute or method '{name}'.")

    def has_attribute(self, name: str) -> bool:
        """Whether the class declares an attribute or method."""
        return name in self.annotations or name in self.methods or name in self.constants

    def put(self, owner, name: str, value) -> None:
        """Sets an attribute of the declared ones."""
        if name not in self.annotations or name in self.constants:
            raise RuntimeError(f"'{self.name}' object has no attribute '{name}' to set")
        fields = owner.__dict__
        if self.kind != "module":
            fields["_values"][name] = value
        elif name in ("training", "_is_full_backward_hook"):
            fields[name] = value
        else:
            table = self.table(name, value)
            if table in ("_parameters", "_buffers") and not (value is None or isinstance(value, _fl.Tensor)):
                raise RuntimeError(f"'{name}' of '{self.name}' must be a Tensor")
            fields[table][name] = value

    def table(self, name: str, value) -> str:
        """Where a module keeps an attribute."""
        if name in self.lists.get("__parameters__", ()):
            return "_parameters"
        if name in self.lists.get("__buffers__", ()):
            return "_buffers"
        cls = class_of(value)
        return "_modules" if cls is not None and cls.kind == "module" else "_script_values"

    # ---- methods ----

    def method(self, name: str):
        """The compiled function of a method, which takes the object first."""
        found = self._compiled.get(name)
        if found is None:
            if name not in self.methods or self.kind not in ("module", "class"):
                raise RuntimeError(f"'{self.name}' object has no attribute or method '{name}'.")
            found = self._compiled[name] = self.unit.compile(self.methods[name], self.path)
        return found

    def signature(self, name: str):
        """The parameters of a method, with their types."""
        from ._calls import Signature

        if name not in self._signatures:
            self._signatures[name] = Signature(self.unit, self.methods[name], self.path, owner=self)
        return self._signatures[name]

    def bound(self, owner, name: str):
        """A method of an object, for Python."""
        from ._calls import ScriptMethod

        return ScriptMethod(owner, self, name)

    def member(self, owner, name: str):
        """A constant, method or property, for Python; AttributeError where there is none."""
        if name in self.constants:
            return to_python(self.constants[name])
        if name in self.methods and name not in self.hooks:
            return self.bound(owner, name)
        if f"__{name}_getter" in self.methods:
            return self.bound(owner, f"__{name}_getter")()
        raise AttributeError(f"'{type(owner).__name__}' object has no attribute '{name}'")


def check_data(value) -> None:
    """Refuses what a pickle can hold and TorchScript cannot, such as the classes and functions it names."""
    kind = type(value)
    if kind in (list, tuple):
        for item in value:
            check_data(item)
    elif kind is dict or kind is OrderedDict:
        for key, item in value.items():
            check_data(key)
            check_data(item)
    elif not (value is None or kind in (int, float, bool, str, complex) or isinstance(value, (_fl.Tensor, _fl.device))
              or is_script_value(value)):
        raise RuntimeError(f"The archive has a value of type '{kind.__name__}', which is none of TorchScript's")


def restore(value, wanted: Type | None):
    """A value read from a pickle as its declared type: named tuples get their names."""
    check_data(value)
    return _named(value, wanted)


def _named(value, wanted: Type | None):
    if wanted is None or value is None:
        return value
    if wanted.kind == "class":
        value = wanted.script_class.restore(value)
        if isinstance(value, NamedTuple):
            cls = wanted.script_class
            return cls.make(_named(v, cls.type_of(n)) for n, v in zip(cls.annotations, value))
        return value
    if wanted.kind == "Optional":
        return _named(value, wanted.args[0])
    if wanted.kind == "List" and type(value) is list:
        value[:] = [_named(v, wanted.args[0]) for v in value]
    elif wanted.kind == "Dict" and type(value) is dict:
        for key in value:
            value[key] = _named(value[key], wanted.args[1])
    elif wanted.kind == "Tuple" and isinstance(value, tuple):
        return tuple(_named(v, t) for v, t in zip(value, wanted.args))
    return value
