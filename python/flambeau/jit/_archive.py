"""TorchScript archives: read into modules, and written back."""
from __future__ import annotations

import io
import os
import struct
import sys
from typing import Any

import flambeau as _fl

from .. import _weights_only_unpickler as _safe
from .._saving import _dtype_name, _dtype_to_type
from .._zipfile import ZipReader, ZipWriter, atomic
from ..serialization import (_cpu, _memory, _restore_function, _swap_size, _storage_over, _swapped, _typed,
                             _untyped, location_tag)
from ._calls import run
from ._objects import NamedTuple, ScriptClass, ScriptObject, check_data, class_of, is_member, restore
from ._modules import RecursiveScriptModule
from ._unit import CodeUnit

_OLDEST, _NEWEST = 1, 10
_VERSION = (".data/version", "version")


# ---- reading -------------------------------------------------------------------------------------------------


class _Unpickler(_safe.Unpickler):
    """Reads an archive's pickles: classes are those of its code, and nothing is imported or called but rebuilders."""

    def __init__(self, file, unit: CodeUnit, persistent_load) -> None:
        super().__init__(file, encoding="utf-8")
        self.unit, self.persistent_load = unit, persistent_load  # type: ignore[method-assign]

    def op_global(self):
        module, name = self.line(), self.line()
        full = f"{module}.{name}"
        if module == "__torch__" or module.startswith("__torch__."):
            self.stack.append(self.unit.find_class(full))
        elif module == "torch.jit._pickle" and name in _BUILDERS:
            self.stack.append(_BUILDERS[name])
        elif full in ("builtins.complex", "collections.OrderedDict"):
            self.stack.append(_safe._PLAIN[full])
        else:
            try:
                found = _safe._core_name(full)
            except KeyError:
                raise RuntimeError(f"Unknown global '{full}' in a TorchScript archive") from None
            self.stack.append(found)

    def op_newobj(self):
        self.stack.pop()
        cls = self.stack.pop()
        if not isinstance(cls, ScriptClass) or cls.kind not in ("module", "class"):
            raise RuntimeError(f"Cannot make an object of '{getattr(cls, 'name', cls)}'")
        self.stack.append(RecursiveScriptModule(cls) if cls.kind == "module" else ScriptObject(cls))

    def op_reduce(self):
        args = self.stack.pop()
        function = self.stack[-1]
        if isinstance(function, ScriptClass) and function.kind == "enum":
            value = args[0] if isinstance(args, tuple) else args
            found = next((m for m in function.members.values() if m.value == value), None)
            if found is None:
                raise RuntimeError(f"{value!r} is not a value of '{function.name}'")
            self.stack[-1] = found
        elif function in _BUILDERS.values() and isinstance(args, tuple):
            self.stack[-1] = function(*args)
        else:
            self.stack.append(args)
            super().op_reduce()

    def op_build(self):
        state = self.stack.pop()
        owner = self.stack[-1]
        cls = class_of(owner)
        if cls is None:
            raise RuntimeError("Only objects of classes have a state")
        _set_state(owner, cls, state)

    TABLE = {**_safe.Unpickler.TABLE, ord("c"): op_global, 0x81: op_newobj, ord("R"): op_reduce, ord("b"): op_build}


def _set_state(owner, cls: ScriptClass, state) -> None:
    if "__setstate__" in cls.methods:
        wanted = cls.signature("__setstate__").types[1]
        run(cls.unit, lambda: cls.method("__setstate__")(owner, restore(state, wanted)))
    else:
        if not isinstance(state, dict):
            raise RuntimeError(f"The state of '{cls.name}' is not a dictionary")
        for name, value in state.items():
            cls.put(owner, name, restore(value, cls.type_of(name)))
    if cls.kind == "module":
        owner._attach_hooks()


def _build_list(items):
    return items


def _restore_type_tag(value, type_name):
    return value


_BUILDERS = {name: _build_list for name in ("build_intlist", "build_tensorlist", "build_doublelist", "build_boollist")}
_BUILDERS["restore_type_tag"] = _restore_type_tag


