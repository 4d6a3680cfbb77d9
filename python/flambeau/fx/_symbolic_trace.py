"""Running a function with stand-ins for its arguments, and writing down what it does."""
import builtins
import collections
import functools
import inspect
import math
import sys
from types import FunctionType

from .. import _C
from ..nn import Module, Parameter, Sequential
from ._code import _PyTreeCodeGen, _PyTreeInfo
from .graph import Graph
from .graph_module import GraphModule
from .node import base_types, map_aggregate
from .proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase

__all__ = ["ProxyableClassMeta", "Tracer", "symbolic_trace", "wrap", "PHBase", "PHWithMeta", "PH"]

# (globals of a module, name of a function in it) that tracing records as one call.
_wrapped_fns_to_patch = {}
_wrapped_methods_to_patch = []
_proxyable_classes = {}
_tracing = [0]


def is_fx_tracing():
    """Is a function being traced in this process?"""
    return _tracing[0] > 0


is_fx_symbolic_tracing = is_fx_tracing


class ProxyableClassMeta(type):
    """A class whose instances, made of proxies, are recorded as a call of the class."""

    def __init__(cls, name, bases, attrs):
        super().__init__(name, bases, attrs)
        _proxyable_classes[cls] = None

    def __call__(cls, *args, **kwargs):
        instance = cls.__new__(cls)
        if not is_fx_tracing():
            instance.__init__(*args, **kwargs)
            return instance
        found = _proxies((args, kwargs))
        if not found:
            instance.__init__(*args, **kwargs)
            return instance
        return found[0].tracer.create_proxy("call_function", cls, args, kwargs)


def _proxies(values):
    found = []
    map_aggregate(values, lambda a: found.append(a) if isinstance(a, Proxy) else None)
    return found


class PHBase:
    """In `concrete_args`: this one stays an input."""

    def __repr__(self):
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """The same, with what the input's node is to know."""

    def __init__(self, ph_key=None):
        self.ph_key = ph_key

    def transfer_metadata_to_node(self, to_node):
        """Gives a node this one's public attributes."""
        to_node.meta.update({k: v for k, v in vars(self).items() if k != "ph_key"})


class _Patcher:
    """Replaced entries and attributes, put back at the end."""

    def __init__(self):
        self.undo, self.seen = [], set()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        for restore in reversed(self.undo):
            restore()

    def entry(self, scope, name, new):
        """Replaces scope[name], which may be a builtin that the scope does not have."""
        if name in scope:
            self.undo.append(functools.partial(scope.__setitem__, name, scope[name]))
        else:
            self.undo.append(functools.partial(scope.__delitem__, name))
        scope[name] = new

    def method(self, cls, name, new):
        """Replaces a method of a class, once."""
        if (cls, name) in self.seen:
            return
        self.seen.add((cls, name))
        if name in cls.__dict__:
            self.undo.append(functools.partial(setattr, cls, name, cls.__dict__[name]))
        else:
            self.undo.append(functools.partial(delattr, cls, name))
        setattr(cls, name, new)

    def visit(self, scope):
        """Was this scope seen before?"""
        new = id(scope) not in self.seen
        self.seen.add(id(scope))
        return new


def _recording(function):
    """A function that is recorded when it gets a proxy."""

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        found = _proxies((args, kwargs))
        if not found:
            return function(*args, **kwargs)
        result = found[0].tracer.create_proxy("call_function", function, args, kwargs)
        result.node.meta["is_wrapped"] = True
        return result

    return wrapped


def _recording_method(cls, name):
    original = getattr(cls, name)

    @functools.wraps(original)
    def wrapped(*args, **kwargs):
        found = _proxies((args, kwargs))
        return found[0].tracer.create_proxy("call_method", name, args, kwargs) if found else original(*args, **kwargs)

    return wrapped


