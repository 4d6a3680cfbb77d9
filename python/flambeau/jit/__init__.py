"""TorchScript: archives are read and run (`load`); scripting and tracing give back what they are given, to run eagerly.

`save` writes what was scripted or traced as an archive of Flambeau's own (`_eager`), and what was loaded as TorchScript."""
import contextlib
import functools
import os
import types
from typing import Any, Final, NamedTuple, TypeVar  # noqa: F401

from .._deprecation import deprecated
from ..futures import Future

__all__ = ["Attribute", "CompilationUnit", "Error", "Future", "ScriptFunction", "ScriptModule", "annotate",
           "enable_onednn_fusion", "export", "export_opnames", "fork", "freeze", "interface", "ignore", "isinstance",
           "load", "onednn_fusion_enabled", "optimize_for_inference", "RecursiveScriptModule", "save", "script",
           "script_if_tracing", "set_fusion_strategy", "strict_fusion", "trace", "trace_module", "unused",
           "wait"]  # fmt: skip

T = TypeVar("T")
_isinstance = isinstance


class Error(Exception):
    """An exception raised in scripted code."""


class ScriptWarning(Warning):
    """A warning about scripted code."""


class TracerWarning(Warning):
    """A warning about traced code."""

    @staticmethod
    def ignore_lib_warnings():
        pass


class TracingCheckError(Exception):
    """A trace that does not agree with its function."""

    def __init__(self, graph_diff_error, tensor_compare_error, extra_msg=None):
        self.message = "Tracing failed sanity checks!\n"
        if extra_msg is not None:
            self.message += extra_msg + "\n"
        for title, text in (("Graphs differed across invocations!", graph_diff_error),
                            ("Tensor-valued Constant nodes differed in value across invocations. This often indicates "
                             "that the tracer has encountered untraceable code.", tensor_compare_error)):
            if text is not None:
                self.message += f"ERROR: {title}\n" + "".join(f"\t{line}\n" for line in text.splitlines())
        super().__init__(self.message)


class Attribute(NamedTuple):
    """A value with a type."""

    value: Any
    type: Any


def _no_graph():
    return RuntimeError("Scripted and traced code runs eagerly in Flambeau, and has no graph")


class ScriptFunction:
    """A scripted or traced function: calls go to the Python function it was made of."""

    def __init__(self, function, inputs=None):
        functools.update_wrapper(self, function)
        self.original, self._inputs = function, inputs

    def __call__(self, *args, **kwargs):
        return self.original(*args, **kwargs)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    @property
    def name(self):
        return self.original.__name__

    @property
    def qualified_name(self):
        module = self.original.__module__
        return ".".join(["__torch__", *([] if module == "__main__" else [module]), self.original.__qualname__])

    @property
    def code(self):
        import inspect

        return inspect.getsource(self.original)

    @property
    def schema(self):
        import inspect

        return f"{self.name}{inspect.signature(self.original)}"

    @property
    def graph(self):
        raise _no_graph()

    inlined_graph = graph

    def graph_for(self, *args, **kwargs):
        raise _no_graph()

    def get_debug_state(self):
        raise _no_graph()

    def save(self, f, _extra_files=None):
        _save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files=None):
        """The archive that `save` writes."""
        import io

        file = io.BytesIO()
        _save(self, file, _extra_files)
        return file.getvalue()

    def __reduce_ex__(self, protocol):
        import pickle

        raise pickle.PickleError("ScriptFunction cannot be pickled")

    def __deepcopy__(self, memo):
        return self


class CompilationUnit:
    """Functions from source text."""

    def __init__(self, lang=None, _frames_up=0):
        self._functions = {}
        if lang is not None:
            self.define(lang)

    def define(self, lang, rcb=None, _frames_up=0):
        """Adds the functions of a source text."""
        import typing
        from textwrap import dedent

        import flambeau

        scope = {name: getattr(typing, name) for name in ("Any", "Dict", "List", "NamedTuple", "Optional", "Tuple", "Union")}
        scope.update({"torch": flambeau, "Tensor": flambeau.Tensor, "annotate": annotate})
        exec(compile(dedent(lang), "<CompilationUnit>", "exec"), scope)  # the caller's own source
        functions = {name: value for name, value in scope.items()
                     if _isinstance(value, types.FunctionType) and value.__code__.co_filename == "<CompilationUnit>"}
        self._functions.update((name, ScriptFunction(value)) for name, value in functions.items())

    def create_function(self, name, function, shouldMangle=False):
        """Adds a function under a name."""
        self._functions[name] = function if _isinstance(function, ScriptFunction) else ScriptFunction(function)
        return self._functions[name]

    def find_function(self, name):
        return self._functions.get(name)

    def get_functions(self):
        return list(self._functions.values())

    def drop_all_functions(self):
        self._functions.clear()

    def set_optimized(self, optimized):
        pass

    def get_class(self, name):
        return None

    get_interface = get_class

    def __getattr__(self, name):
        try:
            return self.__dict__["_functions"][name]
        except KeyError:
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'") from None