class _Tensors:
    """The storages of one folder of an archive."""

    def __init__(self, reader: ZipReader, folder: str, map_location, records=None) -> None:
        """`records` has the bytes of what was read already: storages share its memory."""
        self.reader, self.folder, self.records = reader, folder, records or {}
        self.restore = _restore_function(map_location)
        self.to_meta = map_location is not None and str(map_location) == "meta"
        order = reader.read("byteorder") if reader.has_record("byteorder") else b"little"
        self.swap = order != sys.byteorder.encode()
        self.loaded: dict[str, Any] = {}

    def load(self, saved_id):
        """The storage that a pickle refers to."""
        if not isinstance(saved_id, tuple) or len(saved_id) != 5 or _safe._as_text(saved_id[0]) != "storage":
            raise RuntimeError(f"Unknown persistent id {saved_id}")
        storage_type, key, location, count = saved_id[1:]
        if not isinstance(storage_type, _safe.StorageType) or type(count) is not int or count < 0:
            raise RuntimeError(f"Unknown persistent id {saved_id}")
        dtype = _fl.uint8 if storage_type is _safe.UNTYPED else storage_type.dtype
        if key not in self.loaded:
            nbytes = count * _fl.empty(0, dtype=dtype).element_size()
            if self.to_meta:
                self.loaded[key] = _fl.UntypedStorage(nbytes, device="meta")
            else:
                self.loaded[key] = self.restore(self._read(f"{self.folder}/{key}", nbytes, dtype), location)
        return _typed(_untyped(self.loaded[key]), dtype)

    def _read(self, name: str, nbytes: int, dtype):
        size = self.reader.size(name)
        if size < nbytes:
            raise RuntimeError(f"record size ({size} bytes) of {name} does not match expected size ({nbytes} bytes)")
        if name in self.records:
            storage = _storage_over(self.records[name], 0, size)
        else:
            storage = _fl.empty(size, dtype=_fl.uint8).untyped_storage()
            if size:
                self.reader.read_into(name, _memory(storage))
        if self.swap:
            _swapped(storage, _swap_size(dtype))
        return storage


class Archive:
    """The parts of a file that are written back as they were read."""

    def __init__(self, reader: ZipReader) -> None:
        kept = [n for n in reader.names_of_all() if n.startswith(("code/", "constants")) or n in _VERSION]
        self.records = {name: bytearray(reader.read(name)) for name in kept}


def _version(reader: ZipReader) -> int:
    name = next((n for n in _VERSION if reader.has_record(n)), None)
    if name is None:
        raise RuntimeError('Expected hasRecord("version") to be true, but got false.  (Could this error message be '
                           "improved?  If so, please report an enhancement request to PyTorch.)")
    text = reader.read(name).decode("latin-1")
    try:
        version = int(text)
    except ValueError:
        raise RuntimeError("[enforce fail at inline_container.cc] . Couldn't parse the version "
                           f"{text} as Long Long.") from None
    if version < _OLDEST:
        raise RuntimeError(f"[enforce fail at inline_container.cc] . Attempted to read a PyTorch file with version "
                           f"{version}, but the minimum supported version for reading is {_OLDEST}. Your PyTorch script "
                           "module file is too old. Please regenerate it with latest version of PyTorch to mitigate "
                           "this issue.")
    if version > _NEWEST:
        raise RuntimeError(f"[enforce fail at inline_container.cc] . Attempted to read a PyTorch file with version "
                           f"{version}, but the maximum supported version for reading is {_NEWEST}. The version of your "
                           "PyTorch installation may be too old, please upgrade PyTorch to latest version to mitigate "
                           "this issue.")
    return version


def _unpickle(data: bytes, unit: CodeUnit, tensors: _Tensors):
    try:
        return _Unpickler(io.BytesIO(data), unit, tensors.load).load()
    except (EOFError, IndexError):
        raise RuntimeError("Unexpected end of pickler archive.") from None
    except (_safe.UnpicklingError, KeyError, TypeError, ValueError, AttributeError, OverflowError, struct.error,
            AssertionError, RecursionError) as error:
        raise RuntimeError(f"The pickle of the archive is corrupt: {error}") from None


def read(f, map_location, extra_files) -> RecursiveScriptModule:
    """The module of an archive; `f` is a path or a seekable file."""
    if isinstance(f, (str, os.PathLike)):
        if not os.path.exists(f):
            raise ValueError(f"The provided filename {f} does not exist")
        if os.path.isdir(f):
            raise ValueError(f"The provided filename {f} is a directory")
        with open(f, "rb") as file:
            return _read(file, map_location, extra_files)
    return _read(io.BytesIO(f.read()), map_location, extra_files)


