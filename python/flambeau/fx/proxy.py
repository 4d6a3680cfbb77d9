"""Stand-ins for values: what is done with them is written down in a graph."""
import collections
import copy
import dataclasses
import dis
import enum
import operator
import sys
import traceback
import types

from .. import _C
from ..overrides import is_tensor_method_or_property
from ._code import magic_methods, reflectable_magic_methods
from .graph import Graph
from .immutable_collections import immutable_dict, immutable_list
from .node import base_types, map_aggregate, map_arg

__all__ = ["TracerBase", "GraphAppendingTracer", "TraceError", "Proxy", "MetaProxy", "Attribute", "ParameterProxy", "Scope",
           "ScopeContextManager"]  # fmt: skip

_ITERATED = (
    "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or **kwargs "
    "function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what types of control flow "
    "can be traced, and check out the Proxy docstring for help troubleshooting Proxy iteration errors"
)


class TraceError(ValueError):
    """A program that does what tracing cannot record."""


class Scope:
    """The module whose forward runs: its path and type."""

    def __init__(self, module_path, module_type):
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """Within it, a scope is another one."""

    def __init__(self, scope, current_scope):
        self._scope, self._before = scope, copy.copy(scope)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self):
        return self._scope

    def __exit__(self, *args):
        self._scope.module_path, self._scope.module_type = self._before.module_path, self._before.module_type


class TracerBase:
    """Makes nodes and proxies for what is called. Subclasses decide what a module, a loop or a condition means."""

    graph: Graph
    record_stack_traces = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"
    scope = Scope("", None)
    module_stack = collections.OrderedDict()
    node_name_to_scope = {}

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        """Adds a node to the graph."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        return node

    def proxy(self, node):
        """What stands for a node's value."""
        return Proxy(node, self)

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, proxy_factory_fn=None):
        """Adds a node for a call with proxies among its arguments, and returns what stands for its value."""
        args_, kwargs_ = self.create_arg(args), self.create_arg(kwargs)
        assert isinstance(args_, tuple) and isinstance(kwargs_, dict)
        node = self.create_node(kind, target, args_, dict(kwargs_), name, type_expr)
        result = proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)
        if self.record_stack_traces and not node.stack_trace:
            frames = [f for f in traceback.extract_stack() if "/flambeau/" not in f.filename.replace("\\", "/")]
            node.stack_trace = "".join(traceback.StackSummary.from_list(frames).format()).strip()
        return result

    def create_arg(self, a):
        """A value as an argument of a node: proxies become nodes; what cannot stand in a graph raises."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            if hasattr(a, "_fields"):
                return type(a)(*map(self.create_arg, a))
            return tuple(map(self.create_arg, a)) if type(a) is not _C.Size else _C.Size(map(self.create_arg, a))
        if isinstance(a, list):
            return immutable_list(map(self.create_arg, a))
        if isinstance(a, dict):
            return immutable_dict((self._key(k), self.create_arg(v)) for k, v in a.items())
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            values = {f.name: self.create_arg(getattr(a, f.name)) for f in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), values)
        if isinstance(a, base_types) or _is_symbol(a) or _is_callable_argument(a):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _key(self, key):
        def refuse(node):
            raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {converted}")

        converted = self.create_arg(key)
        map_arg(converted, refuse)
        return converted

    def to_bool(self, obj):
        """What happens when a program asks whether a proxy is true: here it raises."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj):
        """What happens when a program loops over a proxy: here it raises."""
        raise TraceError(_ITERATED)

    def keys(self, obj):
        """What `**proxy` asks for."""
        return Attribute(obj, "keys")()


def _is_callable_argument(a):
    kinds = (types.FunctionType, types.BuiltinFunctionType, type, enum.Enum)
    return isinstance(a, kinds) or type(a).__name__ in ("OpOverload", "OpOverloadPacket")


def _is_symbol(a):
    return type(a).__name__ in ("SymInt", "SymFloat", "SymBool")


class GraphAppendingTracer(TracerBase):
    """Adds to a graph that is there."""

    def __init__(self, graph):
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}


class Proxy:
    """Stands for a value while a function is traced: operators, functions, methods and attributes become nodes."""

    def __init__(self, node, tracer=None):
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self):
        return f"Proxy({self.node.name})"

    def __getattr__(self, k):
        if k in ("node", "tracer"):  # not there yet: the object is being copied
            raise AttributeError(k)
        return Attribute(self, k)

    def __deepcopy__(self, memo):
        return type(self)(copy.deepcopy(self.node, memo), copy.deepcopy(self.tracer, memo))

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self):
        count = _unpacked(sys._getframe(1))
        return self.tracer.iter(self) if count is None else (self[i] for i in range(count))

    def __abs__(self):
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self):
        return self.tracer.to_bool(self)

    def keys(self):
        """What `**proxy` asks for."""
        return self.tracer.keys(self)

    def __len__(self):
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(cls, orig_method, types, args=None, kwargs=None):
        args, kwargs = args or (), kwargs or {}
        tracers = {}
        map_aggregate((args, kwargs), lambda a: tracers.setdefault(a.tracer) if isinstance(a, Proxy) else None)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace operations {orig_method}"
            )
        (tracer,) = tracers
        if is_tensor_method_or_property(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        name = tracer.graph._target_to_str(orig_method.__name__)
        return tracer.create_proxy("call_function", orig_method, args, kwargs, name=name)


def _unpacked(frame):
    """Into how many names the instruction that runs in a frame takes something apart; None if it does not."""
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            return instruction.argval if instruction.opname == "UNPACK_SEQUENCE" else None
    return None


class MetaProxy(Proxy):
    """A proxy with an example of its value, whose calls are run too."""

    def __init__(self, node, tracer=None, fake_mode=None):
        super().__init__(node, tracer)
        self.fake_mode = fake_mode


class Attribute(Proxy):
    """An attribute of a proxy. It becomes a node when its value is used, and none if it is called as a method."""

    def __init__(self, root, attr):
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node = None

    @property
    def node(self):
        """The node that reads the attribute."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter: its sizes are numbers, everything else is recorded."""

    def __init__(self, tracer, node, name, param):
        super().__init__(node, tracer)
        assert isinstance(param, _C.Tensor)
        self.param, self.name = param, name

    def __repr__(self):
        return f"ParameterProxy({self.name})"

    @property
    def shape(self):
        """The parameter's sizes."""
        return self.param.shape

    @property
    def ndim(self):
        """How many dimensions it has."""
        return self.param.ndim

    def size(self):
        """Its sizes."""
        return self.param.size()

    def dim(self):
        """How many dimensions it has."""
        return self.param.dim()

    def numel(self):
        """How many elements it has."""
        return self.param.numel()

    def nelement(self):
        """The same."""
        return self.param.nelement()


def _recorded(function, reflected=False):
    def method(self, *args):
        args = (*args, self) if reflected else (self, *args)
        return self.tracer.create_proxy("call_function", function, args, {})

    return method


for _name in magic_methods:
    _function = operator.truediv if _name == "div" else getattr(operator, _name)
    _plain = _name.strip("_")
    setattr(Proxy, f"__{_plain}__", _recorded(_function))
    if _name in reflectable_magic_methods:
        setattr(Proxy, f"__r{_plain}__", _recorded(_function, reflected=True))
Proxy.__hash__ = object.__hash__
