"""One call in a graph."""
import builtins
import operator
import types
import typing
from collections.abc import Callable

from .. import _C
from .._names import _assert
from .immutable_collections import immutable_dict, immutable_list

__all__ = ["Node", "map_arg", "map_aggregate", "has_side_effect"]

LEGAL_OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
_legal_ops = dict.fromkeys(LEGAL_OPS)
# What an argument may be, besides nodes and containers of such.
base_types = (str, int, float, bool, complex, type(None), type(...), _C.dtype, _C.Tensor, _C.device, _C.memory_format, _C.layout)

# What a node calls, and what it calls it with, for annotations.
Target = Callable[..., typing.Any] | str
BaseArgumentTypes = str | int | float | bool | complex | _C.dtype | _C.Tensor | _C.device | _C.memory_format | _C.layout
Argument = typing.Any

_side_effectful_functions = set()
_RANDOM = frozenset("bernoulli dropout multinomial normal poisson rand rand_like randint randint_like randn randn_like "
                    "randperm".split())  # fmt: skip


def has_side_effect(fn):
    """Marks a function: calls of it are never removed as dead."""
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a, fn):
    """The same containers with `fn` applied to what is in them; lists and dictionaries become immutable."""
    if isinstance(a, tuple):
        values = [map_aggregate(x, fn) for x in a]
        return type(a)(*values) if hasattr(a, "_fields") else tuple(values)
    if isinstance(a, list):
        return immutable_list([map_aggregate(x, fn) for x in a])
    if isinstance(a, dict):
        return immutable_dict((k, map_aggregate(v, fn)) for k, v in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(x, fn) for x in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a, fn):
    """The same containers with `fn` applied to the nodes in them."""
    assert callable(fn), "torch.fx.map_arg(a, fn): fn must be a callable"
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def _public_module(func):
    """Under which of PyTorch's module names a function of ours is found."""
    module = getattr(func, "__module__", None)
    return module.replace("flambeau", "torch", 1) if module and module.partition(".")[0] == "flambeau" else module


# Functions of the core that PyTorch keeps in parts of its core's module.
_PARTS = ("fft", "linalg", "special")
_OF_NN = frozenset(
    "adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d avg_pool2d avg_pool3d "
    "binary_cross_entropy col2im cross_entropy_loss elu elu_ fractional_max_pool2d fractional_max_pool3d gelu gelu_ glu "
    "hardsigmoid hardsigmoid_ hardswish hardswish_ hardtanh hardtanh_ huber_loss im2col l1_loss leaky_relu leaky_relu_ "
    "linear log_sigmoid max_pool2d_with_indices max_pool3d_with_indices max_unpool2d max_unpool3d mish mish_ mse_loss "
    "multi_margin_loss multilabel_margin_loss nll_loss nll_loss2d nll_loss_nd one_hot pad pad_sequence reflection_pad1d "
    "reflection_pad2d reflection_pad3d relu6 relu6_ replication_pad1d replication_pad2d replication_pad3d "
    "rrelu_with_noise rrelu_with_noise_ scaled_dot_product_attention silu silu_ smooth_l1_loss soft_margin_loss softplus "
    "softshrink upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d "
    "upsample_nearest3d upsample_trilinear3d".split()
)

# Of `nn.functional` what PyTorch takes from there as it is.
_BUILT_IN = frozenset(
    "avg_pool2d avg_pool3d elu_ gelu hardtanh_ leaky_relu_ linear one_hot scaled_dot_product_attention softplus "
    "softshrink".split()
)