def _read(file, map_location, extra_files):
    if isinstance(map_location, str):
        if not map_location.startswith(("cuda", "mps", "xpu", "hpu")):  # the storages' tables say what these lack
            map_location = _fl.device(map_location)
    elif map_location is not None and not isinstance(map_location, _fl.device):
        raise ValueError("map_location should be either None, string or torch.device, but got type: "
                         f"{type(map_location)}")
    reader = ZipReader(file)
    if reader.has_record("model.json"):
        raise RuntimeError("This archive is in the format of PyTorch 1.3 and before (model.json). Load it with PyTorch "
                           "and save it again")
    version = _version(reader)
    if reader.has_record("eager"):
        from . import _eager

        return _eager.read(reader, map_location, extra_files)
    for name in extra_files or ():
        extra_files[name] = reader.read("extra/" + name) if reader.has_record("extra/" + name) else b""
    constants = reader.read("constants.pkl")
    archive = Archive(reader)

    def source(path: str):
        data = archive.records.get(path)
        return None if data is None else data.decode("utf-8", "surrogateescape")

    folder = "constants" if any(n.startswith("constants/") for n in archive.records) else "data"
    tensors = _Tensors(reader, "data", map_location)
    fixed = _Tensors(reader, folder, map_location, archive.records)
    unit = CodeUnit(source, lambda: read_constants, version)
    read_constants = _unpickle(constants, unit, fixed)
    check_data(read_constants)
    module = _unpickle(reader.read("data.pkl"), unit, tensors)
    if not isinstance(module, RecursiveScriptModule):
        raise RuntimeError("The archive holds no module")
    unit.check()
    unit.archive = archive
    return module


# ---- writing -------------------------------------------------------------------------------------------------


