"""Graphs as Python source."""
import enum
import math
from dataclasses import dataclass, field

from .. import _C
from .node import Node, _get_qualified_name, _type_repr

reflectable_magic_methods = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}", "truediv": "{} / {}", "div": "{} / {}",
    "mod": "{} % {}", "pow": "{} ** {}", "lshift": "{} << {}", "rshift": "{} >> {}", "and_": "{} & {}", "or_": "{} | {}",
    "xor": "{} ^ {}", "getitem": "{}[{}]", "matmul": "{} @ {}",
}  # fmt: skip
magic_methods = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}", "ge": "{} >= {}",
    "pos": "+{}", "neg": "-{}", "invert": "~{}", **reflectable_magic_methods,
}  # fmt: skip
inplace_methods = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}", "imod": "{} %= {}",
    "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}", "ipow": "{} **= {}", "irshift": "{} >>= {}",
    "isub": "{} -= {}", "itruediv": "{} /= {}", "ixor": "{} ^= {}", "setitem": "{}[{}] = {}",
}  # fmt: skip


@dataclass
class PythonCode:
    """Source, what its free names mean, and the node that each of its lines comes from."""

    src: str
    globals: dict
    _lineno_map: dict = field(default_factory=dict)


def _package():
    import flambeau

    return flambeau


def _known_globals():
    """What generated code may name without an import."""
    from ..utils import _pytree

    return {"inf": math.inf, "nan": math.nan, "NoneType": type(None), "torch": _package(), "device": _C.device,
            "fx_pytree": _pytree, "pytree": _pytree}  # fmt: skip


def _reachable(path, obj):
    """Does `torch.a.b` in source mean this object?"""
    found = _package()
    for part in path.split(".")[1:]:
        found = getattr(found, part, None)
    return found is obj


