"""Calls from Python into TorchScript: arguments by the declared types, results, errors."""
from __future__ import annotations

import ast

from ._builtins import float_text
from ._objects import to_python
from ._runtime import wrapped
from ._types import Mismatch, Type, read_type

_REQUIRED = object()


def _default_text(value) -> str:
    if type(value) is str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return float_text(value) if type(value) is float else str(value)


class Signature:
    """The parameters of a function: names, types and defaults."""

    def __init__(self, unit, node: ast.FunctionDef, path: str, owner=None) -> None:
        self.name, self.owner = node.name, owner
        arguments = node.args.args
        self.names = [a.arg for a in arguments]
        own = Type("class", (), owner) if owner is not None else Type("Tensor")
        self.types = [own if place == 0 and owner is not None else
                      Type("Tensor") if a.annotation is None else read_type(a.annotation, unit.find_class)
                      for place, a in enumerate(arguments)]
        missing = len(arguments) - len(node.args.defaults)
        self.defaults = [_REQUIRED] * missing + [unit.literal(d, path) for d in node.args.defaults]
        self.result = None if node.returns is None else read_type(node.returns, unit.find_class)

    def __str__(self) -> str:
        shown = [f"{t.schema()} {n}" + ("" if d is _REQUIRED else f"={_default_text(d)}")
                 for t, n, d in zip(self.types, self.names, self.defaults)]
        result = "Any" if self.result is None else self.result.schema()
        return f"{self.name}({', '.join(shown)}) -> {f'({result})' if result.startswith('(') else result}"

    __repr__ = __str__

    def bind(self, args: tuple, kwargs: dict) -> list:
        """All arguments, converted; `args` includes the object of a method."""
        if len(args) > len(self.names):
            raise RuntimeError(f"{self.name}() expected at most {len(self.names)} argument(s) but received {len(args)} "
                               f"argument(s). Declaration: {self}")
        first = 1 if self.owner is not None else 0
        bound = list(args[:first])
        for place in range(first, len(self.names)):
            name = self.names[place]
            if place < len(args):
                if name in kwargs:
                    raise RuntimeError(f"Argument '{name}' specified both as positional and keyword argument. "
                                       f"Schema: {self}")
                value = args[place]
            elif name in kwargs:
                value = kwargs[name]
            elif self.defaults[place] is not _REQUIRED:
                default = self.defaults[place]
                bound.append(default.copy() if type(default) in (list, dict) else default)
                continue
            else:
                raise RuntimeError(f"{self.name}() is missing value for argument '{name}'. Declaration: {self}")
            bound.append(self._convert(place, value))
        for name in kwargs:
            if name not in self.names[first:]:
                raise RuntimeError(f"Unknown keyword argument '{name}' for operator '{self.name}'. Schema: {self}")
        return bound

    def _convert(self, place: int, value):
        try:
            return self.types[place].convert(value)
        except Mismatch as error:
            raise RuntimeError(
                f"{self.name}() Expected a value of type '{self.types[place]}' for argument '{self.names[place]}' but "
                f"instead found type '{type(value).__name__}'.\nPosition: {place}\nValue: {value!r}\n"
                f"Declaration: {self}\nCast error details: {error}") from None


class _Callable:
    """What a compiled function shows of itself to Python."""

    name: str
    schema: Signature

    @property
    def graph(self):
        raise no_graph()

    inlined_graph = graph

    def graph_for(self, *args, **kwargs):
        raise no_graph()

    def get_debug_state(self):
        raise no_graph()


def no_graph() -> RuntimeError:
    return RuntimeError("Flambeau runs the code of TorchScript archives as it is and makes no graph of it; `code` has "
                        "the source")


class ScriptMethod(_Callable):
    """A method of a module or object of an archive."""

    def __init__(self, owner, script_class, name: str) -> None:
        self.owner, self._class, self.name = owner, script_class, name

    @property
    def schema(self):
        return self._class.signature(self.name)

    @property
    def qualified_name(self) -> str:
        return f"{self._class.name}.{self.name}"

    @property
    def code(self) -> str:
        return self._class.unit.text(self._class.methods[self.name], self._class.path)

    @property
    def code_with_constants(self):
        return self.code, self._class.unit.constant_map()

    def __call__(self, *args, **kwargs):
        bound = self.schema.bind((self.owner, *args), kwargs)
        return run(self._class.unit, lambda: self._class.method(self.name)(*bound))

    def __repr__(self) -> str:
        return f"<torch.ScriptMethod {self.name} of {self._class.name}>"


class ScriptHook(_Callable):
    """A hook of a module: called with the module, and the tuple of inputs, by `Module.__call__`."""

    def __init__(self, script_class, name: str) -> None:
        self._class, self.name = script_class, name

    @property
    def schema(self):
        return self._class.signature(self.name)

    def __call__(self, module, *args):
        bound = self.schema.bind((module, *args), {})
        return run(self._class.unit, lambda: self._class.method(self.name)(*bound))


def run(unit, call):
    """Runs TorchScript; its result for Python, its errors as PyTorch's."""
    try:
        return to_python(call())
    except Exception as error:
        raise wrapped(error, unit.sources) from None