class _Writer:
    """Pickles a module as TorchScript reads it: classes by name, lists and dicts with their types."""

    def __init__(self) -> None:
        self.out = bytearray(b"\x80\x02")
        self.memo: dict[Any, int] = {}
        self.kept: list[Any] = []
        self.storages: dict[int, tuple[str, Any]] = {}

    def _remember(self, key) -> None:
        place = self.memo[key] = len(self.memo)
        self.out += b"q" + bytes([place]) if place < 256 else b"r" + struct.pack("<I", place)

    def _recall(self, key) -> bool:
        place = self.memo.get(key)
        if place is None:
            return False
        self.out += b"h" + bytes([place]) if place < 256 else b"j" + struct.pack("<I", place)
        return True

    def name(self, module: str, name: str) -> None:
        """A class or function."""
        if not self._recall((module, name)):
            self.out += f"c{module}\n{name}\n".encode()
            self._remember((module, name))

    def text(self, value: str) -> None:
        """A string."""
        if not self._recall(value):
            data = value.encode("utf-8", "surrogateescape")
            self.out += b"X" + struct.pack("<I", len(data)) + data
            self._remember(value)

    def number(self, value: int) -> None:
        """A whole number of 64 bits."""
        if 0 <= value < 256:
            self.out += b"K" + bytes([value])
        elif 0 <= value < 65536:
            self.out += b"M" + struct.pack("<H", value)
        elif -(2**31) <= value < 2**31:
            self.out += b"J" + struct.pack("<i", value)
        else:
            self.out += b"\x8a\x08" + struct.pack("<q", value)

    def real(self, value: float) -> None:
        """A number with a fraction."""
        self.out += b"G" + struct.pack(">d", value)

    def numbers(self, values) -> None:
        """A tuple of whole numbers."""
        self.out += b"("
        for value in values:
            self.number(value)
        self.out += b"t"

    def value(self, value, wanted) -> None:
        """Any value; `wanted` is its declared type."""
        while wanted is not None and wanted.kind == "Optional":
            wanted = wanted.args[0]
        kind = type(value)
        if value is None:
            self.out += b"N"
        elif kind is bool:
            self.out += b"\x88" if value else b"\x89"
        elif isinstance(value, _fl.Tensor):
            self.tensor(value)
        elif kind is int:
            self.number(value)
        elif kind is float:
            self.real(value)
        elif kind is str:
            self.text(value)
        elif kind is complex:
            self.name("builtins", "complex")
            self.real(value.real)
            self.real(value.imag)
            self.out += b"\x86R"
        elif isinstance(value, _fl.device):
            self.name("torch", "device")
            self.text(str(value))
            self.out += b"\x85R"
        elif is_member(value):
            self.name(value.__class__.__module__, value.__class__.__name__)
            self.value(value.value, None)
            self.out += b"R"
        elif isinstance(value, tuple):
            self.items(value, wanted)
        elif kind is list:
            self.list(value, wanted)
        elif kind is dict:
            self.dict(value, wanted)
        elif class_of(value) is not None:
            self.object(value)
        else:
            raise RuntimeError(f"A value of type {kind.__name__} cannot be saved in a TorchScript archive")

    def items(self, value: tuple, wanted) -> None:
        """A tuple."""
        if isinstance(value, NamedTuple):
            types = [value.script_class.type_of(n) for n in value._fields]
        else:
            types = list(wanted.args) if wanted is not None and wanted.kind == "Tuple" else [None] * len(value)
        self.out += b"("
        for item, its_type in zip(value, types):
            self.value(item, its_type)
        self.out += b"t"

    def list(self, value: list, wanted) -> None:
        """A list, with its type."""
        if self._recall(id(value)):
            return
        inner = wanted.args[0] if wanted is not None and wanted.kind == "List" else None
        builder = _LISTS.get(inner.kind) if inner is not None else None
        self.name("torch.jit._pickle", builder or "restore_type_tag")
        self.out += b"(]("
        for item in value:
            self.value(item, inner)
        self.out += b"e"
        if builder is None:
            self.text(str(wanted) if inner is not None else "List[Any]")
        self.out += b"tR"
        self.kept.append(value)
        self._remember(id(value))

    def dict(self, value: dict, wanted) -> None:
        """A dict, with its type."""
        if self._recall(id(value)):
            return
        known = wanted is not None and wanted.kind == "Dict"
        types = wanted.args if known else (None, None)
        self.name("torch.jit._pickle", "restore_type_tag")
        self.out += b"(}("
        for key, item in value.items():
            self.value(key, types[0])
            self.value(item, types[1])
        self.out += b"u"
        self.text(str(wanted) if known else "Dict[str, Any]")
        self.out += b"tR"
        self.kept.append(value)
        self._remember(id(value))

    def object(self, value) -> None:
        """A module or an object of a class."""
        if self._recall(id(value)):
            return
        cls = class_of(value)
        module, _, name = cls.name.rpartition(".")
        self.name(module, name)
        self.out += b")\x81"
        if "__getstate__" in cls.methods and "__setstate__" in cls.methods:
            state = run(cls.unit, lambda: cls.method("__getstate__")(value))
            self.kept.append(state)
            self.value(state, cls.signature("__getstate__").result)
        else:
            self.out += b"}("
            for attribute in cls.annotations:
                if attribute not in cls.constants:
                    self.text(attribute)
                    self.value(cls.get(value, attribute), cls.type_of(attribute))
            self.out += b"u"
        self.out += b"b"
        self.kept.append(value)
        self._remember(id(value))

    def tensor(self, value) -> None:
        """A tensor; its storage is written beside the pickle."""
        if self._recall(id(value)):
            return
        if value.layout != _fl.strided:
            raise RuntimeError(f"A tensor of layout {value.layout} cannot be saved in a TorchScript archive")
        plain = value.detach()
        if plain.is_conj() or plain.is_neg():
            plain = plain.clone()
        type_name = _dtype_to_type.get(_dtype_name(plain.dtype))
        if type_name is None:
            raise RuntimeError(f"A tensor of {plain.dtype} cannot be saved in a TorchScript archive")
        storage = plain.untyped_storage()
        key = storage.data_ptr() if storage.nbytes() else id(storage)
        label = self.storages.setdefault(key, (str(len(self.storages)), storage))[0]
        self.name("torch._utils", "_rebuild_tensor_v2")
        self.out += b"(("
        self.text("storage")
        self.name("torch", type_name)
        self.text(label)
        self.text(location_tag(storage))
        self.number(storage.nbytes() // plain.element_size())
        self.out += b"tQ"
        self.number(plain.storage_offset())
        self.numbers(plain.shape)
        self.numbers(plain.stride())
        self.out += b"\x88" if value.requires_grad else b"\x89"
        self.name("collections", "OrderedDict")
        self.out += b")RtR"
        self.kept.append((value, plain))
        self._remember(id(value))

    def finish(self, module) -> bytes:
        """The pickle of a module."""
        self.object(module)
        return bytes(self.out + b".")


_LISTS = {"int": "build_intlist", "float": "build_doublelist", "bool": "build_boollist", "Tensor": "build_tensorlist"}


def _write(module: RecursiveScriptModule, file, name: str, extra_files) -> None:
    archive = module._script_class.unit.archive
    writer, zipped = _Writer(), ZipWriter(file, name)
    for extra, data in (extra_files or {}).items():
        zipped.write_record("extra/" + extra, data.encode() if isinstance(data, str) else data)
    pickled = writer.finish(module)
    for label, storage in writer.storages.values():
        zipped.write_record(f"data/{label}", _memory(_cpu(storage)))
    zipped.write_record("data.pkl", pickled)
    for record, data in archive.records.items():
        zipped.write_record(record, data)
    zipped.write_record("byteorder", sys.byteorder.encode())
    zipped.close()


def write(module: RecursiveScriptModule, f, extra_files) -> None:
    """Writes a loaded module back, its tensors as they are now, to a path (whole or not at all) or a file object."""
    if isinstance(f, (str, os.PathLike)):
        name = os.path.splitext(os.path.basename(os.fspath(f)))[0] or "archive"
        with atomic(f) as file:
            _write(module, file, name, extra_files)
    else:
        buffer = io.BytesIO()
        _write(module, buffer, "archive", extra_files)
        f.write(buffer.getvalue())
