"""`save` and `load`: PyTorch's file formats, written atomically and read without running what a file says."""
from __future__ import annotations

import contextlib
import io
import os
import pickle
import struct
import sys
import threading
import warnings
from collections.abc import Callable
from enum import Enum
from typing import Any

import flambeau as _fl
import flambeau._utils as _utils

import flambeau._weights_only_unpickler as _safe
from ._saving import _Pickler, _register_types, _untyped
from ._zipfile import ZipReader, ZipWriter, atomic
from ._weights_only_unpickler import UNTYPED, UnpicklingError, _get_layout  # noqa: F401
from ._weights_only_unpickler import StorageType as _FileStorageType

__all__ = ["SourceChangeWarning", "mkdtemp", "register_package", "check_module_version_greater_or_equal",
           "validate_cuda_device", "validate_hpu_device", "location_tag", "default_restore_location",
           "normalize_storage_type", "storage_to_tensor_type", "save", "load", "StorageType", "LoadEndianness",
           "get_crc32_options", "set_crc32_options", "get_default_load_endianness", "set_default_load_endianness",
           "get_default_mmap_options", "set_default_mmap_options", "clear_safe_globals", "get_safe_globals",
           "add_safe_globals", "safe_globals", "get_unsafe_globals_in_checkpoint", "skip_data"]

# Where the tensors of a file go.
MAP_LOCATION = Callable[[Any, str], Any] | _fl.device | str | dict[str, str] | None

DEFAULT_PROTOCOL = 2
MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001

_UNSAFE = ("In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to "
           "`True`. Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can result in "
           "arbitrary code execution. Do it only if you got the file from a trusted source.")
_DOCS = ("\n\nCheck the documentation of torch.load to learn more about types accepted by default with weights_only "
         "https://pytorch.org/docs/stable/generated/torch.load.html.")


class SourceChangeWarning(Warning):
    """The source of a saved class has changed."""


@contextlib.contextmanager
def mkdtemp():
    """A temporary directory within a block."""
    import shutil
    import tempfile

    path = tempfile.mkdtemp()
    try:
        yield path
    finally:
        shutil.rmtree(path)


class LoadEndianness(Enum):
    """The byte order of files that do not tell theirs."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


# Options

_options: dict[str, Any] = {"endianness": None, "mmap": 2, "crc32": True}
_local = threading.local()


def get_default_load_endianness() -> LoadEndianness | None:
    """The byte order assumed for files that do not tell theirs; None: the machine's."""
    return _options["endianness"]


def set_default_load_endianness(endianness) -> None:
    """Set the byte order assumed for files that do not tell theirs."""
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _options["endianness"] = endianness


def get_crc32_options() -> bool:
    """Whether `save` computes checksums."""
    return _options["crc32"]


def set_crc32_options(compute_crc32: bool) -> None:
    """Accepted; checksums are always written."""
    _options["crc32"] = compute_crc32


def get_default_mmap_options() -> int | None:
    """How ``load(mmap=True)`` maps: ``mmap.MAP_PRIVATE`` or ``mmap.MAP_SHARED``."""
    return _options["mmap"]


class set_default_mmap_options:
    """Set how ``load(mmap=True)`` maps, for good or within a block."""

    def __init__(self, flags: int) -> None:
        if flags not in (1, 2):
            raise ValueError("Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or "
                             f"mmap.MAP_SHARED, but got {flags}")
        self.prev = _options["mmap"]
        _options["mmap"] = flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc) -> None:
        _options["mmap"] = self.prev


class skip_data:
    """Within a block, `save` leaves storages out (their room stays) and `load` leaves them unset."""

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self):
        self.prev = getattr(_local, "skip", False)
        _local.skip = True
        return self

    def __exit__(self, *exc):
        _local.skip = self.prev


def add_safe_globals(safe_globals: list) -> None:
    """Let ``load(weights_only=True)`` use these classes and functions (or pairs with their names in files)."""
    _safe._add_safe_globals(safe_globals)


def get_safe_globals() -> list:
    """What the user has added."""
    return _safe._get_safe_globals()


def clear_safe_globals() -> None:
    """Forget what the user has added."""
    _safe._clear_safe_globals()


