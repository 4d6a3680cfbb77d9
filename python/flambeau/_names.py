"""Small helpers that several sub-packages share: type names for messages and `__torch_function__` dispatch."""
from functools import wraps
from types import FunctionType

from . import _C

# A core that lacks the two under these names has them in its `overrides` namespace.
_home = _C if hasattr(_C, "has_torch_function") else _C.overrides
has_torch_function = _home.has_torch_function


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Call the `__torch_function__` of the relevant arguments in turn."""
    from .overrides import handle_torch_function as handle

    return handle(public_api, relevant_args, *args, **kwargs)


def typename(obj) -> str:
    """The name by which messages call an object's type: 'torch.FloatTensor' for a tensor, 'int' for 3."""
    if isinstance(obj, _C.Tensor):
        return obj.type()
    cls = obj if isinstance(obj, type) else type(obj)
    module = cls.__module__
    return cls.__qualname__ if module in (None, "builtins", "__builtin__") else f"{module}.{cls.__qualname__}"


def under_own_name(cls, *methods) -> None:
    """Give a class the methods that it has from a private base, under its own name: errors and tracebacks show it."""
    for name in methods:
        method = getattr(cls, name)
        if name not in vars(cls) and isinstance(method, FunctionType):
            own = FunctionType(method.__code__, method.__globals__, name, method.__defaults__, method.__closure__)
            own.__dict__.update(method.__dict__)
            own.__kwdefaults__, own.__annotations__, own.__doc__ = method.__kwdefaults__, method.__annotations__, method.__doc__
            own.__module__, own.__qualname__ = cls.__module__, f"{cls.__qualname__}.{name}"
            setattr(cls, name, own)


def _as_declared(fn, args, kwargs):
    """The arguments of a call as overrides see them: by place what has no default, by name all else."""
    code, defaults, others = fn.__code__, fn.__defaults__ or (), fn.__kwdefaults__ or {}
    names, rest = code.co_varnames[: code.co_argcount], code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
    given = {**dict(zip(names, args)), **kwargs}
    required = names[: len(names) - len(defaults)]
    known = {**dict(zip(names[len(required) :], defaults)), **{name: others.get(name) for name in rest}}
    if code.co_flags & 0x0C or len(given) != len(args) + len(kwargs) or not set(required) <= given.keys() <= {*required, *known}:
        return args, kwargs  # *args or **kwargs, or a call that will be refused
    return tuple(given[name] for name in required), {name: given.get(name, value) for name, value in known.items()}


def overridable(fn):
    """Let a Python function be answered by the `__torch_function__` of one of its arguments."""

    @wraps(fn)
    def wrapper(*args, **kwargs):
        if has_torch_function(args) or (kwargs and has_torch_function(tuple(kwargs.values()))):
            relevant = tuple(a for a in (*args, *kwargs.values()) if hasattr(type(a), "__torch_function__"))
            args, kwargs = _as_declared(fn, args, kwargs)
            return handle_torch_function(wrapper, relevant, *args, **kwargs)
        return fn(*args, **kwargs)

    return wrapper


def factory_kwargs(device, dtype) -> dict:
    """Keyword arguments for a tensor constructor."""
    return {"device": device, "dtype": dtype}


@overridable
def is_nonzero(input):
    """Whether the one element of a tensor is not zero."""
    return input.is_nonzero()


def is_distributed(input):
    """Whether a tensor is spread over processes: never."""
    return False


def is_tensor(obj, /):
    """Whether it is a tensor."""
    return isinstance(obj, _C.Tensor)


@overridable
def _assert(condition, message):
    """An assert that tracing records."""
    assert condition, message


def _assert_async(input, assert_msg="Expected Tensor with single nonzero value, but got zero"):
    """Raises if a tensor of one element is zero."""
    if not input:
        raise RuntimeError(assert_msg)


_assert.__module__ = "flambeau"
