"""Graphs: lists of nodes that can be edited and written as Python code."""
import builtins
import copy
import keyword
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Optional, Union

from .. import _C
from ._code import (  # noqa: F401
    CodeGen,
    PythonCode,
    _PyTreeCodeGen,
    _PyTreeInfo,
    inplace_methods,
    magic_methods,
    reflectable_magic_methods,
)
from .node import LEGAL_OPS, Node, _get_qualified_name, _type_repr, map_arg  # noqa: F401

__all__ = ["PythonCode", "CodeGen", "Graph"]

_MISSING = object()
# How dtypes are called in the text of a graph.
dtype_abbrs = {getattr(_C, name): short for name, short in {
    "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint16": "u16", "uint32": "u32",
    "uint64": "u64", "float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16", "complex32": "c32",
    "complex64": "c64", "complex128": "c128", "bool": "b8", "bits1x8": "b1x8", "bits2x4": "b2x4", "bits4x2": "b4x2",
    "bits8": "b8x1", "bits16": "b16x1", "float8_e5m2": "f8e5m2", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2fnuz": "f8e5m2fnuz",
    "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e8m0fnu": "f8e8m0fnu", "float4_e2m1fn_x2": "f4e2m1fnx2"}.items()
    if hasattr(_C, name)}
# What a node may have as an argument.
Argument = Optional[Union[tuple["Argument", ...], Sequence["Argument"], Mapping[str, "Argument"], slice, range, "Node", str, int,
                          float, bool, complex, _C.dtype, _C.Tensor, _C.device, _C.memory_format, _C.layout]]
_OWN_GLOBALS = frozenset(("inf", "nan", "NoneType", "torch", "device", "fx_pytree", "pytree"))


class _Namespace:
    """Names that are in use, so that the next one differs."""

    def __init__(self):
        self._obj_to_name = {}
        self._used_names = set()
        self._base_count = defaultdict(int)

    def create_name(self, candidate, obj):
        """A legal name like `candidate` that nothing else has; what `obj` has already, if it has one."""
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        candidate = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = "_" + candidate
        base, number = candidate, None
        numbered = re.match(r"(.*)_(\d+)$", candidate)
        if numbered:
            base, number = numbered.group(1), int(numbered.group(2))
        taken = candidate in self._used_names or self._is_illegal(candidate, obj)
        if number is None or taken:
            number = self._base_count[base] if number is None else max(number, self._base_count[base])
        while taken:
            number += 1
            candidate = f"{base}_{number}"
            taken = candidate in self._used_names or self._is_illegal(candidate, obj)
        self._used_names.add(candidate)
        self._base_count[base] = number
        if obj is not None:
            self._obj_to_name[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name, obj):
        """Fixes the name that an object has."""
        self._obj_to_name.setdefault(obj, name)

    def _is_illegal(self, name, obj):
        if keyword.iskeyword(name):
            return True
        if name in builtins.__dict__:
            return getattr(obj, "obj", obj) is not builtins.__dict__[name]
        return name in _OWN_GLOBALS

    def _rename_object(self, obj, name):
        self._obj_to_name[obj] = name
        self._used_names.add(name)


class _node_list:
    """The nodes of a graph in order, or the other way round."""

    def __init__(self, graph, direction="_next"):
        assert direction in ("_next", "_prev")
        self.graph, self.direction = graph, direction

    def __len__(self):
        return self.graph._len

    def __iter__(self):
        root, direction = self.graph._root, self.direction
        node = getattr(root, direction)
        while node is not root:
            following = getattr(node, direction)
            if not node._erased:
                yield node
                following = getattr(node, direction)
            node = following

    def __reversed__(self):
        return _node_list(self.graph, "_prev" if self.direction == "_next" else "_next")


class _InsertPoint:
    """Where new nodes go, and until when."""

    def __init__(self, graph, new_insert):
        self.graph = graph
        self.previous, graph._insert = graph._insert, new_insert

    def __enter__(self):
        return None

    def __exit__(self, kind, value, traceback):
        self.graph._insert = self.previous


