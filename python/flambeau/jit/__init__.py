"""TorchScript's interface, run eagerly: scripting and tracing give back what they are given."""
import contextlib
import functools
import os
import types
from typing import Final, Generic, TypeVar  # noqa: F401

__all__ = ["Attribute", "CompilationUnit", "Error", "Future", "ScriptFunction", "ScriptModule", "annotate",
           "enable_onednn_fusion", "export", "export_opnames", "fork", "freeze", "interface", "ignore", "isinstance",
           "load", "onednn_fusion_enabled", "optimize_for_inference", "RecursiveScriptModule", "save", "script", "script_if_tracing",
           "set_fusion_strategy", "strict_fusion", "trace", "trace_module", "unused", "wait"]  # fmt: skip

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


class Attribute:
    """A value with a type."""

    def __init__(self, value, type):
        self.value, self.type = value, type

    def __new__(cls, value=None, type=None):
        return object.__new__(cls)


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
        return f"__torch__.{self.original.__module__}.{self.original.__qualname__}"

    @property
    def code(self):
        import inspect

        return inspect.getsource(self.original)

    def save(self, f, _extra_files=None):
        save(self, f, _extra_files)


class CompilationUnit:
    """Functions from source text."""

    def __init__(self, lang=None, _frames_up=0):
        self._functions = {}
        if lang is not None:
            self.define(lang)

    def define(self, lang, rcb=None, _frames_up=0):
        import flambeau
        from textwrap import dedent

        scope = {"torch": flambeau, "Tensor": flambeau.Tensor, "annotate": annotate}
        exec(compile(dedent(lang), "<CompilationUnit>", "exec"), scope)  # the caller's own source
        functions = {name: value for name, value in scope.items() if _isinstance(value, types.FunctionType)}
        functions.pop("annotate", None)
        self._functions.update((name, ScriptFunction(value)) for name, value in functions.items())

    def __getattr__(self, name):
        try:
            return self.__dict__["_functions"][name]
        except KeyError:
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'") from None


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """The object itself, ready to be called; functions become ScriptFunctions, classes and modules stay."""
    if not _enabled():
        return obj
    if _isinstance(obj, (ScriptFunction, type)):
        return obj
    if _isinstance(obj, _classes().RecursiveScriptModule):
        return obj
    if _isinstance(obj, _classes().Module):
        object.__setattr__(obj, "_is_scripted", obj.__dict__.get("_is_scripted", _classes().RecursiveScriptModule))
        return obj
    if callable(obj):
        return ScriptFunction(obj)
    return obj


_tracing = 0


def trace(func, example_inputs=None, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5,
          strict=True, _force_outplace=False, _module_class=None, _compilation_unit=None, example_kwarg_inputs=None,
          _store_inputs=True):  # fmt: skip
    """Runs `func` on the example inputs once, and gives it back."""
    global _tracing
    if not _enabled():
        return func
    if _isinstance(func, ScriptFunction):
        return func
    inputs = example_inputs if _isinstance(example_inputs, tuple) else () if example_inputs is None else (
        tuple(example_inputs) if _isinstance(example_inputs, list) else (example_inputs,)
    )
    _tracing += 1
    try:
        func(*inputs, **(example_kwarg_inputs or {}))
    finally:
        _tracing -= 1
    if _isinstance(func, _classes().Module):
        if not _isinstance(func, _classes().RecursiveScriptModule):
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
        trace(lambda *a, m=method: m(*a), args if _isinstance(args, tuple) else (args,))
    return mod


def is_scripting():
    return False


def is_tracing():
    return _tracing > 0


def _enabled():
    return os.environ.get("PYTORCH_JIT", "1") != "0"


def script_method(fn):
    return fn


def script_if_tracing(fn):
    return fn


def _same(fn):
    return fn


export = _same
interface = _same
_script_if_tracing = _same
_overload = _same
_overload_method = _same


def unused(fn):
    """Marks a method that scripting leaves alone."""
    return fn


def ignore(drop=False, **kwargs):
    """Marks a method that stays Python; with or without arguments."""
    if callable(drop):
        return drop
    return _same


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
    if not _isinstance(obj, origin):
        return False
    if origin is list:
        return all(isinstance(x, args[0]) for x in obj)
    if origin is dict:
        return all(isinstance(k, args[0]) and isinstance(v, args[1]) for k, v in obj.items())
    if origin is tuple:
        return len(obj) == len(args) and all(map(isinstance, obj, args))
    return True


class Future(Generic[T]):
    """The result of `fork`, there at once."""

    def __init__(self, value=None, *, devices=None):
        self._value, self._error, self._done = value, None, False

    def done(self):
        return self._done

    def wait(self):
        if self._error is not None:
            raise self._error
        return self._value

    value = wait

    def set_result(self, result):
        self._value, self._done = result, True

    def set_exception(self, error):
        self._error, self._done = error, True

    def then(self, callback):
        future = Future()
        future.set_result(callback(self))
        return future

    def add_done_callback(self, callback):
        callback(self)


def fork(func, *args, **kwargs):
    """Runs `func` now; `wait` gives its result."""
    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future):
    return future.wait()


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """The module in evaluation mode, its parameters without gradients."""
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module before "
            "freezing."
        )
    for parameter in mod.parameters():
        parameter.requires_grad_(False)
    return mod


def optimize_for_inference(mod, other_methods=None):
    return mod


def run_frozen_optimizations(mod, optimize_numerics=True, preserved_methods=None):
    return None


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """The module of a TorchScript archive; its code is checked, and can do nothing but TorchScript."""
    from . import _archive

    return _archive.read(f, map_location, _extra_files)


def save(m, f, _extra_files=None):
    """Writes a module that `load` has read back as an archive, its tensors as they are now."""
    from ._objects import class_of

    if class_of(m) is None:
        if _isinstance(m, (ScriptFunction, _classes().ScriptModule)):
            raise RuntimeError(
                "torch.jit.save: script and trace run eagerly in Flambeau and make no TorchScript, so there is no archive to "
                "write. Save the state_dict with torch.save; modules that torch.jit.load has read can be saved."
            )
        raise AttributeError(f"'{type(m).__name__}' object has no attribute 'save_to_buffer'")
    from . import _archive

    _archive.write(m, f, _extra_files)


def jit_module_from_flatbuffer(f):
    return load(f)


def save_jit_module_to_flatbuffer(m, f, _extra_files=None):
    save(m, f, _extra_files)


def export_opnames(m):
    return []


def last_executed_optimized_graph():
    return None


@contextlib.contextmanager
def optimized_execution(should_optimize):
    yield


@contextlib.contextmanager
def fuser(name):
    yield


class strict_fusion:
    """Kept for programs that use it; does nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *args):
        return False


def set_fusion_strategy(strategy):
    return []


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
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


