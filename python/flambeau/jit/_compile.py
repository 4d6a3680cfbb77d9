"""TorchScript's source, checked and compiled.

The source in an archive is a dialect of Python. It is parsed, and every node is either translated here or refused; what
runs is a new tree made of this file's nodes. Its variables have a prefix, its globals are operators and the helpers of
`_runtime`, there are no built-ins, no imports, and no attribute is ever read but by `_runtime.get`, which knows what a
script object has. So a file can do what TorchScript can, and nothing else.
"""
from __future__ import annotations

import ast
import math
import re

from . import _runtime
from ._types import dotted, read_type

_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv",
           ast.Mod: "remainder", ast.Pow: "pow", ast.BitAnd: "__and__", ast.BitOr: "__or__", ast.BitXor: "__xor__",
           ast.LShift: "__lshift__", ast.RShift: "__rshift__", ast.MatMult: "matmul"}
_COMPARE = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Is: "__is__",
            ast.IsNot: "__isnot__"}
_CASTS = {"bool": "Bool", "int": "Int", "float": "Float", "complex": "Complex", "str": "str", "ord": "ord",
          "len": "len", "sorted": "sorted", "list": "list", "round": "round", "chr": "chr", "hex": "hex", "dict": "dict"}
_PRIM_CASTS = {"print": "Print", "abs": "abs", "max": "max", "min": "min", "rangelist": "rangelist"}
_CONSTANTS = {"inf": math.inf, "nan": math.nan, "infj": complex(0, math.inf), "nanj": complex(0, math.nan)}
# What could nest so deeply that Python's parser (of 3.10, at least) runs out of stack.
_CHAIN = re.compile(r"(?:\.\s*\w+\s*){50}|(?:[-+~]\s*){50}|(?:\bnot\s+){50}")
_SEPARATORS, _LONGEST = re.compile("[,=:\"]"), 10_000


def parse(source: str, path: str) -> ast.Module:
    """The tree of a file of the archive; RuntimeError where it is not the dialect."""
    if _CHAIN.search(source) or any(len(part) > _LONGEST for part in _SEPARATORS.split(source)):
        raise RuntimeError(f"{path}: expressions nested too deeply")
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        raise RuntimeError(f"\n{getattr(error, 'msg', None) or error}:\n"
                           + (_runtime.excerpt(source, path, line) if line else f'  File "{path}"\n')) from None


class Refused(RuntimeError):
    """Source that is not TorchScript."""


def text_of(value: str) -> str:
    """A string of the source: its escapes are bytes of UTF-8."""
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return value