class Tracer(TracerBase):
    """Traces modules and functions. Subclasses say what is not looked into (`is_leaf_module`) and what things mean."""

    def __init__(self, autowrap_modules=(math,), autowrap_functions=(), param_shapes_constant=False):
        super().__init__()
        functions = [f for m in autowrap_modules for n, f in vars(m).items() if not n.startswith("_") and callable(f)]
        self._autowrap_function_ids = {id(f) for f in (*functions, *autowrap_functions)}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.num_calls = {}
        self.node_name_to_scope = {}

    def get_fresh_qualname(self, prefix):
        """An attribute name that the root does not have."""
        count = 0
        while hasattr(self.root, f"{prefix}{count}"):
            count += 1
        return f"{prefix}{count}"

    def create_arg(self, a):
        """A value as an argument: parameters and constants become attributes of the root."""
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, _C.Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
            return self.create_node("get_attr", self._constant(a), (), {})
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            values = tuple(map(self.create_arg, a))
            return self.create_node("call_function", type(a), values, {})
        if type(a) in _proxyable_classes:
            name = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def _constant(self, tensor):
        for owner, name in self._tensor_attributes:
            if owner is tensor:
                return name
        name = self.get_fresh_qualname("_tensor_constant")
        self._tensor_attributes.append((tensor, name))
        setattr(self.root, name, tensor)
        return name

    def is_leaf_module(self, m, module_qualified_name):
        """Is a call of this module one node? Here: the library's own modules."""
        ours = m.__module__.startswith(("flambeau.nn", "torch.nn", "flambeau.ao.nn", "torch.ao.nn"))
        return ours and not isinstance(m, Sequential)

    def path_of_module(self, mod):
        """The path of a submodule of the root."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError("module is not installed as a submodule")
            return path
        for name, candidate in self.root.named_modules():
            if candidate is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m, forward, args, kwargs):
        """What a call of a submodule gives: a node if it is a leaf, else what its forward gives."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))) as scope:
            calls = self.num_calls.get(path, 0)
            self.num_calls[path] = calls + 1
            key = f"{scope.module_path}@{calls}" if calls else scope.module_path
            self.module_stack[key] = (path, scope.module_type)
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.popitem()

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        """What reading a module's attribute gives: a node for parameters, else the value."""
        if isinstance(attr_val, Parameter):
            found = self._attribute_proxy(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        elif self.proxy_buffer_attributes and isinstance(attr_val, _C.Tensor):
            found = self._attribute_proxy(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        else:
            found = None
        return attr_val if found is None else found

    def _attribute_proxy(self, value, candidates, cache):
        for name, candidate in candidates:
            if candidate is value:
                if name not in cache:
                    # Only if it is needed: tracers written before it existed do not take it.
                    make = {}
                    if self.param_shapes_constant:
                        make["proxy_factory_fn"] = lambda node: ParameterProxy(self, node, name, value)  # noqa: B023
                    cache[name] = self.create_proxy("get_attr", name, (), {}, **make)
                return cache[name]
        return None

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        """The function to run and the proxies, and fixed values, to run it with."""
        function = inspect.unwrap(root_fn)
        if not isinstance(function, FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(function)}")
        code = function.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames[: total + len(_stars(code))])
        signature = inspect.signature(function)
        if is_module:
            if total == 0:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            first, names = [self.root], names[1:]
            total -= 1
        else:
            first = []
        if isinstance(concrete_args, tuple):
            if len(names) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(names)} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete_args = dict(zip(names, concrete_args))
        concrete_args = concrete_args or {}
        positional, extra = names[:total], names[total:]
        args = first + [self._argument(name, concrete_args, signature) for name in positional]
        for star, name in zip(_stars(code), extra):
            args.append(self.create_proxy("placeholder", star + name, (), {}, name="_" + name, type_expr=None))
        run = _with_keywords(root_fn, len(first) + code.co_argcount - is_module, positional[code.co_argcount - is_module :],
                             _stars(code))  # fmt: skip
        if any(_nested(v) for v in concrete_args.values()):
            return self._flat(run, args, len(first), [*(["self"] if is_module else []), *names], signature)
        return run, args

    def _argument(self, name, concrete_args, signature):
        if name not in concrete_args:
            return self._proxy_placeholder(name, signature)
        value = concrete_args[name]
        if not _nested(value):
            return self._leaf(name, value, signature)
        from ..utils import _pytree

        leaves, spec = _pytree.tree_flatten(value, is_leaf=lambda x: isinstance(x, PHBase))
        return _pytree.tree_unflatten([self._leaf(name, leaf, signature) for leaf in leaves], spec)

    def _leaf(self, name, value, signature):
        count = self._concrete_count = getattr(self, "_concrete_count", 0) + 1
        if isinstance(value, PHBase):
            result = self.create_proxy("placeholder", f"{name}_{count}", (), {})
            if isinstance(value, PHWithMeta):
                value.transfer_metadata_to_node(result.node)
            return result
        proxy = self.create_proxy("placeholder", f"{name}_{count}", (), {})
        if type(value) is bool or isinstance(value, base_types) and not isinstance(value, _C.Tensor) and value is not None:
            from .._names import _assert

            _assert(proxy == value, f"{name} has been specialized to have value {value} but got another value")
        elif value is None:
            self.create_proxy("call_function", _assert_is_none, (
                proxy, f"{name} has been specialized to have value None but got another value"), {})  # fmt: skip
        else:
            import warnings

            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is up to the "
                "user to make sure that your inputs match the inputs you specialized the function with.",
                stacklevel=2,
            )
        return value

    def _proxy_placeholder(self, name, signature):
        parameter = signature.parameters.get(name)
        empty = inspect.Parameter.empty
        default = () if parameter is None or parameter.default is empty else (parameter.default,)
        annotation = None if parameter is None or parameter.annotation is empty else parameter.annotation
        return self.create_proxy("placeholder", name, default, {}, type_expr=annotation)

    def _flat(self, run, args, skip, names, signature):
        from ..utils import _pytree

        leaves, in_spec = _pytree.tree_flatten(tuple(args[skip:]))
        info = _PyTreeInfo(names, in_spec, None)
        self.graph._codegen = _PyTreeCodeGen(info)

        def flat(*values):
            head, tail = values[:skip], values[skip:]
            result, info.out_spec = _pytree.tree_flatten(run(*head, *_pytree.tree_unflatten(list(tail), in_spec)))
            return result

        return flat, args[:skip] + leaves

    def trace(self, root, concrete_args=None):
        """The graph of a module or function. `concrete_args` fixes arguments to values."""
        if isinstance(root, Module):
            function = getattr(type(root), self.traced_func_name)
            self.root, self.root_module_name = root, root._get_name()
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            function, self.root, self.root_module_name = root, Module(), ""
        self.graph = Graph(tracer_cls=type(self))
        self._concrete_count = 0
        self._tensor_attributes = list(_plain_tensors(self.root))
        scope = getattr(inspect.unwrap(function), "__globals__", {})
        run, args = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
        with _Patcher() as patcher:
            self._patch(patcher, scope)
            _tracing[0] += 1
            try:
                result = run(*args)
                returned = getattr(inspect.unwrap(function), "__annotations__", {}).get("return")
                self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=returned)
            finally:
                _tracing[0] -= 1
        self.submodule_paths = None
        return self.graph

    def _patch(self, patcher, scope):
        cache = {}
        own_getattr, own_call = Module.__getattr__, Module.__call__

        def module_getattr(mod, attr):
            return self.getattr(attr, own_getattr(mod, attr), cache)

        @functools.wraps(own_call)
        def module_call(mod, *args, **kwargs):
            self._autowrap(patcher, getattr(getattr(mod, "forward", mod), "__globals__", {}))
            return self.call_module(mod, lambda *a, **k: own_call(mod, *a, **k), args, kwargs)

        patcher.method(Module, "__getattr__", module_getattr)
        patcher.method(Module, "__call__", module_call)
        for (_, name), target in list(_wrapped_fns_to_patch.items()):
            function = target.get(name, getattr(builtins, name, None))
            if function is not None:
                patcher.entry(target, name, _recording(function))
        for cls, name in _wrapped_methods_to_patch:
            patcher.method(cls, name, _recording_method(cls, name))
        self._autowrap(patcher, scope)
        for module in self._autowrap_search:
            if module is not math:
                self._autowrap(patcher, vars(module))

    def _autowrap(self, patcher, scope):
        if not patcher.visit(scope):
            return
        for name, value in list(scope.items()):
            if not name.startswith("_") and callable(value) and id(value) in self._autowrap_function_ids:
                patcher.entry(scope, name, _recording(value))
        if scope.get("math") is math and math in self._autowrap_search:
            patcher.entry(scope, "math", _RecordingModule(math))