# ---- scripting and tracing -----------------------------------------------------------------------------------


def _enabled():
    return os.environ.get("PYTORCH_JIT", "1") != "0"


@deprecated("`torch.jit.script` is deprecated. Please switch to `torch.compile` or `torch.export`.", DeprecationWarning)
def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """The object itself, ready to be called; functions become ScriptFunctions, classes and modules stay."""
    if not _enabled():
        return obj
    if _isinstance(obj, type) and issubclass(obj, _classes().Module):
        raise RuntimeError(f"Type '{obj}' cannot be compiled since it inherits from nn.Module, pass an instance instead")
    if obj is None or _isinstance(obj, (bool, int, float, complex, str, bytes)):
        raise TypeError(f"{type(obj)} is a built-in class")
    if _isinstance(obj, (ScriptFunction, type)) or _is_loaded(obj):
        return obj
    if _isinstance(obj, _classes().Module):
        object.__setattr__(obj, "_is_scripted", obj.__dict__.get("_is_scripted", _classes().RecursiveScriptModule))
        return obj
    return ScriptFunction(obj) if callable(obj) else obj


_tracing = 0


def _check_traced(value, strict):
    """Refuses results that a trace cannot have."""
    from .. import Tensor

    def check(value):
        if _isinstance(value, (tuple, list)):
            return all(map(check, value))
        if _isinstance(value, dict):
            return all(map(check, value.values()))
        return _isinstance(value, Tensor)

    if value is None:
        raise RuntimeError("The traced function didn't return any values! Side-effects are not captured in traces, so it "
                           "would be a no-op.")
    if not check(value):
        raise RuntimeError("Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced "
                           "functions")
    if strict and _isinstance(value, (dict, list)):
        raise RuntimeError(
            f"Encountering a {type(value).__name__} at the output of the tracer might cause the trace to be incorrect, this "
            "is only valid if the container structure does not change based on the module's inputs. Consider using a "
            "constant container instead (e.g. for `list`, use a `tuple` instead. for `dict`, use a `NamedTuple` instead). If "
            "you absolutely need this and know the side effects, pass strict=False to trace() to allow this behavior."
        )


@deprecated("`torch.jit.trace` is deprecated. Please switch to `torch.compile` or `torch.export`.", DeprecationWarning)
def trace(func, example_inputs=None, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5,
          strict=True, _force_outplace=False, _module_class=None, _compilation_unit=None, example_kwarg_inputs=None,
          _store_inputs=True):  # fmt: skip
    """Runs `func` on the example inputs once, and gives it back."""
    global _tracing
    if not _enabled() or _isinstance(func, ScriptFunction):
        return func
    if not callable(func):
        raise RuntimeError("Could not get name of python class object")
    if example_kwarg_inputs is not None:
        inputs = ()
    elif _isinstance(example_inputs, (tuple, list)):
        inputs = tuple(example_inputs)
    else:
        inputs = (example_inputs,) if hasattr(example_inputs, "shape") else tuple(example_inputs)
    _tracing += 1
    try:
        result = func(*inputs, **(example_kwarg_inputs or {}))
    finally:
        _tracing -= 1
    _check_traced(result, strict)
    if _is_loaded(func):
        return func
    if _isinstance(func, _classes().Module):
        object.__setattr__(func, "_is_scripted", _classes().TopLevelTracedModule)
        return func
    return ScriptFunction(func, inputs)


def trace_module(mod, inputs, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5, strict=True,
                 _force_outplace=False, _module_class=None, _compilation_unit=None, example_inputs_is_kwarg=False,
                 _store_inputs=True):  # fmt: skip
    """Runs the named methods of a module on their example inputs, and gives the module back."""
    if not _isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    for name, args in inputs.items():
        method = mod if name == "forward" else getattr(mod, name)
        keywords = {"example_kwarg_inputs": args} if example_inputs_is_kwarg else {"example_inputs": args}
        trace(lambda *a, m=method, **k: m(*a, **k), strict=strict, **keywords)
    if _isinstance(mod, _classes().Module) and not _is_loaded(mod):
        object.__setattr__(mod, "_is_scripted", _classes().TopLevelTracedModule)
    return mod


