"""The code of an archive: its files, read when a name in them is first needed."""
from __future__ import annotations

import ast
import re

import flambeau as _fl

from ._compile import Compiler, parse, text_of
from ._objects import ScriptClass
from ._operators import versioned
from ._types import dotted

_SELF = re.compile(r"\((\w+): __torch__[\w.]*")


class CodeUnit:
    """The classes and functions of one archive, by qualified name."""

    def __init__(self, read_source, constants, version: int) -> None:
        """`read_source(path)` gives a file's text or None, `constants()` the tuple of ``CONSTANTS``."""
        self._read_source, self._read_constants = read_source, constants
        self.version = version
        self.sources: dict[str, str] = {}
        self._files: dict[str, dict[str, ast.stmt]] = {}
        self._found: dict[str, object] = {}
        self._functions: dict[str, object] = {}
        self._compiling: set[str] = set()
        self._operators: set[str] = set()
        self._constants: tuple | None = None
        self.archive: object = None  # what a save writes back

    # ---- names ----

    def _file(self, path: str) -> dict[str, ast.stmt]:
        if path not in self._files:
            self._files[path] = items = {}
            source = self._read_source(path)
            if source is not None:
                self.sources[path] = source
                for item in parse(source, path).body:
                    if isinstance(item, (ast.ClassDef, ast.FunctionDef)):
                        items[item.name] = item
                    elif not isinstance(item, ast.Import) and not (  # files of old say their imports and version
                            isinstance(item, ast.Assign) and dotted(item.targets[0]) == ["op_version_set"]):
                        raise RuntimeError(f"{path}, line {item.lineno}: unexpected statement")
        return self._files[path]

    def find(self, name: str):
        """The class or definition of a qualified name; None where there is none."""
        if name not in self._found:
            module, _, item = name.rpartition(".")
            path = f"code/{module.replace('.', '/')}.py"
            node = self._file(path).get(item) if module else None
            found = node
            if isinstance(node, ast.ClassDef):
                found = ScriptClass(self, name, node, path)
            self._found[name] = found
        return self._found[name]

    def find_class(self, name: str) -> ScriptClass:
        """The class of a qualified name."""
        found = self.find(name)
        if not isinstance(found, ScriptClass):
            if name.startswith("__torch__.torch.classes."):
                raise RuntimeError(f"Class '{name}' is made in C++ for PyTorch, and does not exist in Flambeau")
            raise RuntimeError(f"\nUnknown type name '{name}':\n{name}\n")
        return found

    def is_function(self, name: str) -> bool:
        """Whether a qualified name is a function of the archive."""
        return isinstance(self.find(name), ast.FunctionDef)

    # ---- code ----

    def compile(self, node: ast.FunctionDef, path: str):
        """The Python function of a definition."""
        return Compiler(self, path, self.sources[path]).function(node)

    def check(self) -> None:
        """Compiles all methods of the classes found so far, so that a file with bad code is refused when it is read."""
        checked: set[int] = set()
        while True:
            classes = [c for c in self._found.values() if isinstance(c, ScriptClass) and id(c) not in checked]
            if not classes:
                return
            for cls in classes:
                checked.add(id(cls))
                for hook in cls.hooks.difference(cls.methods):
                    raise RuntimeError(f"'{cls.name}' has no method '{hook}' to be a hook")
                for name in cls.methods if cls.kind in ("module", "class") else ():
                    cls.method(name)
                    cls.signature(name)

    def function(self, name: str):
        """The compiled function of a qualified name."""
        if name not in self._functions:
            if name in self._compiling:
                raise RuntimeError(f"function '{name}' is called recursively. Recursive calls are not supported")
            self._compiling.add(name)
            try:
                module = name.rpartition(".")[0].replace(".", "/")
                self._functions[name] = self.compile(self.find(name), f"code/{module}.py")
            finally:
                self._compiling.discard(name)
        return self._functions[name]

    def operator(self, namespace: str, name: str):
        """The function that serves an operator in files of this version."""
        self._operators.add(f"{namespace}::{name}")
        return versioned(namespace, name, self.version)

    def operator_names(self) -> list[str]:
        """The operators that the code names, without their overloads."""
        return sorted(self._operators)

    def text(self, node: ast.FunctionDef, path: str) -> str:
        """The source of a function as `code` shows it."""
        lines = self.sources[path].split("\n")[node.lineno - 1 : node.end_lineno]
        head = node.body[0].lineno - node.lineno
        indent = node.col_offset
        lines = [lines[0][indent:], *lines[1:head], *(line[indent:] for line in lines[max(head, 1):])]
        lines[0] = _SELF.sub(r"(\1", lines[0], count=1)
        return "\n".join(lines) + "\n"

    # ---- constants ----

    def constant(self, label: str):
        """``CONSTANTS.c3``: the value at a place of constants.pkl."""
        place = int(label[1:]) if label[:1] == "c" and label[1:].isdigit() else -1
        constants = self.constants()
        if not 0 <= place < len(constants):
            raise RuntimeError(f"undefined value CONSTANTS.{label}")
        return constants[place]

    def constants(self) -> tuple:
        """All of constants.pkl."""
        if self._constants is None:
            self._constants = tuple(self._read_constants())
        return self._constants

    def constant_map(self) -> dict:
        """The constants by the names that code gives them."""
        return {f"c{place}": value for place, value in enumerate(self.constants())}

    def literal(self, node, path: str):
        """The value of a default or constant."""
        if isinstance(node, ast.Constant) and not isinstance(node.value, (bytes, type(...))):
            return text_of(node.value) if isinstance(node.value, str) else node.value
        if isinstance(node, ast.Name) and node.id in ("inf", "nan"):
            return float(node.id)
        if isinstance(node, (ast.Tuple, ast.List)):
            items = [self.literal(v, path) for v in node.elts]
            return tuple(items) if isinstance(node, ast.Tuple) else items
        if isinstance(node, ast.Dict) and None not in node.keys:
            return {self.literal(k, path): self.literal(v, path) for k, v in zip(node.keys, node.values)}
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.literal(node.operand, path)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            left, right = self.literal(node.left, path), self.literal(node.right, path)
            return left + right if isinstance(node.op, ast.Add) else left - right
        parts = dotted(node)
        if parts is not None and parts[0] == "CONSTANTS" and len(parts) == 2:
            return self.constant(parts[1])
        if parts is not None and parts[0] == "__torch__":
            member = self.find_class(".".join(parts[:-1])).members.get(parts[-1])
            if member is not None:
                return member
        if isinstance(node, ast.Call) and len(node.args) == 2 and dotted(node.func) == ["annotate"]:
            return self.literal(node.args[1], path)
        if isinstance(node, ast.Call) and len(node.args) == 1 and dotted(node.func) == ["torch", "device"]:
            return _fl.device(self.literal(node.args[0], path))
        raise RuntimeError(f"{path}, line {node.lineno}: not a constant")