class Compiler:
    """Compiles one function of a file."""

    def __init__(self, unit, path: str, source: str) -> None:
        self.unit, self.path, self.source = unit, path, source
        self.scope: dict = {"__builtins__": {}, **_runtime.HELPERS}
        self.locals: set[str] = set()
        self.functions: dict[str, str] = {}  # local names of functions of the archive
        self.nested: set[str] = set()
        self.bound = 0

    def refuse(self, node, what: str):
        text = _runtime.excerpt(self.source, self.path, getattr(node, "lineno", 1), getattr(node, "col_offset", None),
                                getattr(node, "end_col_offset", None))
        return Refused(f"\n{what}:\n{text}")

    def function(self, node: ast.FunctionDef):
        """The Python function of a definition, its parameters' names prefixed."""
        made = self._definition(node, top=True)
        module = ast.fix_missing_locations(ast.Module([made], []))
        try:
            code = compile(module, self.path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise self.refuse(node, f"{type(error).__name__}: {error}") from None
        place: dict = {}
        exec(code, self.scope, place)  # built above, node by node
        return place["f_" + node.name]

    # ---- what generated code refers to ----

    def at(self, made, node):
        return ast.copy_location(made, node)

    def name(self, text: str):
        return ast.Name(text, ast.Load())

    def bind(self, value):
        """A global of the generated code that holds a value."""
        self.bound += 1
        label = f"k_{self.bound}"
        self.scope[label] = value
        return self.name(label)

    def helper(self, node, helper: str, *args, keywords=()):
        return self.mark(ast.Call(self.name(helper), list(args), list(keywords)), node)

    def operator(self, namespace: str, name: str):
        label = f"op_{namespace}_{name}"
        if label not in self.scope:
            self.scope[label] = self.unit.operator(namespace, name)
        return self.name(label)

    def call_operator(self, node, namespace: str, name: str, args, keywords=()):
        return self.mark(ast.Call(self.operator(namespace, name), args, list(keywords)), node)

    def mark(self, made, node):
        """Gives a call the place that errors show: what is called, without the arguments."""
        where = node.func if isinstance(node, ast.Call) else node
        self.at(made, where)
        if isinstance(where, (ast.Attribute, ast.Subscript)):  # (x).f: without the bracket before x
            made.col_offset = where.value.col_offset
        return made

    def type(self, node):
        try:
            return read_type(node, self.unit.find_class)
        except RuntimeError as error:
            raise self.refuse(node, str(error)) from None

    # ---- statements ----

    def _definition(self, node, top=False):
        arguments = node.args
        if (node.decorator_list or arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs
                or getattr(node, "type_params", None)):
            raise self.refuse(node, "Only plain parameters are supported")
        if not top and arguments.args:
            raise self.refuse(node, "Nested functions take no arguments")
        names = [a.arg for a in arguments.args]
        defaults = [self.expression(d) for d in arguments.defaults]
        self.locals.update(names)
        parameters = ast.arguments([], [ast.arg("v_" + n) for n in names], None, [], [], None, defaults)
        body = self.block(node.body)
        prefix = "f_" if top else "v_"
        return self.at(ast.FunctionDef(prefix + node.name, parameters, body, [], None, None, type_params=[]), node)

    def block(self, body):
        statements = [made for node in body for made in self.statement(node)]
        return statements or [ast.Pass()]

    def statement(self, node):
        method = getattr(self, "_s_" + type(node).__name__, None)
        if method is None:
            raise self.refuse(node, f"Statement {type(node).__name__} is not supported in TorchScript")
        made = method(node)
        return made if isinstance(made, list) else [self.at(made, node)]

    def _s_Pass(self, node):
        return ast.Pass()

    def _s_Break(self, node):
        return ast.Break()

    def _s_Continue(self, node):
        return ast.Continue()

    def _s_Expr(self, node):
        return ast.Expr(self.expression(node.value))

    def _s_Return(self, node):
        return ast.Return(None if node.value is None else self.expression(node.value))

    def _s_Assign(self, node):
        if len(node.targets) != 1:
            raise self.refuse(node, "Chained assignment is not supported")
        target = node.targets[0]
        if isinstance(target, ast.Name):
            function = self._function_name(node.value)
            if function is not None:
                self.functions[target.id] = function
                return []
        value = self.expression(node.value)
        if isinstance(target, (ast.Tuple, ast.List)) and all(isinstance(t, ast.Name) for t in target.elts):
            if isinstance(node.value, ast.Tuple):
                return ast.Assign([self.target(target)], value)
            value = self.helper(node.value, "unpack", value, ast.Constant(len(target.elts)))
            return ast.Assign([self.target(target)], value)
        if isinstance(target, ast.Attribute):
            return ast.Expr(self.helper(node, "put", self.expression(target.value), ast.Constant(target.attr), value))
        if isinstance(target, ast.Subscript):
            args = [self.expression(target.value), self.expression(target.slice), value]
            return ast.Expr(self.call_operator(node, "aten", "_set_item", args))
        return ast.Assign([self.target(target)], value)

    def _s_AnnAssign(self, node):
        self.type(node.annotation)
        if node.value is None:
            return []
        return self._s_Assign(self.at(ast.Assign([node.target], node.value), node))

    def target(self, node):
        if isinstance(node, ast.Name):
            self.locals.add(node.id)
            self.functions.pop(node.id, None)
            return self.at(ast.Name("v_" + node.id, ast.Store()), node)
        if isinstance(node, (ast.Tuple, ast.List)):
            return self.at(ast.Tuple([self.target(t) for t in node.elts], ast.Store()), node)
        raise self.refuse(node, "Cannot assign to this expression")

    def _s_If(self, node):
        test = self.condition(node.test)
        return ast.If(test, self.block(node.body), self.block(node.orelse) if node.orelse else [])

    def condition(self, node):
        return self.expression(node)

    def _s_While(self, node):
        if node.orelse:
            raise self.refuse(node, "else branches of while loops aren't supported")
        return ast.While(self.condition(node.test), self.block(node.body), [])

    def _s_For(self, node):
        if node.orelse:
            raise self.refuse(node, "else branches of for loops aren't supported")
        loop = node.iter
        if isinstance(loop, ast.Call) and isinstance(loop.func, ast.Name) and loop.func.id == "range":
            items = self.helper(loop, "count", *self.arguments(loop))
        else:
            items = self.helper(loop, "iterate", self.expression(loop))
        return ast.For(self.target(node.target), items, self.block(node.body), [])

    def _s_With(self, node):
        items = []
        for item in node.items:
            context = self.helper(item.context_expr, "context", self.expression(item.context_expr))
            items.append(ast.withitem(context, None if item.optional_vars is None else self.target(item.optional_vars)))
        return ast.With(items, self.block(node.body))

    def _s_Assert(self, node):
        message = ast.Constant("") if node.msg is None else self.expression(node.msg)
        text = self.call_operator(node, "aten", "add", [ast.Constant("AssertionError: "), message])
        fail = self.at(ast.Expr(self.call_operator(node, "prim", "RaiseException", [text])), node)
        return ast.If(self.expression(node.test), [ast.Pass()], [fail])

    def _s_Raise(self, node):
        if not (isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name)):
            raise self.refuse(node, "raise needs a call of an exception's class")
        args = self.arguments(node.exc) or [ast.Constant("")]
        args = [args[0], ast.Constant("builtins." + node.exc.func.id)]
        return ast.Expr(self.call_operator(node, "prim", "RaiseException", args))

    def _s_FunctionDef(self, node):
        self.nested.add(node.name)
        self.locals.add(node.name)
        return self._definition(node)

    # ---- expressions ----

    def expression(self, node):
        method = getattr(self, "_e_" + type(node).__name__, None)
        if method is None:
            raise self.refuse(node, f"Expression {type(node).__name__} is not supported in TorchScript")
        made = method(node)
        return made if hasattr(made, "lineno") else self.at(made, node)

    def _e_Constant(self, node):
        if isinstance(node.value, str):
            return ast.Constant(text_of(node.value))
        if node.value is None or type(node.value) in (int, float, bool, complex):
            return ast.Constant(node.value)
        raise self.refuse(node, "Unsupported constant")

    def _e_Name(self, node):
        if node.id in self.nested:
            raise self.refuse(node, "A nested function can only be forked")
        if node.id in self.locals:
            return self.name("v_" + node.id)
        if node.id in _CONSTANTS:
            return ast.Constant(_CONSTANTS[node.id])
        raise self.refuse(node, f"undefined value {node.id}")

    def _e_Attribute(self, node):
        parts = dotted(node)
        if parts is not None and parts[0] not in self.locals:
            if parts[0] == "CONSTANTS" and len(parts) == 2:
                return self.bind(self.unit.constant(parts[1]))
            if parts[0] == "__torch__":
                return self.bind(self._enum_member(node, parts))
            if parts[0] in ("torch", "ops"):
                raise self.refuse(node, f"undefined value {'.'.join(parts)}")
        if node.attr.startswith("__") and node.attr.endswith("__"):
            raise self.refuse(node, f"object has no attribute or method '{node.attr}'.")
        return ast.Call(self.name("get"), [self.expression(node.value), ast.Constant(node.attr)], [])

    def _enum_member(self, node, parts):
        found = self.unit.find(".".join(parts[:-1]))
        if found is None or getattr(found, "kind", None) != "enum" or parts[-1] not in found.members:
            raise self.refuse(node, f"undefined value {'.'.join(parts)}")
        return found.members[parts[-1]]

    def _function_name(self, node):
        """The qualified name of a function of the archive; None for other expressions."""
        parts = dotted(node)
        if parts is None or parts[0] != "__torch__":
            return None
        name = ".".join(parts)
        return name if self.unit.is_function(name) else None

    def _e_UnaryOp(self, node):
        if isinstance(node.op, ast.Not):
            return ast.UnaryOp(ast.Not(), self.expression(node.operand))
        if isinstance(node.op, ast.USub):
            inner = self.expression(node.operand)
            if isinstance(inner, ast.Constant) and type(inner.value) in (int, float, complex):
                return ast.Constant(-inner.value)
            return self.call_operator(node, "aten", "neg", [inner])
        raise self.refuse(node, "Unsupported unary operator")

    def _e_BinOp(self, node):
        left, right = self.expression(node.left), self.expression(node.right)
        if all(isinstance(side, ast.Constant) for side in (left, right)) and type(right.value) is complex:
            return ast.Constant(self._complex(left.value, right.value, isinstance(node.op, ast.Sub)))
        if type(node.op) not in _BINARY:
            raise self.refuse(node, "Unsupported operator")
        return self.call_operator(node, "aten", _BINARY[type(node.op)], [left, right])

    @staticmethod
    def _complex(real, imaginary, negative):
        return complex(real, -imaginary.imag if negative else imaginary.imag)

    def _e_BoolOp(self, node):
        return ast.BoolOp(ast.And() if isinstance(node.op, ast.And) else ast.Or(),
                          [self.expression(v) for v in node.values])

    def _e_Compare(self, node):
        if len(node.ops) != 1:
            raise self.refuse(node, "Chained comparisons are not supported")
        kind, left, right = type(node.ops[0]), self.expression(node.left), self.expression(node.comparators[0])
        if kind in (ast.In, ast.NotIn):
            found = self.call_operator(node, "aten", "__contains__", [right, left])
            return found if kind is ast.In else ast.UnaryOp(ast.Not(), found)
        return self.call_operator(node, "aten", _COMPARE[kind], [left, right])

    def _e_IfExp(self, node):
        return ast.IfExp(self.expression(node.test), self.expression(node.body), self.expression(node.orelse))

    def _e_Tuple(self, node):
        return ast.Tuple([self.expression(v) for v in node.elts], ast.Load())

    def _e_List(self, node):
        return ast.List([self.expression(v) for v in node.elts], ast.Load())

    def _e_Dict(self, node):
        if any(key is None for key in node.keys):
            raise self.refuse(node, "Unsupported dictionary")
        return ast.Dict([self.expression(k) for k in node.keys], [self.expression(v) for v in node.values])

    def _e_Subscript(self, node):
        value = self.expression(node.value)
        if isinstance(node.slice, ast.Slice):
            bounds = [ast.Constant(None) if b is None else self.expression(b)
                      for b in (node.slice.lower, node.slice.upper)]
            step = ast.Constant(1) if node.slice.step is None else self.expression(node.slice.step)
            return self.helper(node, "cut", value, *bounds, step)
        return self.helper(node, "index", value, self.expression(node.slice))

    # ---- calls ----

    def arguments(self, node):
        if any(isinstance(a, ast.Starred) for a in node.args):
            raise self.refuse(node, "Starred arguments are not supported")
        return [self.expression(a) for a in node.args]

    def keywords(self, node, prefix=""):
        if any(k.arg is None for k in node.keywords):
            raise self.refuse(node, "Starred arguments are not supported")
        return [ast.keyword(prefix + k.arg, self.expression(k.value)) for k in node.keywords]

    def _e_Call(self, node):
        function = node.func
        if isinstance(function, ast.Name):
            return self._call_name(node, function.id)
        if not isinstance(function, ast.Attribute):
            raise self.refuse(node, "Cannot call a value")
        parts = dotted(function)
        if parts is not None and parts[0] not in self.locals:
            if parts[0] == "torch" and len(parts) == 2:
                return self.call_operator(node, "aten", parts[1], self.arguments(node), self.keywords(node))
            if parts[0] == "ops" and len(parts) == 3:
                return self.call_operator(node, parts[1], parts[2], self.arguments(node), self.keywords(node))
            if parts[0] == "__torch__":
                return self._call_archive(node, ".".join(parts))
        owner = [self.expression(function.value), ast.Constant(function.attr)]
        return self.mark(ast.Call(self.name("invoke"), owner + self.arguments(node), self.keywords(node, "v_")), node)

    def _call_archive(self, node, name):
        if name.endswith(".__new__"):
            return self.helper(node, "new", self.bind(self.unit.find_class(name[: -len(".__new__")])))
        if self.unit.is_function(name):
            return self._call_function(node, name)
        found = self.unit.find_class(name)
        if found.kind != "namedtuple":
            raise self.refuse(node, f"Cannot call '{name}'")
        return self.helper(node, "pack", self.bind(found), *self.arguments(node))

    def _call_function(self, node, name):
        function = self.bind(self.unit.function(name))
        return self.mark(ast.Call(function, self.arguments(node), self.keywords(node, "v_")), node)

    def _call_name(self, node, name):
        if name in self.functions:
            return self._call_function(node, self.functions[name])
        special = getattr(self, "_call_" + name, None) if name in _SPECIAL else None
        if special is not None:
            return special(node)
        if name in self.locals:
            raise self.refuse(node, f"'{name}' cannot be called")
        if name in _CASTS:
            return self.call_operator(node, "aten", _CASTS[name], self.arguments(node), self.keywords(node))
        if name in _PRIM_CASTS:
            return self.call_operator(node, "prim", _PRIM_CASTS[name], self.arguments(node))
        raise self.refuse(node, f"undefined value {name}")

    def expect(self, node, count):
        if len(node.args) != count or node.keywords:
            raise self.refuse(node, f"expected {count} arguments")

    def _call_annotate(self, node):
        self.expect(node, 2)
        wanted, value = self.type(node.args[0]), self.expression(node.args[1])
        if wanted.kind in ("int", "float", "complex", "number"):
            implicit = {"int": "Int", "float": "Float", "complex": "Complex", "number": "Scalar"}[wanted.kind]
            return self.call_operator(node, "aten", implicit + "Implicit", [value])
        return value

    def _call_unchecked_cast(self, node):
        self.expect(node, 2)
        self.type(node.args[0])
        return self.expression(node.args[1])

    def _call_uninitialized(self, node):
        self.expect(node, 1)
        self.type(node.args[0])
        return ast.Constant(None)

    def _call_isinstance(self, node):
        self.expect(node, 2)
        listed = node.args[1]
        options = listed.elts if isinstance(listed, (ast.Tuple, ast.List)) else [listed]
        wanted = self.bind(tuple(self.type(o) for o in options))
        return self.helper(node, "is_instance", self.expression(node.args[0]), wanted)

    def _attribute_arguments(self, node):
        self.expect(node, 2)
        name = node.args[1]
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
            raise self.refuse(node, "getattr's second argument must be a string literal")
        return self.expression(node.args[0]), ast.Constant(text_of(name.value))

    def _call_getattr(self, node):
        return self.helper(node, "get", *self._attribute_arguments(node))

    def _call_hasattr(self, node):
        return self.helper(node, "has", *self._attribute_arguments(node))

    def _call_fork(self, node):
        if not node.args or not isinstance(node.args[0], ast.Name) or node.args[0].id not in self.nested:
            raise self.refuse(node, "fork needs a nested function")
        rest = [self.expression(a) for a in node.args[1:]]
        return self.helper(node, "fork", self.name("v_" + node.args[0].id), *rest)

    _call_awaitable = _call_fork


_SPECIAL = frozenset(("annotate", "unchecked_cast", "uninitialized", "isinstance", "getattr", "hasattr", "fork",
                      "awaitable"))