def _get_qualified_name(func):
    """'torch.nn.functional.relu' for that function."""
    if isinstance(getattr(builtins, getattr(func, "__name__", ""), None), type(func)) and (
        getattr(builtins, func.__name__) is func
    ):
        return func.__name__
    if isinstance(func, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return f"torch.Tensor.{func.__name__}" if getattr(_C.Tensor, func.__name__, None) is func else func.__qualname__
    if hasattr(func, "_qualified_op_name") or type(func).__name__ in ("OpOverload", "OpOverloadPacket"):
        return f"torch.ops.{str(func)}"
    name = func.__name__
    if name == "<lambda>":
        raise RuntimeError(f"Unable to find qualified name of {func!r}: it is a lambda")
    module = _public_module(func)
    if module == "torch" and getattr(_C, name, None) is func and not _is_public(name):
        prefix = name.partition("_")[0]
        module = f"torch._C._{'nn' if name in _OF_NN else prefix}" if name in _OF_NN or prefix in _PARTS else "torch._C"
    if module == "torch.nn.functional" and name in _BUILT_IN:
        module = "torch._C._nn"
    return f"{module}.{name}".replace("torch._ops", "torch.ops", 1)


def _is_public(name):
    import flambeau

    return hasattr(flambeau, name)


def _type_repr(obj):
    """A type as a reader writes it."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        if obj.__module__ == "builtins":
            return obj.__qualname__
        return f"{_public_module(obj)}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    if isinstance(obj, types.FunctionType):
        return obj.__name__
    return repr(obj).replace("flambeau.", "torch.")


def _format_arg(arg):
    if hasattr(arg, "_custom_fx_repr_fn"):
        return arg._custom_fx_repr_fn()
    if isinstance(arg, tuple) and not hasattr(arg, "_fields"):
        items = ", ".join(map(_format_arg, arg))
        return f"({items},)" if len(arg) == 1 else f"({items})"
    if isinstance(arg, list):
        return "[" + ", ".join(map(_format_arg, arg)) + "]"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items()) + "}"
    if isinstance(arg, Node):
        return "%" + str(arg)
    return str(arg)


class Node:
    """A step of a Graph: its operation, target and arguments, and who uses its value.

    `op` is one of placeholder, get_attr, call_function, call_module, call_method and output.
    """

    _input_nodes = None

    def __init__(self, graph, name, op, target, args, kwargs, return_type=None):
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type {_type_name(target)} but a "
                    "Callable is expected"
                )
        elif op not in LEGAL_OPS:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        elif not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {_type_name(target)} but a str is "
                "expected"
            )
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self._args, self._kwargs = (), {}
        self._input_nodes, self.users = {}, {}
        self._prev = self._next = self
        self._erased = False
        self._repr_fn = None
        self.meta = {}
        self._update_args_kwargs(args, kwargs)

    next = property(lambda self: self._next, doc="The node after this one.")
    prev = property(lambda self: self._prev, doc="The node before this one.")

    def __repr__(self):
        return self._repr_fn(self) if self._repr_fn else self.name

    def __getstate__(self):
        return self.__dict__.copy()

    def _position(self):
        return self.graph._positions()[self]

    def __lt__(self, other):
        return self._position() < other._position()

    def __gt__(self, other):
        return self._position() > other._position()

    def __le__(self, other):
        return self is other or self < other

    def __ge__(self, other):
        return self is other or self > other

    def prepend(self, x):
        """Moves node x to just before this one."""
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x
        self.graph._order = None

    def append(self, x):
        """Moves node x to just after this one."""
        if self._next is not x:
            self._next.prepend(x)

    def _remove_from_list(self):
        self._prev._next, self._next._prev = self._next, self._prev
        self.graph._order = None

    @property
    def args(self):
        """The positional arguments."""
        return self._args

    @args.setter
    def args(self, value):
        self._update_args_kwargs(value, self._kwargs)

    @property
    def kwargs(self):
        """The keyword arguments."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, value):
        self._update_args_kwargs(self._args, value)

    def _update_args_kwargs(self, args, kwargs):
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._input_nodes = {}

        def use(node):
            self._input_nodes.setdefault(node)
            node.users.setdefault(self)
            return node

        self._args = map_arg(tuple(args), use)
        self._kwargs = map_arg(dict(kwargs), use)

    @property
    def all_input_nodes(self):
        """Every node among the arguments, once."""
        return list(self._input_nodes)

    def update_arg(self, idx, arg):
        """Sets one positional argument."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx, arg):
        """Puts a positional argument before the one at `idx`."""
        assert 0 <= idx <= len(self.args), "insert_args index must be between 0 and len(self.args)"
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key, arg):
        """Sets one keyword argument."""
        self.kwargs = {**self.kwargs, key: arg}

    @property
    def stack_trace(self):
        """Where the call was recorded, if the tracer keeps that."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace):
        self.meta["stack_trace"] = trace

    def _pretty_print_target(self, target):
        if isinstance(target, str):
            return target
        if getattr(target, "__module__", None) == "builtins":
            return f"builtins.{target.__name__}"
        name = _get_qualified_name(target) if hasattr(target, "__name__") else str(target)
        return name.replace("_operator.", "operator.", 1)

    def format_node(self, placeholder_names=None, maybe_return_typename=None, *, include_tensor_metadata=False):
        """The node as the graph prints it."""
        typed = f"{_type_repr(self.type)} " if self.type else ""
        target = self._pretty_print_target(self.target)
        head = f"%{self.name} : {typed}[num_users={len(self.users)}] = {self.op}[target={target}]"
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(self.target + (f": {_type_repr(self.type)}" if self.type else ""))
            return head + (f"(default={self.args[0]})" if self.args else "")
        if self.op == "get_attr":
            return head
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self.args[0]}"
        meta = self.meta.get("tensor_meta") if include_tensor_metadata else None
        tail = f", tensor_meta = {meta}" if meta is not None else ""
        return f"{head}(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)}){tail}"

    def replace_all_uses_with(self, replace_with, delete_user_cb=None, *, propagate_meta=False):
        """Gives this node's users another one instead; returns the users that were changed."""
        if propagate_meta:
            assert len(replace_with.meta) == 0, (
                "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with already has .meta "
                "keys"
            )
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input, new_input):
        """Puts another node in the place of one argument."""
        swap = lambda n: new_input if n is old_input else n  # noqa: E731
        self._update_args_kwargs(map_arg(self.args, swap), map_arg(self.kwargs, swap))

    def is_impure(self, impure_random=True):
        """Must the call stay although nobody uses its value?"""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            if self.target in _side_effectful_functions or self.target is operator.setitem:
                return True
            name = getattr(self.target, "__name__", "")
            return impure_random and name in _RANDOM or _writes_argument(self.target, name)
        if self.op == "call_module":
            module = self.graph.owning_module
            assert module is not None, "self.graph.owning_module not set for purity check"
            return getattr(module.get_submodule(self.target), "_is_impure", False)
        # A write that nobody reads from here may be read through another view.
        return self.op == "call_method" and _in_place(self.target)

    def normalized_arguments(self, root, arg_types=None, kwarg_types=None, normalize_to_only_use_kwargs=False):
        """Arguments as the target's signature names them; None if that is not known."""
        from .operator_schemas import normalize_function, normalize_module

        if self.op == "call_function":
            return normalize_function(self.target, self.args, self.kwargs, arg_types, kwarg_types,
                                      normalize_to_only_use_kwargs=normalize_to_only_use_kwargs)  # fmt: skip
        if self.op == "call_module":
            return normalize_module(root, self.target, self.args, self.kwargs, normalize_to_only_use_kwargs)
        return None

    def _rename(self, candidate):
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace._rename_object(self, self.name)


def _writes_argument(target, name):
    """Does an operator's schema say that it writes to an argument?"""
    schema = getattr(target, "_schema", None)
    if schema is not None:
        return bool(getattr(schema, "is_mutable", False))
    return (getattr(target, "__module__", None) or "").startswith("flambeau") and _in_place(name)


def _in_place(name):
    return name.endswith("_") and not name.endswith("__")


def _type_name(value):
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


has_side_effect(_assert)