def _format_target(base, target):
    """`base.a.b`, with getattr where a part is no identifier."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


class _Writer:
    """Names and source of one function while it is written."""

    def __init__(self, namespace):
        self.namespace, self.globals, self.wrapped = namespace, _known_globals(), {}
        for name in self.globals:
            namespace._used_names.add(name)

    def node(self, node):
        return self.namespace.create_name(node.name, node)

    def add_global(self, hint, obj):
        """The expression for an object: under `torch`, or as a global of its own."""
        if obj is _C.device or obj is type(None):
            return obj.__name__
        if hint.startswith("torch.") and _reachable(hint, obj):
            return hint
        name = self.namespace.create_name(hint.replace(".", "_"), _Identity(obj))
        self.globals.setdefault(name, obj)
        return name

    def type(self, annotation):
        text = _type_repr(annotation)
        origin = getattr(annotation, "__origin__", None)
        if origin is not None and not isinstance(annotation, type):
            import typing

            known = {list: typing.List, dict: typing.Dict, tuple: typing.Tuple, set: typing.Set, frozenset: typing.FrozenSet}
            origin = known.get(origin, origin)
            name = self.add_global(repr(origin) if origin in known.values() else _type_repr(origin), origin)
            arguments = getattr(annotation, "__args__", ())
            return f"{name}[{','.join(map(self.type, arguments))}]" if arguments else name
        if annotation is ...:
            return "..."
        if isinstance(annotation, str):
            return repr(annotation)
        if isinstance(annotation, type) and annotation.__module__ == "builtins" and annotation.__name__ != "NoneType":
            return text
        return self.add_global(text, annotation)

    def value(self, a):
        """An argument as source."""
        if isinstance(a, Node):
            return self.node(a)
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return f"{self.add_global(_type_repr(type(a)), type(a))}({', '.join(map(self.value, a))})"
        if isinstance(a, _C.Size):
            return f"{self.add_global('torch.Size', _C.Size)}([{', '.join(map(self.value, a))}])"
        if isinstance(a, tuple):
            return f"({', '.join(map(self.value, a))}{',' if len(a) == 1 else ''})"
        if isinstance(a, list):
            return f"[{', '.join(map(self.value, a))}]"
        if isinstance(a, dict):
            return "{" + ", ".join(f"{self.value(k)}: {self.value(v)}" for k, v in a.items()) + "}"
        if isinstance(a, slice):
            return f"slice({self.value(a.start)}, {self.value(a.stop)}, {self.value(a.step)})"
        if isinstance(a, enum.Enum):
            return f"{self.add_global(_type_repr(type(a)), type(a))}.{a.name}"
        if isinstance(a, type):
            return self.add_global(_type_repr(a), a)
        if callable(a) and hasattr(a, "__name__"):
            return self.add_global(_get_qualified_name(a), a)
        return repr(a)

    def arguments(self, args, kwargs):
        return ", ".join([*map(self.value, args), *(f"{k} = {self.value(v)}" for k, v in kwargs.items())])


class _Identity:
    """A key that stands for one object, be it hashable or not."""

    def __init__(self, obj):
        self.obj = obj

    def __hash__(self):
        return id(self.obj)

    def __eq__(self, other):
        return isinstance(other, _Identity) and other.obj is self.obj


def _last_uses(nodes):
    """{node: the nodes whose values nobody needs after it}."""
    seen, result = set(), {}
    for node in reversed(nodes):
        for used in node.all_input_nodes:
            if used not in seen:
                seen.add(used)
                result.setdefault(node, []).append(used)
    return result


class CodeGen:
    """Writes a graph as a function. Subclasses change its signature and what it returns."""

    def __init__(self):
        self._body_transformer = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
        """The line that begins the function."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args, *, descs=None, repr_fn=None):
        """The line that returns."""
        return f"return {(repr_fn or repr)(output_args)}"

    def process_inputs(self, *args):
        """Arguments as the placeholders take them."""
        return args

    def process_outputs(self, outputs):
        """The output as the caller gets it."""
        return outputs

    def additional_globals(self):
        """Further (name, value) pairs that the code needs."""
        return []

    def _gen_python_code(self, nodes, root_module, namespace, *, verbose=False, include_stride=False, include_device=False,
                         colored=False, expanded_def=False, record_func=False, additional_meta=None):  # fmt: skip
        writer = _Writer(namespace)
        for name, value in self.additional_globals():
            writer.globals[name] = value
            namespace._used_names.add(name)
        free_vars, body, lines, returned = [], [], {}, ""
        last_uses = _last_uses(nodes)
        for node in nodes:
            lines[len(body)] = node
            comment = _tensor_comment(node, include_stride, include_device) if verbose else ""
            for key in additional_meta or ():
                comment += f" # {key}: {node.meta[key]}" if key in node.meta else ""
            typed = f" : {writer.type(node.type)}" if node.type is not None else ""
            if node.op == "placeholder":
                default = f" = {writer.value(node.args[0])}" if node.args else ""
                free_vars.append(f"{node.target}{typed}{default}{comment and ' ' + comment}")
                raw = node.target.replace("*", "")
                if raw != writer.node(node):
                    body.append(f"{writer.node(node)} = {raw}\n")
                continue
            if node.op == "output":
                returned = f" -> {writer.type(node.type)}" if node.type is not None else ""
                body.append(self.generate_output(node.args[0], repr_fn=writer.value) + "\n")
                continue
            dead = last_uses.get(node, []) + ([] if node.users else [node])
            release = f";  {' = '.join(writer.node(n) for n in dead)} = None" if dead else ""
            body.append(f"{self._statement(node, root_module, writer, typed)}{release}{comment and '  ' + comment}\n")
        if self._body_transformer is not None:
            body = self._body_transformer(body)
        text = "\n".join("    " + line for line in "".join(body or ["pass\n"]).split("\n"))
        wraps = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in writer.wrapped)
        head = self.gen_fn_def(free_vars, returned, expanded_def=expanded_def)
        source = f"\n{wraps}\n\n{head}\n{text}"
        return PythonCode(source, writer.globals, {4 + i: node for i, node in lines.items()})

    def _statement(self, node, root_module, writer, typed):
        name = f"{writer.node(node)}{typed}"
        if node.op == "call_method":
            method = _dotted(writer.value(node.args[0]), node.target)
            return f"{name} = {method}({writer.arguments(node.args[1:], node.kwargs)})"
        if node.op == "call_module":
            return f"{name} = {_format_target(root_module, node.target)}({writer.arguments(node.args, node.kwargs)})"
        if node.op == "get_attr":
            return f"{name} = {_format_target(root_module, node.target)}"
        assert node.op == "call_function" and callable(node.target)
        short = node.target.__name__
        if getattr(node.target, "__module__", None) == "_operator":
            values = [writer.value(a) for a in node.args]
            if short in magic_methods:
                return f"{name} = {magic_methods[short].format(*values)}"
            if short in inplace_methods:
                return f"{inplace_methods[short].format(*values)};  {name} = {values[0]}"
        if node.target is getattr and isinstance(node.args[1], str) and node.args[1].isidentifier() and len(node.args) == 2:
            return f"{name} = {_dotted(writer.value(node.args[0]), node.args[1])}"
        function = writer.add_global(_get_qualified_name(node.target), node.target)
        if node.meta.get("is_wrapped"):
            writer.wrapped.setdefault(function)
        return f"{name} = {function}({writer.arguments(node.args, node.kwargs)})"


