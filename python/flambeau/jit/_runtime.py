"""What compiled TorchScript calls beside operators: attributes, methods, loops, contexts; and how its errors look."""
from __future__ import annotations

from ._builtins import index
from ._objects import NamedTuple, ScriptObject, class_of, is_member
from ._operators import ScriptRaise, Tensor


def _no_attribute(owner, name):
    return RuntimeError(f"'{type(owner).__name__}' object has no attribute or method '{name}'.")


def get(owner, name):
    """An attribute of a module, an object, a named tuple or a member of an enumeration."""
    cls = class_of(owner)
    if cls is not None:
        return cls.get(owner, name)
    if isinstance(owner, NamedTuple):
        return owner.field(name)
    if is_member(owner) and name in ("name", "value"):
        return getattr(owner, name)
    read = _TENSOR_ATTRIBUTES.get(name)
    if read is not None:
        return read(owner)
    raise _no_attribute(owner, name)


def _tensor_attributes():
    from ._operators import operator

    names = "device dtype layout requires_grad grad data is_cuda is_sparse is_quantized shape T H mT mH real imag ndim"
    return {name: operator("prim", name) for name in names.split()}


_TENSOR_ATTRIBUTES = _tensor_attributes()


def has(owner, name):
    """Whether an object has an attribute."""
    cls = class_of(owner)
    return cls is not None and cls.has_attribute(name)


def put(owner, name, value):
    """Sets an attribute."""
    cls = class_of(owner)
    if cls is None:
        raise _no_attribute(owner, name)
    cls.put(owner, name, value)


def invoke(owner, method, *args, **kwargs):
    """Calls a method."""
    cls = class_of(owner)
    if cls is not None:
        return cls.method(method)(owner, *args, **kwargs)
    if method == "tolist" and isinstance(owner, Tensor) and not args:
        return owner.tolist()
    raise _no_attribute(owner, method)


def new(cls):
    """An object of a class, its attributes not yet set."""
    if cls.kind != "class":
        raise RuntimeError(f"'{cls.name}' is not a class of objects")
    return ScriptObject(cls)


def pack(cls, *values):
    """A named tuple."""
    return cls.make(values)


def unpack(values, count):
    """A list or tuple of a known length."""
    if not isinstance(values, (list, tuple)):
        raise RuntimeError(f"'{type(values).__name__}' object cannot be used as a tuple")
    if len(values) != count:
        raise RuntimeError(f"Expected {count} elements in a list but found {len(values)}")
    return values


def cut(items, start, end, step):
    """``items[start:end:step]`` of a tuple, list or string."""
    if not isinstance(items, (list, tuple, str)):
        raise RuntimeError(f"'{type(items).__name__}' object is not subscriptable")
    part = tuple(items) if isinstance(items, tuple) else items
    return part[start:end:step]


def count(*bounds):
    """The numbers that a loop counts."""
    return range(*bounds)


def iterate(items):
    """What a loop goes over."""
    if not isinstance(items, (list, tuple, str, dict, range)) and not hasattr(items, "unbind"):
        raise RuntimeError(f"'{type(items).__name__}' object is not iterable")
    return iter(items)


class context:
    """A `with` block over a script object."""

    def __init__(self, owner):
        self.owner = owner

    def __enter__(self):
        return invoke(self.owner, "__enter__")

    def __exit__(self, *exception):
        invoke(self.owner, "__exit__", None, None, None)


def is_instance(value, types):
    """Whether a value is of one of the types."""
    return any(t.matches(value) for t in types)


def fork(function, *args):
    """Runs a nested function now; its exception comes out of `wait`."""
    from . import Future

    future = Future()
    try:
        future.set_result(function(*args))
    except Exception as error:
        future.set_exception(error)
    return future


HELPERS = {"get": get, "has": has, "put": put, "invoke": invoke, "new": new, "pack": pack, "unpack": unpack, "cut": cut,
           "count": count, "iterate": iterate, "context": context, "is_instance": is_instance, "fork": fork,
           "index": index}  # fmt: skip


# ---- errors --------------------------------------------------------------------------------------------------


def excerpt(source: str, path: str, line: int, start=None, end=None, name=None) -> str:
    """Some lines around a place, and a mark under it."""
    lines = source.split("\n")
    where = f'  File "{path}", line {line}' + (f", in {name}" if name else "")
    before, after = lines[max(line - 3, 0) : line], lines[line : line + 2]
    text = before[-1] if before else ""
    if start is None:
        start, end = len(text) - len(text.lstrip()), len(text)
    mark = " " * start + "~" * max((end or start) - start, 1) + " <--- HERE"
    return "\n".join([where, *before, mark, *after]) + "\n"


def _frames(traceback, sources):
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename in sources and code.co_name.startswith(("f_", "v_")):
            start = end = None
            if hasattr(code, "co_positions"):
                line, last, start, end = list(code.co_positions())[traceback.tb_lasti // 2]
                if last != line:
                    end = None
            yield excerpt(sources[code.co_filename], code.co_filename, traceback.tb_lineno, start, end,
                          code.co_name[2:])
        traceback = traceback.tb_next


def wrapped(error: Exception, sources: dict[str, str]) -> Exception:
    """An exception of a script as PyTorch raises it, with the lines of TorchScript that led to it."""
    from . import Error

    name = error.name if isinstance(error, ScriptRaise) else None
    text = "".join(_frames(error.__traceback__, sources))
    message = ("The following operation failed in the TorchScript interpreter.\n"
               f"Traceback of TorchScript, serialized code (most recent call last):\n{text}\n"
               f"{name or 'RuntimeError'}: {error}\n")
    return (Error if isinstance(error, ScriptRaise) else RuntimeError)(message)