class _RecordingModule:
    """A module of functions, each of which is recorded when it gets a proxy."""

    def __init__(self, module):
        self._module = module

    def __getattr__(self, name):
        value = getattr(self._module, name)
        return _recording(value) if callable(value) else value


def _nested(value):
    return isinstance(value, (list, tuple, dict))


def _stars(code):
    return (["*"] if code.co_flags & inspect.CO_VARARGS else []) + (["**"] if code.co_flags & inspect.CO_VARKEYWORDS else [])


def _with_keywords(function, positional, keywords, stars):
    """A function that takes everything by position, and hands on what has to be named; the starred ones are proxies."""

    def run(*values):
        values = list(values)
        rest = values[positional:]
        named = dict(zip(keywords, rest))
        starred = dict(zip(stars, rest[len(keywords) :]))
        return _call(function, values[:positional], named, starred)

    return run if keywords or stars else function


def _call(function, args, named, starred):
    """Calls a function so that its `*args` and `**kwargs` are proxies themselves."""
    import types

    if not starred:
        return function(*args, **named)
    function = inspect.unwrap(function)
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount + len(starred)
    plain = code.replace(
        co_argcount=count, co_kwonlyargcount=0, co_posonlyargcount=0,
        co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
    )  # fmt: skip
    bare = types.FunctionType(plain, function.__globals__, function.__name__, None, function.__closure__)
    return bare(*args, *named.values(), *starred.values())


def _plain_tensors(module, prefix=()):
    """(tensor, path) of attributes that are tensors but neither parameters nor buffers."""
    for name, value in vars(module).items():
        if isinstance(value, _C.Tensor):
            yield value, ".".join((*prefix, name))
    for name, child in module.named_children():
        yield from _plain_tensors(child, (*prefix, name))


def _assert_is_none(value, msg):
    assert value is None, msg


def wrap(fn_or_name):
    """At module scope: calls of this function of the module, or of a builtin, are recorded as one node."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_fns_to_patch[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def symbolic_trace(root, concrete_args=None):
    """A GraphModule that does what a module or function does, with its calls as a graph."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root.__class__.__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