def _snake_case(text):
    return "".join("_" + c.lower() if c.isupper() and i and not text[i - 1].isupper() else c.lower()
                   for i, c in enumerate(text))  # fmt: skip


def _is_magic(name):
    return name.startswith("__") and name.endswith("__")


class Graph:
    """A function as a list of nodes: inputs, calls, and one output."""

    def __init__(self, owning_module=None, tracer_cls=None, tracer_extras=None):
        self._root = Node(self, "", "root", "", (), {})
        self._used_names = {}
        self._insert = self._root.prepend
        self._len = 0
        self._order = None
        self._graph_namespace = _Namespace()
        self._owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()

    @property
    def owning_module(self):
        """The module whose attributes the nodes name."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, module):
        self._owning_module = module

    @property
    def nodes(self):
        """All nodes in order; nodes may be added and erased while they are walked."""
        return _node_list(self)

    def _positions(self):
        if self._order is None:
            self._order = {node: i for i, node in enumerate(self.nodes)}
        return self._order

    def output_node(self):
        """The node that returns."""
        last = next(iter(reversed(self.nodes)))
        assert last.op == "output", f"Expected output node, got {last.op}"
        return last

    def find_nodes(self, *, op, target=None, sort=True):
        """Nodes of an operation, and for calls of functions those of one target."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def graph_copy(self, g, val_map, return_output_node=False):
        """Copies another graph's nodes here, with what `val_map` maps them to; returns the copied output value."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                value = map_arg(node.args[0], lambda n: val_map[n])
                return (value, node) if return_output_node else value
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo=None):
        memo = memo if memo is not None else {}
        result = type(self)(tracer_cls=self._tracer_cls)
        memo[id(self)] = result
        copied = result.graph_copy(self, val_map=(val_map := {}), return_output_node=True)
        result._codegen = copy.deepcopy(self._codegen)
        result._used_names = dict(self._used_names)
        if copied is not None:
            value, old = copied
            new = result.output(value, type_expr=getattr(old, "type", None))
            new.meta = copy.copy(old.meta)
            val_map[old] = new
        for old, new in val_map.items():
            memo[id(old)] = new
        return result

    def create_node(self, op, target, args=None, kwargs=None, name=None, type_expr=None):
        """Adds a node where nodes are inserted."""
        assert op in LEGAL_OPS, f"op '{op}' is not in _legal_ops"
        args = () if args is None else args
        kwargs = {} if kwargs is None else kwargs
        assert isinstance(args, tuple), f"args must be a tuple, got {type(args)}"
        assert isinstance(kwargs, dict), f"kwargs must be a dict, got {type(kwargs)}"
        name = self._graph_namespace.create_name(name if name is not None else self._target_to_str(target), None)
        node = Node(self, name, op, target, args, kwargs, type_expr)
        if self.owning_module is not None:
            for hook in getattr(self.owning_module, "_create_node_hooks", ()):
                hook(node)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._len += 1
        return node

    def process_inputs(self, *args):
        """Arguments as the placeholders take them."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out):
        """The output as the caller gets it."""
        return self._codegen.process_outputs(out)

    def erase_node(self, to_erase):
        """Removes a node that nobody uses."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            import warnings

            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        if self.owning_module is not None:
            for hook in getattr(self.owning_module, "_erase_node_hooks", ()):
                hook(to_erase)
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase._update_args_kwargs((), {})

    def inserting_before(self, n=None):
        """From now on, or within `with`, nodes go before n; without n before the first."""
        if n is None:
            return self.inserting_after(self._root)
        assert n.graph is self, "Node to insert before is not in graph."
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n=None):
        """From now on, or within `with`, nodes go after n; without n after the last."""
        if n is None:
            return self.inserting_before(self._root)
        assert n.graph is self, "Node to insert after is not in graph."
        point = [n]

        def insert(node):
            point[0].append(node)
            point[0] = node

        return _InsertPoint(self, insert)

    def placeholder(self, name, type_expr=None, default_value=_MISSING):
        """An input."""
        args = () if default_value is _MISSING else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name, type_expr=None):
        """A parameter or other attribute of the module, by its path."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name, args=None, kwargs=None, type_expr=None):
        """A call of a submodule, by its path."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name, args=None, kwargs=None, type_expr=None):
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(self, the_function, args=None, kwargs=None, type_expr=None, name=None):
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def node_copy(self, node, arg_transform=lambda x: x):
        """A copy of a node, maybe of another graph, with its arguments as `arg_transform` gives them."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        result = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        result.meta = copy.copy(node.meta)
        return result

    def output(self, result, type_expr=None):
        """What the graph returns."""
        return self.create_node("output", "output", args=(result,), type_expr=type_expr)

    def _target_to_str(self, target):
        text = target if isinstance(target, str) else target.__name__
        return _snake_case(text[2:-2] if _is_magic(text) else text)

    def python_code(self, root_module, *, verbose=False, include_stride=False, include_device=False, colored=False,
                    expanded_def=False, record_func=False, additional_meta=None):  # fmt: skip
        """Source of a function `forward` that does what the graph does."""
        return self._codegen._gen_python_code(
            self.nodes, root_module, _Namespace(), verbose=verbose, include_stride=include_stride,
            include_device=include_device, colored=colored, expanded_def=expanded_def, record_func=record_func,
            additional_meta=additional_meta,
        )  # fmt: skip

    def __str__(self):
        placeholders, returned = [], [""]
        lines = [node.format_node(placeholders, returned) for node in self.nodes]
        return "graph():" + "".join(f"\n    {line}" for line in lines)

    def print_tabular(self):
        """Prints a table of the nodes."""
        header = ["opcode", "name", "target", "args", "kwargs"]
        rows = [header] + [[n.op, n.name, str(n.target), str(n.args), str(n.kwargs)] for n in self.nodes]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        rows.insert(1, ["-" * width for width in widths])
        print("\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows))

    def lint(self):
        """Raises if a node uses what is not there, or stands before what it uses, or has another one's name."""
        seen, names = set(), set()

        def check(argument, user):
            if argument.graph is not self:
                raise RuntimeError(
                    f"Argument '{argument}' of Node '{user}' does not belong to this Graph, but was used as an argument! If "
                    "you are copying nodes from another graph, make sure to use ``arg_transform`` on node_copy() to remap "
                    f"values\n{self}"
                )
            if argument not in seen:
                raise RuntimeError(
                    f"Argument '{argument}' of Node '{user}' was used before it has been defined! Please check that Nodes "
                    f"in the graph are topologically ordered\n{self}"
                )

        for node in self.nodes:
            if node.op not in LEGAL_OPS or node.op == "root":
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            map_arg((node.args, node.kwargs), lambda n: check(n, node))  # noqa: B023
            seen.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                self._check_target(node)

    def _check_target(self, node):
        from ..nn import Module

        found = self.owning_module
        for part in node.target.split("."):
            if not hasattr(found, part):
                raise RuntimeError(f"Node {node} target {node.target} references nonexistent attribute {part} of {found}")
            found = getattr(found, part)
        if node.op == "call_module" and not isinstance(found, Module):
            raise RuntimeError(f"Node {node} target {node.target} does not reference an nn.Module")

    def eliminate_dead_code(self, is_impure_node=None):
        """Erases calls that nobody uses and that change nothing; returns whether there were any."""
        self.lint()
        impure = is_impure_node or Node.is_impure
        before = len(self.nodes)
        for node in reversed(self.nodes):
            if not impure(node) and not node.users:
                self.erase_node(node)
        return len(self.nodes) != before

    def set_codegen(self, codegen):
        """Sets what writes the code."""
        self._codegen = codegen

    def on_generate_code(self, make_transformer):
        """Adds a function to what rewrites the lines of code; in a `with`, only within it."""
        previous = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(previous)
        codegen = self._codegen

        class Restore:
            def __enter__(self):
                pass

            def __exit__(self, kind, value, traceback):
                codegen._body_transformer = previous

        return Restore()

    def _clear_nodes(self):
        for node in reversed(self.nodes):
            node.users.clear()
            self.erase_node(node)


