"""Archives of scripted and traced modules and functions, which run eagerly: their state, and the names of their classes.

They are Flambeau's own, not TorchScript: a program that loads one has to have the classes. Reading runs nothing that the
file names, and imports nothing but modules of `flambeau.nn`; it makes modules, plain objects and data only.
"""
from __future__ import annotations

import enum
import functools
import io
import os
import pickle
import sys
import types
from typing import Any

import flambeau as _fl

from .. import _weights_only_unpickler as _safe
from .. import serialization as _files
from .._zipfile import ZipReader, atomic
from ..nn import Module

RECORD = "eager"
_OWN = ("flambeau", "torch")


def _found(module: str, name: str) -> Any:
    """What a module of the program, or of ours, calls `name`; None if there is none."""
    top, _, rest = module.partition(".")
    if top in _OWN:
        return _ours(rest, name)
    found = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _ours(module: str, name: str) -> Any:
    full = f"flambeau.{module}" if module else "flambeau"
    if module.partition(".")[0] == "nn":  # others, such as the stand-in for torch, change things when they are imported
        from importlib import import_module

        try:
            import_module(full)
        except ModuleNotFoundError:
            return None
    package = sys.modules.get(full)
    return None if package is None else getattr(package, name, None)


def _makes_nothing(cls: type) -> bool:
    """Whether making an object of a class, setting its attributes and forgetting it runs no code of the class."""
    return cls.__new__ is object.__new__ and not hasattr(cls, "__setstate__") and not hasattr(cls, "__del__")


def _is_data(obj) -> bool:
    """Whether objects of a class may be made: modules, named tuples, and plain objects."""
    return isinstance(obj, type) and (issubclass(obj, Module) or issubclass(obj, tuple) and hasattr(obj, "_fields")
                                      or _makes_nothing(obj))


def _is_function(obj, module: str, name: str) -> bool:
    """Whether a module may hold a function: those of the program, and ours of tensors."""
    top = module.partition(".")[0]
    if top in _OWN:
        return module.endswith(".nn.functional") or module in _OWN and hasattr(_fl.Tensor, name) and callable(obj)
    return isinstance(obj, types.FunctionType) and module == "__main__"


class _Unpickler(_safe.Unpickler):
    """Reads the pickles of such archives."""

    def op_global(self) -> None:
        module, name = self.line(), self.line()
        full = f"{module}.{name}"
        found: Any = _safe._PLAIN.get(full)
        if found is None:
            try:
                found = _safe._core_name(full)
            except KeyError:
                found = self._named(module, name)
        self.stack.append(found)

    @staticmethod
    def _named(module: str, name: str) -> Any:
        found = _found(module, name)
        if found is None:
            raise RuntimeError(f"The archive holds an object of '{module}.{name}', which this program does not have: script "
                               "and trace run eagerly in Flambeau, and their archives name classes instead of holding code")
        if found in (functools.partial, types.SimpleNamespace) or _is_enum(found) or _is_data(found):
            return found
        if _is_function(found, module, name):
            return found
        raise RuntimeError(f"'{module}.{name}' is not something that an archive of modules may hold")

    @staticmethod
    def _by_user(obj) -> bool:
        return _is_data(obj) or obj is types.SimpleNamespace

    def op_reduce(self) -> None:
        function = self.stack[-2]
        if function in (functools.partial, types.SimpleNamespace) or _is_enum(function):
            args = self.stack.pop()
            self.stack[-1] = function(*args)
        elif self._by_user(function):
            raise RuntimeError(f"'{function.__qualname__}' cannot be called while an archive is read")
        else:
            super().op_reduce()

    def op_build(self) -> None:
        target = self.stack[-2]
        if isinstance(target, functools.partial):
            target.__setstate__(self.stack.pop())
        else:
            super().op_build()

    TABLE = {**_safe.Unpickler.TABLE, ord("c"): op_global, ord("R"): op_reduce, ord("b"): op_build}


def _is_enum(obj) -> bool:
    return isinstance(obj, type) and issubclass(obj, enum.Enum)


def read(reader: ZipReader, map_location, extra_files) -> Any:
    """The module or function of an archive that `write` has written."""
    for name in extra_files or ():
        extra_files[name] = reader.read("extra/" + name) if reader.has_record("extra/" + name) else b""
    if reader.read(RECORD) != b"1":
        raise RuntimeError("The archive was written by a newer Flambeau")
    obj = _files._load_zip(reader, map_location, None, {"machine": _Unpickler}, None)
    if isinstance(obj, Module):
        return obj
    if not isinstance(obj, tuple) or len(obj) != 2:
        raise RuntimeError("The archive holds no module")
    from . import ScriptFunction

    function = _found(*obj)
    if not isinstance(function, ScriptFunction):
        raise RuntimeError(f"This program has no scripted function '{obj[0]}.{obj[1]}'")
    return function


def write(obj, f, extra_files) -> None:
    """Writes a scripted or traced module or function to a path (whole or not at all) or a file object."""
    records = {"extra/" + name: data.encode() if isinstance(data, str) else data
               for name, data in (extra_files or {}).items()}
    records[RECORD] = b"1"
    if not isinstance(obj, Module):
        function = obj.original
        if _found(function.__module__, function.__qualname__) is not obj:
            raise RuntimeError(f"'{function.__qualname__}' cannot be saved: it is not a function of a module's top level")
        obj = (function.__module__, function.__qualname__)
    buffer = io.BytesIO()
    path = isinstance(f, (str, os.PathLike))
    name = os.path.splitext(os.path.basename(os.fspath(f)))[0] if path else ""
    try:
        _files._save_zip(obj, buffer, name or "archive", records=records)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise RuntimeError(f"The module cannot be saved: {error}") from error
    if path:
        with atomic(f) as file:
            file.write(buffer.getbuffer())
    else:
        f.write(buffer.getvalue())