def is_scripting():
    return False


def is_tracing():
    return _tracing > 0


@deprecated("`torch.jit.script_method` is deprecated. Please switch to `torch.compile` or `torch.export`.", DeprecationWarning)
def script_method(fn):
    return fn


def script_if_tracing(fn):
    """Marks a function that tracing would script first."""

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)

    setattr(wrapper, "__original_fn", fn)
    setattr(wrapper, "__script_if_tracing_wrapper", True)
    return wrapper


_script_if_tracing = script_if_tracing


# ---- markers -------------------------------------------------------------------------------------------------


class _Modifiers:
    """What the markers write on functions."""

    UNUSED = "unused (ignored and replaced with raising of an exception)"
    IGNORE = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
    EXPORT = "export (compile this function even if nothing calls it)"
    DEFAULT = "default (compile if called from an exported function / forward)"
    COPY_TO_SCRIPT_WRAPPER = "if this method is not scripted, copy the python method onto the scripted model"
    _DROP = "_drop (function is fully ignored, declaration can be unscriptable)"


def _mark(fn, modifier):
    fn._torchscript_modifier = modifier
    return fn


def export(fn):
    """Marks a method that scripting compiles although nothing calls it."""
    return _mark(fn, _Modifiers.EXPORT)


def unused(fn):
    """Marks a method that scripting leaves alone."""
    if _isinstance(fn, property):
        for part in (fn.fget, fn.fset):
            if part is not None:
                _mark(part, _Modifiers.UNUSED)
        return fn
    return _mark(fn, _Modifiers.UNUSED)


def ignore(drop=False, **kwargs):
    """Marks a method that stays Python; with or without arguments."""
    if callable(drop):
        return _mark(drop, _Modifiers.IGNORE)
    if not _isinstance(drop, bool):
        raise RuntimeError(f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}")
    return functools.partial(_mark, modifier=_Modifiers.UNUSED if drop else _Modifiers.IGNORE)


def interface(obj):
    """Marks a class that only says which methods others have."""
    if not _isinstance(obj, type):
        raise RuntimeError("interface must be applied to a class")
    return obj


def _overload(fn):
    return fn


_overload_method = _overload


def annotate(the_type, the_value):
    return the_value


def isinstance(obj, target_type):
    """`isinstance` that understands List[int], Dict[str, Tensor], Optional[int] and their like."""
    import typing

    if _isinstance(target_type, tuple):
        return any(isinstance(obj, t) for t in target_type)
    origin, args = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        return obj is None if target_type is None else _isinstance(obj, target_type)
    if origin in (typing.Union, types.UnionType):
        return any(isinstance(obj, a) for a in args)
    if not args:
        name = origin.__name__.capitalize()
        kind = {"List": "List[int]", "Dict": "Dict[str, int]", "Tuple": "Tuple[int]"}.get(name, name)
        raise RuntimeError(f"Attempted to use {name} without a contained type. Please add a contained type, e.g. {kind}")
    if not _isinstance(obj, origin):
        return False
    if origin is list:
        return all(isinstance(x, args[0]) for x in obj)
    if origin is dict:
        return all(isinstance(k, args[0]) and isinstance(v, args[1]) for k, v in obj.items())
    if origin is tuple:
        return len(obj) == len(args) and all(map(isinstance, obj, args))
    return True


# ---- futures -------------------------------------------------------------------------------------------------


def fork(func, *args, **kwargs):
    """Runs `func` now; `wait` gives its result."""
    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future):
    """The result of a future."""
    if not _isinstance(future, Future):
        raise TypeError("wait(): incompatible function arguments. The following argument types are supported:\n"
                        f"    1. (arg0: torch._C.Future) -> object\n\nInvoked with: {future!r}")
    return future.wait()