class safe_globals(_safe._safe_globals):
    """`add_safe_globals` within a block."""


def get_unsafe_globals_in_checkpoint(f) -> list[str]:
    """The names in a file that ``load(weights_only=True)`` would refuse."""
    with _opened(f, "rb") as file:
        if not _is_zipfile(file):
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        reader = ZipReader(file)
        if _is_torchscript(reader):
            raise ValueError("Expected input to be a checkpoint returned by torch.save but got a torchscript checkpoint")
        names = _safe.get_globals_in_pkl(io.BytesIO(reader.read("data.pkl")))
    return [name for name in sorted(names) if not _safe._is_allowed(name) and not _safe._is_allowed("builtins." + name)]


# Where storages live

_package_registry: list = []


def register_package(priority: int, tagger, deserializer) -> None:
    """Teach `save` to name, and `load` to restore, the place of storages: ``tagger(storage)``, ``deserializer(storage, tag)``."""
    _package_registry.append((priority, tagger, deserializer))
    _package_registry.sort(key=lambda entry: entry[0])


def check_module_version_greater_or_equal(module, req_version_tuple, error_if_malformed=True) -> bool:
    """Whether a module's `__version__` is at least a tuple of numbers."""
    try:
        version = tuple(type(want)(part) for part, want in zip(module.__version__.split("."), req_version_tuple))
    except Exception as e:
        message = (f"'{module.__name__}' module version string is malformed '{module.__version__}' and cannot be compared "
                   f"with tuple {req_version_tuple!s}")
        if error_if_malformed:
            raise RuntimeError(message) from e
        warnings.warn(message + ", but continuing assuming that requirement is met", stacklevel=2)
        return True
    return version >= tuple(req_version_tuple)


def _validate_device(location, backend: str) -> int:
    """The index of a device location, checked against the devices there are."""
    try:
        module = getattr(_fl, backend, None)
    except ImportError:
        module = None
    if module is None or not module.is_available():
        raise RuntimeError(f"Attempting to deserialize object on a {backend.upper()} device but "
                           f"torch.{backend}.is_available() is False. If you are running on a CPU-only machine, please "
                           "use torch.load with map_location=torch.device('cpu') to map your storages to the CPU.")
    index = _fl.device(location).index or 0
    if index >= module.device_count():
        raise RuntimeError(f"Attempting to deserialize object on {backend.upper()} device {index} but "
                           f"torch.{backend}.device_count() is {module.device_count()}. Please use torch.load with "
                           "map_location to map your storages to an existing device.")
    return index


def validate_cuda_device(location) -> int:
    """The index of a CUDA location; RuntimeError where there is no such device."""
    return _validate_device(location, "cuda")


def validate_hpu_device(location) -> int:
    """The index of an HPU location; RuntimeError where there is no such device."""
    return _validate_device(location, "hpu")


def _tagger(kind: str):
    def tag(storage):
        device = storage.device
        if device.type == kind:
            return kind if kind in ("cpu", "meta", "mps") else f"{kind}:{device.index or 0}"
        return None

    return tag


def _restore_cpu(storage, location):
    return storage if location == "cpu" else None


def _restore_meta(storage, location):
    return _fl.UntypedStorage(storage.nbytes(), device="meta") if location == "meta" else None


def _restorer(kind: str):
    def restore(storage, location):
        if not location.startswith(kind):
            return None
        index = _validate_device(location, kind)
        return storage.to(device=f"{kind}:{index}")

    return restore


for _priority, _kind in enumerate(("cuda", "mps", "hpu", "xpu", "privateuse1")):
    register_package(20 + _priority, _tagger(_kind), _restorer(_kind))
register_package(10, _tagger("cpu"), _restore_cpu)
register_package(22, _tagger("meta"), _restore_meta)


def location_tag(storage) -> str:
    """The name of the place of a storage in a file: ``"cpu"``, ``"cuda:0"``, …"""
    for _, tagger, _ in _package_registry:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError("don't know how to determine data location of " + _typename(storage))


