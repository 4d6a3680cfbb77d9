"""The older way to define operators from Python, by what `library` has."""
import inspect
import re
from collections import namedtuple

from . import library

__all__ = ["custom_op", "impl", "impl_abstract", "get_ctx", "impl_save_for_backward", "impl_backward"]

get_ctx = library.get_ctx
# What has been given of the two functions of a derivative, by the operator's name.
_halves = {}


def custom_op(qualname, func_or_schema=None):
    """Defines 'namespace::name' with a schema, or with that of a function, whose body does not matter; also a decorator.

    ValueError if the name has no namespace, or if an argument would be written to.
    """
    if not isinstance(qualname, str) or qualname.count("::") != 1:
        raise ValueError(f"Expected qualname to be of the form 'namespace::name', but got {qualname}")
    if func_or_schema is None:
        return lambda func: custom_op(qualname, func)
    if isinstance(func_or_schema, str):
        if "!" in func_or_schema:
            raise ValueError(f"custom_op with a schema that is not functional: {func_or_schema}")
        library.define(qualname, func_or_schema)
        return None
    if not inspect.isfunction(func_or_schema):
        raise ValueError(f"custom_op(...)(func): Expected `func` to be a Python function, got: {type(func_or_schema)}")
    library.define(qualname, library.infer_schema(func_or_schema, mutates_args=()))
    return func_or_schema


def impl(qualname, *, device_types=("cpu", "cuda"), func=None):
    """Registers what an operator computes on kinds of devices; a decorator without `func`."""
    return library.impl(qualname, device_types, func)


def impl_abstract(qualname, *, func=None):
    """Registers what an operator gives for tensors without data; a decorator without `func`."""
    return library.impl_abstract(qualname, func)


def impl_save_for_backward(qualname, *, func=None):
    """Registers ``func(inputs, output)``, which gives what the derivative needs; inputs are attributes by name."""
    return _half(qualname, "save", func)


def impl_backward(qualname, output_differentiability=None, *, func=None):
    """Registers ``func(ctx, saved, *grads)``, which gives the gradients of inputs by their names."""
    return _half(qualname, "backward", func)


def _half(qualname, name, func):
    if func is None:
        return lambda func: _half(qualname, name, func)
    halves = _halves.setdefault(qualname, {})
    halves[name] = func
    if len(halves) == 2:
        _register(qualname, **_halves.pop(qualname))
    return func


def _argument_names(schema):
    """The names of a schema's arguments, in order."""
    inside = schema[schema.index("(") + 1 : schema.rindex(") ->")]
    inside = re.sub(r"\[[^]]*\]|\([^)]*\)", "", inside)  # lists as defaults, marks of aliases
    return [re.split(r"[ =]", part.strip())[1] for part in inside.split(",") if part.strip() not in ("", "*")]


def _register(qualname, save, backward):
    """Makes both functions an operator's derivative."""
    names = _argument_names(library._find(qualname)._schema)
    inputs_type = namedtuple("Inputs", names)

    def setup_context(ctx, inputs, output):
        ctx.saved = save(inputs_type(*inputs), output)

    def run(ctx, *grads):
        found = backward(ctx, ctx.saved, *grads)
        return tuple(found.get(name) for name in names)

    library.register_autograd(qualname, run, setup_context=setup_context)