# ---- scripted modules ----------------------------------------------------------------------------------------


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """A copy of a scripted module in evaluation mode, its parameters and buffers fixed but for the preserved ones: they are
    plain attributes. (Those of modules from archives stay, without gradients.)"""
    import copy

    if not _isinstance(mod, _classes().ScriptModule):
        raise RuntimeError("Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to "
                           "script your 'nn.Module'.")
    if mod.training:
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode. Please call .eval() on your "
                           "module before freezing.")
    frozen = copy.deepcopy(mod)
    for parameter in frozen.parameters():
        parameter.requires_grad_(False)
    if not _is_loaded(frozen):
        kept = set(preserved_attrs or ())
        for path, module in frozen.named_modules():
            for table in (module._parameters, module._buffers):
                for name in [name for name in table if f"{path}.{name}".lstrip(".") not in kept]:
                    object.__setattr__(module, name, table.pop(name))
    return frozen


def optimize_for_inference(mod, other_methods=None):
    """A scripted module, frozen if it is in evaluation mode."""
    if not _isinstance(mod, _classes().ScriptModule):
        raise RuntimeError("optimize_for_inference expects a ScriptModule as input. Please use torch.jit.script or "
                           "torch.jit.trace to script your 'nn.Module'.")
    return freeze(mod.eval(), other_methods)


def run_frozen_optimizations(mod, optimize_numerics=True, preserved_methods=None):
    return None


@deprecated("`torch.jit.load` is deprecated. Please switch to `torch.export`.", DeprecationWarning)
def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """The module of a TorchScript archive; its code is checked, and can do nothing but TorchScript."""
    from . import _archive

    return _archive.read(f, map_location, _extra_files)


@deprecated("`torch.jit.save` is deprecated. Please switch to `torch.export`.", DeprecationWarning)
def save(m, f, _extra_files=None):
    """Writes an archive: a module that `load` has read as TorchScript with its tensors as they are now; scripted and traced
    ones, which run eagerly, as their state and the names of their classes (read by Flambeau alone)."""
    _save(m, f, _extra_files)


def _save(m, f, _extra_files=None):
    if _is_loaded(m):
        from . import _archive as writer
    elif _isinstance(m, (ScriptFunction, _classes().ScriptModule)):
        from . import _eager as writer
    else:
        method = "save" if _isinstance(f, (str, os.PathLike)) else "save_to_buffer"
        raise AttributeError(f"'{type(m).__name__}' object has no attribute '{method}'")
    writer.write(m, f, _extra_files)


def _is_loaded(obj):
    """Whether a module comes from an archive."""
    import sys

    objects = sys.modules.get(__name__ + "._objects")
    return objects is not None and objects.class_of(obj) is not None


def jit_module_from_flatbuffer(f):
    return load(f)


def save_jit_module_to_flatbuffer(m, f, _extra_files=None):
    save(m, f, _extra_files)


def export_opnames(m):
    """The operators that the code of a module from an archive names; modules that run eagerly have none."""
    return m._script_class.unit.operator_names() if _is_loaded(m) else []


def last_executed_optimized_graph():
    return None


# ---- switches of PyTorch's compilers, kept for programs that set them -------------------------------------------


@contextlib.contextmanager
def optimized_execution(should_optimize):
    yield


@contextlib.contextmanager
def fuser(name):
    if name not in ("fuser0", "fuser1", "fuser2", "fuser3", "none"):
        raise Exception(f"unrecognized fuser option (name: {name})")
    yield


class strict_fusion:
    """Kept for programs that use it; does nothing."""

    def __enter__(self):
        return None

    def __exit__(self, *args):
        return False


_fusion_strategy = [("STATIC", 2), ("DYNAMIC", 10)]


def set_fusion_strategy(strategy):
    """Keeps a strategy, and gives back the one before."""
    global _fusion_strategy
    for kind, _ in strategy:
        if kind not in ("STATIC", "DYNAMIC"):
            raise ValueError(f"FusionBehavior only supported 'STATIC' or 'DYNAMIC', got: {kind}")
    before, _fusion_strategy = _fusion_strategy, list(strategy)
    return before


_onednn = False


def enable_onednn_fusion(enabled):
    global _onednn
    _onednn = enabled


def onednn_fusion_enabled():
    return _onednn


def set_module(obj, mod):
    obj.__module__ = mod


def _hide_source_ranges():
    return contextlib.nullcontext()


# ---- what is imported when it is first used --------------------------------------------------------------------


def _classes():
    from . import _modules

    return _modules


_LAZY = ("ScriptModule", "RecursiveScriptModule", "TracedModule", "TopLevelTracedModule")


def __getattr__(name):
    if name in _LAZY:
        return getattr(_classes(), name)
    if name == "RecursiveScriptClass":
        from ._objects import ScriptObject

        return ScriptObject
    if name == "annotations":
        from importlib import import_module

        return import_module(__name__ + ".annotations")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
