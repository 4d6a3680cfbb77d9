"""Markers of TorchScript that libraries import from here."""
from typing import Any, Callable, Dict, Final, List, Optional, Tuple, Union  # noqa: F401

from .jit import Future, export, ignore, is_scripting, unused  # noqa: F401
from .jit import _Modifiers as FunctionModifiers
from .jit import isinstance as _isinstance  # noqa: F401

BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = List


def boolean_dispatch(arg_name, arg_index, default, if_true, if_false, module_name, func_name):
    """A function that calls `if_true` or `if_false` by one of its arguments."""

    def fn(*args, **kwargs):
        flag = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if flag else if_false)(*args, **kwargs)

    fn.__name__, fn.__module__ = func_name or "fn", module_name or __name__
    fn.__doc__ = if_true.__doc__ or if_false.__doc__
    return fn


def _overload(func):
    return func


_overload_method = _overload
_copy_to_script_wrapper = _overload


def is_tuple(ann):
    """Whether an annotation is a tuple."""
    return getattr(ann, "__origin__", None) is tuple


def is_list(ann):
    """Whether an annotation is a list."""
    return getattr(ann, "__origin__", None) is list


def is_optional(ann):
    """Whether an annotation allows None."""
    return type(None) in getattr(ann, "__args__", ())


def is_dict(ann):
    """Whether an annotation is a dict."""
    return getattr(ann, "__origin__", None) is dict


def is_final(ann):
    """Whether an annotation says that a value never changes."""
    return getattr(ann, "__origin__", None) is Final


def is_future(ann):
    """Whether an annotation is a future."""
    return getattr(ann, "__origin__", None) is Future


def get_torchscript_modifier(fn):
    """What `export`, `unused` or `ignore` said of a function."""
    function = getattr(fn, "__func__", fn)
    return getattr(function, "_torchscript_modifier", FunctionModifiers.DEFAULT) if callable(fn) else None


def is_ignored_fn(fn):
    """Whether scripting leaves a function alone."""
    return get_torchscript_modifier(fn) in (FunctionModifiers.UNUSED, FunctionModifiers.IGNORE, FunctionModifiers._DROP)


def _qualified_name(obj, mangle_name=True):
    """The name of a function or class in an archive."""
    name = getattr(obj, "__qualname__", None) or obj.__name__
    module = obj.__module__
    if module == "flambeau" or module.startswith("flambeau."):
        module = "torch" + module[8:]
    return f"__torch__.{name}" if module == "__main__" else f"__torch__.{module}.{name}"