def default_restore_location(storage, location):
    """A storage read from a file, brought to its place."""
    for _, _, deserializer in _package_registry:
        result = deserializer(storage, location)
        if result is not None:
            return result
    raise RuntimeError(f"don't know how to restore data location of {_typename(storage)} (tagged with {location})")


def _typename(obj) -> str:
    cls = type(obj)
    module = cls.__module__
    if module == "flambeau" or module.startswith("flambeau."):
        module = "torch" + module[8:]
    return f"{module}.{cls.__qualname__}"


def _restore_function(map_location):
    """`map_location` as a function of storage and location."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(storage, map_location.get(location, location))
    if isinstance(map_location, (str, bytes)):
        return lambda storage, location: default_restore_location(storage, map_location)
    if isinstance(map_location, _fl.device):
        return lambda storage, location: default_restore_location(storage, str(map_location))

    def restore(storage, location):
        result = map_location(storage, location)
        return default_restore_location(storage, location) if result is None else result

    return restore


def normalize_storage_type(storage_type):
    """The class of a storage on the CPU."""
    return getattr(_fl, storage_type.__name__)


def storage_to_tensor_type(storage):
    """The class of tensors over a storage's type."""
    name = type(storage).__name__.replace("Storage", "Tensor")
    return getattr(sys.modules.get(type(storage).__module__, _fl), name)


# Files

def _is_path(f) -> bool:
    return isinstance(f, (str, os.PathLike))


@contextlib.contextmanager
def _opened(f, mode: str):
    if _is_path(f):
        with open(f, mode) as file:
            yield file
        return
    for need in ("seek", "tell"):
        if "r" in mode and not hasattr(f, need):
            raise AttributeError(f"'{type(f).__name__}' object has no attribute '{need}'. You can only torch.load from a "
                                 "file that is seekable. Please pre-load the data into a buffer like io.BytesIO and try "
                                 "to load from it instead.")
    yield f


def _memory(storage):
    """The bytes of a CPU storage, in place. The storage must outlive the view."""
    import ctypes

    n = storage.nbytes()
    return memoryview((ctypes.c_char * n).from_address(storage.data_ptr())).cast("B") if n else memoryview(b"")


# Saving

def _cpu(storage):
    return storage if storage.device.type == "cpu" else storage.cpu()


def save(obj: object, f, pickle_module: Any = pickle, pickle_protocol: int = DEFAULT_PROTOCOL,
         _use_new_zipfile_serialization: bool = True, _disable_byteorder_record: bool = False) -> None:
    """Save an object to a path (whole or not at all) or to a file object."""
    if not _is_path(f) and not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    _register_types()
    if not _use_new_zipfile_serialization:
        with atomic(f) if _is_path(f) else contextlib.nullcontext(f) as file:
            _legacy_save(obj, file, pickle_protocol)
        return
    archive = "archive"
    if _is_path(f):
        archive = os.path.splitext(os.path.basename(os.fspath(f)))[0]
        if not archive or archive.startswith(".") and archive == os.path.basename(os.fspath(f)):
            raise RuntimeError(f"[enforce fail at inline_container.cc] . invalid file name: {os.fspath(f)}")
    with atomic(f) if _is_path(f) else contextlib.nullcontext(f) as file:
        _save_zip(obj, file, archive, pickle_protocol, not _disable_byteorder_record)


def _save_zip(obj, file, archive: str, protocol: int = DEFAULT_PROTOCOL, byteorder: bool = True,
              records: dict[str, bytes] | None = None) -> None:
    """The format of today: an archive of a pickle, the storages, and `records` of other things."""
    writer = ZipWriter(file, archive)
    data = io.BytesIO()
    pickler = _Pickler(data, protocol)
    pickler.dump(obj)
    writer.write_record("data.pkl", data.getbuffer())
    writer.write_record(".format_version", b"1")
    writer.write_record(".storage_alignment", b"64")
    if byteorder:
        writer.write_record("byteorder", sys.byteorder.encode())
    for name, storage, _ in pickler.storages.values():
        if getattr(_local, "skip", False):
            writer.write_record(f"data/{name}", bytes(storage.nbytes()))
            continue
        storage = _cpu(storage)
        writer.write_record(f"data/{name}", _memory(storage), storage._crc32())
    for name, record in (records or {}).items():
        writer.write_record(name, record)
    writer.write_record("version", b"3\n")
    writer.close()