def _dotted(value, name):
    """`value.name`; numbers need brackets."""
    return f"{value}.{name}" if not value[:1].isdigit() else f"({value}).{name}"


def _tensor_comment(node, include_stride, include_device):
    meta = node.meta.get("val", node.meta.get("tensor_meta"))
    if meta is None or not hasattr(meta, "shape"):
        return ""
    text = f'"{str(meta.dtype).removeprefix("torch.")}{list(meta.shape)}'
    if include_stride:
        stride = meta.stride() if callable(meta.stride) else meta.stride
        text += str(list(stride))
    if include_device and hasattr(meta, "device"):
        text += str(meta.device)
    return f'# {text}"'


@dataclass
class _PyTreeInfo:
    """How a traced function's arguments and result are nested."""

    orig_args: list
    in_spec: object
    out_spec: object


class _PyTreeCodeGen(CodeGen):
    """Code of a function whose arguments and result are nested: flat inside."""

    def __init__(self, pytree_info):
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs):
        """All leaves of the arguments."""
        from ..utils import _pytree

        return _pytree.arg_tree_leaves(*inputs)

    def process_outputs(self, out):
        """The result in its shape."""
        from ..utils import _pytree

        if not isinstance(out, (list, tuple)):
            out = [out]
        return _pytree.tree_unflatten(list(out), self.pytree_info.out_spec) if self.pytree_info.out_spec else out

    def additional_globals(self):
        """The two shapes."""
        return [("_in_spec", self.pytree_info.in_spec), ("_out_spec", self.pytree_info.out_spec)]

    def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
        """The line that begins the function, and one that takes its arguments apart."""
        arguments = list(self.pytree_info.orig_args)
        head = super().gen_fn_def(list(arguments), maybe_return_annotation)
        inner = [name.partition(" ")[0].partition("=")[0] for name in free_vars if name != "self"]
        given = ", ".join(name for name in arguments if name != "self")
        if not inner:
            return head
        return f"{head}\n    {', '.join(inner)}, = fx_pytree.arg_tree_leaves({given})"

    def generate_output(self, output_args, *, descs=None, repr_fn=None):
        """The line that returns the result in its shape."""
        value = (repr_fn or repr)(output_args)
        return f"return pytree.tree_unflatten({value}, _out_spec)" if self.pytree_info.out_spec else f"return {value}"