def _legacy_save(obj, file, protocol: int) -> None:
    """The format of old: several pickles, then the storages."""
    data = io.BytesIO()
    pickler = _Pickler(data, protocol, legacy=True)
    pickler.dump(obj)
    pickle.dump(MAGIC_NUMBER, file, protocol=protocol)
    pickle.dump(PROTOCOL_VERSION, file, protocol=protocol)
    pickle.dump({"protocol_version": PROTOCOL_VERSION, "little_endian": sys.byteorder == "little",
                 "type_sizes": {"short": 2, "int": 4, "long": 4}}, file, protocol=protocol)
    file.write(data.getbuffer())
    entries = sorted(pickler.storages.values(), key=lambda entry: entry[0])
    pickle.dump([name for name, _, _ in entries], file, protocol=protocol)
    for _, storage, itemsize in entries:
        storage = _cpu(storage)
        file.write(struct.pack("<q", storage.nbytes() // itemsize))
        file.write(_memory(storage))


# Loading

def _is_zipfile(f) -> bool:
    start = f.tell()
    head = f.read(4)
    f.seek(start)
    return head == b"PK\x03\x04"


def _is_torchscript(reader: ZipReader) -> bool:
    return reader.has_record("constants.pkl")


class StorageType(_FileStorageType):
    """A storage class of a file."""


class _Loaded:
    """A storage with its element type, as tensors are rebuilt from it."""

    def __init__(self, storage, dtype) -> None:
        self._untyped_storage, self.dtype = storage, dtype


def _typed(storage, dtype):
    """A typed storage of the core, where it has one."""
    cls = getattr(_fl, "TypedStorage", None)
    if cls is None:
        return _Loaded(storage, dtype)
    return cls(wrap_storage=storage, dtype=dtype, _internal=True)


def _find(module: str, name: str):
    """What a name in a trusted file stands for."""
    if module != "torch" and not module.startswith("torch."):
        return None
    try:
        return _safe._core_name(f"{module}.{name}")
    except KeyError:
        pass
    if module == "torch" and hasattr(_fl, name):
        return getattr(_fl, name)
    import importlib

    found = importlib.import_module("flambeau" + module[5:])
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _make_unpickler(pickle_module, file, persistent_load, args):
    """A pickle reader for trusted files, with our names for PyTorch's."""
    class Unpickler(pickle_module.Unpickler):
        def find_class(self, module, name):
            found = _find(module, name)
            return super().find_class(module, name) if found is None else found

    unpickler = Unpickler(file, **args)
    unpickler.persistent_load = persistent_load
    return unpickler


def _unpickle(file, pickle_module, persistent_load, args):
    if pickle_module is None:
        machine = args.get("machine", _safe.Unpickler)(file, encoding=args.get("encoding", "utf-8"))
        machine.persistent_load = persistent_load
        return machine.load()
    return _make_unpickler(pickle_module, file, persistent_load, args).load()


def _flag(name: str) -> bool:
    return os.getenv(name, "0") in ("1", "y", "yes", "true")


def load(f, map_location=None, pickle_module: Any = None, *, weights_only: bool | None = None,
         mmap: bool | None = None, **pickle_load_args: Any) -> Any:
    """Load what `save` has written, to the devices that `map_location` says.

    Only tensors, plain containers and types made known with `add_safe_globals` are accepted, unless
    ``weights_only=False``, which trusts the file.
    """
    force, forbid = _flag("TORCH_FORCE_WEIGHTS_ONLY_LOAD"), _flag("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    if force and forbid:
        raise RuntimeError("Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be "
                           "set, but both were set.")
    if force:
        weights_only = True
    elif forbid and weights_only is None:
        weights_only = False
        warnings.warn("Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the`weights_only` argument "
                      "was not explicitly passed to `torch.load`, forcing weights_only=False.", stacklevel=2)
    if weights_only is None:
        weights_only = pickle_module is None
    if weights_only:
        if pickle_module is not None:
            raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    elif pickle_module is None:
        pickle_module = pickle
    pickle_load_args.setdefault("encoding", "utf-8")
    with _opened(f, "rb") as file:
        if _is_zipfile(file):
            start = file.tell()
            overall = None
            reader = ZipReader(file)
            if _is_torchscript(reader):
                if weights_only:
                    raise RuntimeError("Cannot use ``weights_only=True`` with TorchScript archives passed to "
                                       "``torch.load``. " + _UNSAFE)
                warnings.warn("'torch.load' received a zip file that looks like a TorchScript archive dispatching to "
                              "'torch.jit.load' (call 'torch.jit.load' directly to silence this warning)",
                              UserWarning, stacklevel=2)
                file.seek(start)
                return _fl.jit.load(file, map_location=map_location)
            if mmap:
                if not _is_path(f):
                    raise ValueError("f must be a file path in order to use the mmap argument")
                overall = _map_file(f)
            return _guarded(weights_only, _load_zip, reader, map_location, pickle_module, pickle_load_args, overall)
        if mmap:
            raise RuntimeError("mmap can only be used with files saved with "
                               "`torch.save(_use_new_zipfile_serialization=True), please torch.save your checkpoint with "
                               "this option in order to use mmap.")
        return _guarded(weights_only, _legacy_load, file, map_location, pickle_module, pickle_load_args)


def _guarded(weights_only: bool, function, *args):
    """Run a reader; a refusal of the safe one gets advice."""
    try:
        result = function(*args)
        _utils._validate_loaded_sparse_tensors()
        return result
    except UnpicklingError as e:
        if not weights_only:
            raise
        message = str(e)
        head = "Weights only load failed."
        if message.startswith("Unsupported global"):
            text = (f"{head} This file can still be loaded, to do so you have two options, \033[1mdo those steps only if "
                    f"you trust the source of the checkpoint\033[0m. \n\t(1) {_UNSAFE}\n\t(2) Alternatively, to load with "
                    "`weights_only=True` please check the recommended steps in the following error message.\n\t"
                    f"WeightsUnpickler error: {message}")
        elif message.endswith("is blocked."):
            text = f"{head} {_UNSAFE}\n\n\n{message}"
        else:
            text = (f"{head} {_UNSAFE}\nPlease file an issue with the following so that we can make `weights_only=True` "
                    f"compatible with your use case: WeightsUnpickler error: \n\n{message}")
        raise UnpicklingError(text + _DOCS) from None
    finally:
        _utils._sparse_tensors_to_validate.clear()


def _map_file(path):
    """The whole file in memory, as pages of the file."""
    import mmap

    shared = _options["mmap"] == 1
    with open(path, "r+b" if shared else "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)


def _storage_over(buffer, offset: int, nbytes: int):
    """A storage over part of a writable buffer, without a copy."""
    if nbytes == 0:
        return _fl.UntypedStorage(0)
    return _fl.frombuffer(buffer, dtype=_fl.uint8, count=nbytes, offset=offset).untyped_storage()


def _swapped(storage, itemsize: int) -> None:
    """Reverse the bytes of each element."""
    if itemsize > 1 and storage.nbytes():
        raw = _fl.empty(0, dtype=_fl.uint8).set_(storage)
        raw.copy_(raw.view(-1, itemsize).flip(1).reshape(-1))


def _swap_size(dtype) -> int:
    size = _fl.empty(0, dtype=dtype).element_size()
    return size // 2 if dtype.is_complex else size


def _load_zip(reader: ZipReader, map_location, pickle_module, args, overall):
    if not reader.has_record("version") and not reader.has_record(".data/version"):
        raise RuntimeError('Expected hasRecord("version") to be true, but got false.  (Could this error message be '
                           "improved?  If so, please report an enhancement request to PyTorch.)")
    restore = _restore_function(map_location)
    to_meta = str(map_location) == "meta" and map_location is not None and not callable(map_location)
    order = None
    if reader.has_record("byteorder"):
        text = reader.read("byteorder")
        if text not in (b"little", b"big"):
            raise ValueError("Unknown endianness type: " + text.decode())
        order = text.decode()
    else:
        wanted = get_default_load_endianness()
        order = {None: "little", LoadEndianness.NATIVE: sys.byteorder, LoadEndianness.LITTLE: "little",
                 LoadEndianness.BIG: "big"}[wanted]
    loaded: dict[str, Any] = {}

    def read(key: str, nbytes: int, dtype):
        name = f"data/{key}"
        if getattr(_local, "skip", False):
            return _fl.UntypedStorage(nbytes)
        size = reader.size(name)
        if size != nbytes:
            raise RuntimeError(f"record size ({size} bytes) does not match expected size ({nbytes} bytes = {nbytes} "
                               "elements * 1 bytes/element) for dtype Byte")
        if overall is not None and reader.stored(name):
            offset = reader.offset(name)
            if offset + nbytes > len(overall):
                raise RuntimeError(f"{name} lies beyond the end of the file")
            return _storage_over(overall, offset, nbytes)
        storage = _fl.empty(nbytes, dtype=_fl.uint8).untyped_storage()
        if nbytes:
            reader.read_into(name, _memory(storage), storage._crc32)
        if order != sys.byteorder:
            _swapped(storage, _swap_size(dtype))
        return storage

    def persistent_load(saved_id):
        if not isinstance(saved_id, tuple):
            raise UnpicklingError(f"Unknown persistent id {saved_id}")
        kind = _safe._as_text(saved_id[0])
        assert kind == "storage", f"Unknown typename for persistent_load, expected 'storage' but got '{kind}'"
        storage_type, key, location, numel = saved_id[1:5]
        location, key = _safe._as_text(location), _safe._as_text(key)
        dtype = _fl.uint8 if storage_type is UNTYPED else storage_type.dtype
        if key not in loaded:
            nbytes = numel * dtype.itemsize
            if to_meta:
                storage = _fl.UntypedStorage(nbytes, device="meta")
            else:
                storage = restore(read(key, nbytes, dtype), location)
            loaded[key] = storage
        storage = _untyped(loaded[key])
        return _typed(storage, dtype)

    data = reader.read("data.pkl")
    reader.check_against("data.pkl", data)
    return _unpickle(io.BytesIO(data), pickle_module, persistent_load, args)


def _legacy_load(file, map_location, pickle_module, args):
    """Files of the formats of old: several pickles, or a tar archive."""
    restore = _restore_function(map_location)
    if file.tell() == 0:
        import tarfile

        try:
            archive = tarfile.open(fileobj=file, mode="r:", format=tarfile.PAX_FORMAT)
        except tarfile.TarError:
            file.seek(0)
        else:
            if pickle_module is None:
                raise RuntimeError("Cannot use ``weights_only=True`` with files saved in the legacy .tar format. "
                                   + _UNSAFE)
            with archive:
                return _tar_load(archive, restore, pickle_module, args)
    loaded: dict[str, Any] = {}
    sizes: dict[str, tuple[int, Any]] = {}

    def persistent_load(saved_id):
        if not isinstance(saved_id, tuple):
            raise UnpicklingError(f"Unknown persistent id {saved_id}")
        kind = _safe._as_text(saved_id[0])
        if kind == "module":
            return saved_id[1]
        if kind != "storage":
            raise RuntimeError(f"Unknown saved id type: {saved_id[0]}")
        storage_type, key, location, numel, *view = saved_id[1:]
        key, location = _safe._as_text(key), _safe._as_text(location)
        dtype = _fl.uint8 if storage_type is UNTYPED else storage_type.dtype
        itemsize = _fl.empty(0, dtype=dtype).element_size()
        if key not in loaded:
            raw = _fl.empty(numel * itemsize, dtype=_fl.uint8).untyped_storage()
            sizes[key] = (itemsize, raw)
            loaded[key] = (raw, location, dtype)
        storage = loaded[key][0]
        if view and view[0] is not None:
            view_key, offset, view_size = view[0]
            view_key = _safe._as_text(view_key)
            if view_key not in loaded:
                part = _fl.empty(0, dtype=_fl.uint8).set_(storage)[offset * itemsize:(offset + view_size) * itemsize]
                loaded[view_key] = (part.untyped_storage() if offset == 0 else part, location, dtype)
            storage = loaded[view_key][0]
        return _typed(storage, dtype)

    def plain():
        return _unpickle(file, pickle_module, lambda pid: (_ for _ in ()).throw(UnpicklingError(f"unexpected {pid}")),
                         args)

    if plain() != MAGIC_NUMBER:
        raise RuntimeError("Invalid magic number; corrupt file?")
    version = plain()
    if version != PROTOCOL_VERSION:
        raise RuntimeError(f"Invalid protocol version: {version}")
    system = plain()
    result = _unpickle(file, pickle_module, persistent_load, args)
    for key in plain():
        key = _safe._as_text(key)
        if key not in loaded:
            raise RuntimeError(f"Storage {key} is not used; corrupt file?")
        itemsize, storage = sizes[key]
        head = file.read(8)
        if len(head) != 8:
            raise RuntimeError("unexpected EOF. The file might be corrupted.")
        count = struct.unpack("<q", head)[0]
        if count * itemsize != storage.nbytes():
            raise RuntimeError(f"storage has wrong byte size: expected {count * itemsize} got {storage.nbytes()}")
        _read_exactly(file, storage)
        if isinstance(system, dict) and bool(system.get("little_endian", True)) != (sys.byteorder == "little"):
            _swapped(storage, _swap_size(loaded[key][2]))
    moved = {key: restore(storage, location) for key, (storage, location, _) in loaded.items() if key in sizes}
    if any(_untyped(moved[key]) is not loaded[key][0] for key in moved):
        result = _move(result, map_location)
    return result


def _read_exactly(file, storage) -> None:
    view = _memory(storage)
    done = 0
    while done < len(view):
        chunk = file.read(min(len(view) - done, 1 << 24))
        if not chunk:
            raise RuntimeError(f"unexpected EOF, expected {len(view) - done} more bytes. The file might be corrupted.")
        view[done:done + len(chunk)] = chunk
        done += len(chunk)


def _move(obj, map_location):
    """Tensors of plain containers, brought to another device."""
    if isinstance(obj, _fl.Tensor):
        return obj.to(map_location) if isinstance(map_location, (str, _fl.device)) else obj
    if isinstance(obj, dict):
        for key in obj:
            obj[key] = _move(obj[key], map_location)
        return obj
    if isinstance(obj, (list, tuple)):
        return type(obj)(_move(v, map_location) for v in obj)
    return obj


def _tar_load(archive, restore, pickle_module, args):
    """The oldest format: a tar archive of storages, tensors and a pickle."""
    def member(name):
        try:
            return io.BytesIO(archive.extractfile(name).read())
        except (KeyError, AttributeError):
            raise RuntimeError(f"{name} is missing; corrupt file?") from None

    loaded: dict[str, Any] = {}
    file = member("storages")
    for _ in range(pickle_module.load(file, **args)):
        key, location, storage_type = _make_unpickler(pickle_module, file, None, args).load()
        count = struct.unpack("<q", file.read(8))[0]
        itemsize = _fl.empty(0, dtype=storage_type.dtype).element_size()
        storage = _fl.empty(count * itemsize, dtype=_fl.uint8).untyped_storage()
        _read_exactly(file, storage)
        loaded[key] = _typed(_untyped(restore(storage, location)), storage_type.dtype)
    for _ in range(pickle_module.load(file, **args)):
        target, root, offset, size = pickle_module.load(file, **args)
        part = _untyped(loaded[root])[offset:offset + size]
        loaded[target] = _typed(part, loaded[root].dtype)
    file = member("tensors")
    for _ in range(pickle_module.load(file, **args)):
        key, storage_id, _ = _make_unpickler(pickle_module, file, None, args).load()
        storage = loaded[storage_id]
        ndim = struct.unpack("<i", file.read(4))[0]
        file.read(4)
        numbers = struct.unpack(f"<{2 * ndim + 1}q", file.read(8 * (2 * ndim + 1)))
        loaded[key] = _utils._rebuild_tensor(storage, numbers[-1], numbers[:ndim], numbers[ndim:-1])
    return _make_unpickler(pickle_module, member("pickle"), lambda pid: loaded[pid[1] if isinstance(pid, tuple) else pid],
                           args).load()


def _load_from_bytes(data):
    return load(io.BytesIO(data), weights_only=False)
