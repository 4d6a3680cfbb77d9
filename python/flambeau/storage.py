"""Storages: the memory that tensors view, as bytes (`UntypedStorage`) or as elements of a dtype (`TypedStorage`)."""
from builtins import type as _type

from . import _C

__all__ = ["TypedStorage", "UntypedStorage"]

UntypedStorage = StorageBase = _C.UntypedStorage


def _untyped_from_file(filename, shared=False, nbytes=0):
    """The first `nbytes` of a file; what is written to them reaches the file if it is `shared`."""
    from ._interop import from_file

    return from_file(filename, shared, nbytes, dtype=_C.uint8).untyped_storage()


UntypedStorage.from_file = staticmethod(_untyped_from_file)
_STEMS = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Byte": "uint8", "Char": "int8",
    "Short": "int16", "Int": "int32", "Long": "int64", "Bool": "bool", "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}  # fmt: skip


def warn_deprecated(stacklevel=2):
    """Once in a process: typed storages are going away."""
    global _warned
    if not _warned:
        _warned = True
        import warnings

        warnings.warn(
            "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage "
            "class. This should only matter to you if you are using storages directly.  To access UntypedStorage "
            "directly, use tensor.untyped_storage() instead of tensor.storage()", stacklevel=stacklevel + 1)


_warned = False


class TypedStorage:
    """Memory as elements of a dtype, without a shape."""

    is_sparse = False
    dtype = None

    def __init__(self, *args, wrap_storage=None, dtype=None, device=None, _internal=False):
        if not _internal:
            warn_deprecated()
        kind = dtype or _type(self).dtype
        if wrap_storage is not None:
            if args:
                raise RuntimeError(_arguments_error(_type(self), "No positional arguments should be given when using "
                                                    "'wrap_storage'"))
            if kind is None:
                raise RuntimeError(_arguments_error(_type(self), "Argument 'dtype' must be specified"))
            if not isinstance(wrap_storage, UntypedStorage):
                raise TypeError(_arguments_error(_type(self), "Argument 'wrap_storage' must be UntypedStorage, but got "
                                                 f"{_type(wrap_storage)}"))
            self._untyped_storage = wrap_storage
        else:
            if len(args) > 1:
                raise RuntimeError(_arguments_error(_type(self), "Too many positional arguments"))
            kind = kind or _C.get_default_dtype()
            self._untyped_storage = _memory_of(args, kind, device)
        self.dtype = kind

    # ---- as memory --------------------------------------------------------------------------------------

    def __sizeof__(self):
        return super().__sizeof__() + self.nbytes()

    def untyped(self):
        """The bytes."""
        warn_deprecated()
        return self._untyped_storage

    @property
    def _cdata(self):
        return self._untyped_storage._cdata

    @property
    def device(self):
        return self._untyped_storage.device

    @property
    def is_cuda(self):
        return self.device.type == "cuda"

    def element_size(self):
        return self.dtype.itemsize

    def nbytes(self):
        return self._untyped_storage.nbytes()

    def data_ptr(self):
        return self._untyped_storage.data_ptr()

    def size(self):
        return self.nbytes() // self.element_size()

    __len__ = size
    _size = size

    def is_shared(self):
        return is_shared_memory(self._elements())

    def is_pinned(self, device=None):
        return False

    def pin_memory(self, device=None):
        return self

    def resize_(self, size):
        """To another number of elements."""
        self._untyped_storage.resize_(size * self.element_size())

    def _elements(self):
        """All elements as a vector over the same memory."""
        empty = _C.empty(0, dtype=self.dtype, device=self.device)
        return empty.set_(self._untyped_storage, 0, (self.size(),), (1,))

    # ---- as a sequence ------------------------------------------------------------------------------------

    def __getitem__(self, key):
        if isinstance(key, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(key, int):
            raise RuntimeError(f"can't index a {_type(self)} with {_type(key)}")
        size = self.size()
        if not -size <= key < size:
            raise IndexError(f"index {key} out of range for storage of size {size}")
        return self._elements()[key].item()

    def __setitem__(self, key, value):
        if not isinstance(key, (int, slice)):
            raise RuntimeError(f"can't index a {_type(self)} with {_type(key)}")
        self._elements()[key] = value._elements() if isinstance(value, TypedStorage) else value

    def __iter__(self):
        return iter(self.tolist())

    def __eq__(self, other):
        same = isinstance(other, TypedStorage) and self.data_ptr() == other.data_ptr()
        return same and self.dtype == other.dtype and self.nbytes() == other.nbytes()

    __hash__ = object.__hash__

    def __repr__(self):
        head = f"[{_type(self).__module__}.{_type(self).__name__}".replace("flambeau", "torch", 1)
        tail = f"{head}(dtype={self.dtype}, device={self.device}) of size {len(self)}]"
        if self.device.type == "meta":
            return f"...\n{tail}"
        return " " + "\n ".join(str(x) for x in self.tolist()) + f"\n{tail}"

    __str__ = __repr__

    def tolist(self):
        return self._elements().tolist()

    def fill_(self, value):
        self._elements().fill_(value)
        return self

    def copy_(self, source, non_blocking=None):
        self._elements().copy_(source._elements() if isinstance(source, TypedStorage) else source)
        return self

    # ---- copies -----------------------------------------------------------------------------------------

    def _with(self, tensor):
        return TypedStorage(wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype, _internal=True)

    def clone(self):
        return self._with(self._elements().clone())

    def to(self, *, device, non_blocking=False):
        return self._with(self._elements().to(device))

    def cpu(self):
        return self if self.device.type == "cpu" else self.to(device="cpu")

    def type(self, dtype=None, non_blocking=False):
        """The name of its class, or a copy with another dtype."""
        if dtype is None:
            return "torch." + class_of_dtype(self.dtype).__name__
        kind = dtype if isinstance(dtype, _C.dtype) else _class_of_name(dtype).dtype
        return self._with(self._elements().to(kind))

    def share_memory_(self):
        self._untyped_storage = move_to_shared_memory(self._elements()).untyped_storage()
        return self

    def __copy__(self):
        return self.clone()

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = self.clone()
        return memo[id(self)]

    def __reduce__(self):
        return _rebuild_storage, (bytes(self._elements().view(_C.uint8).tolist()) if self.size() else b"", self.dtype)


for _name, _dtype in {"bool": "bool", "byte": "uint8", "char": "int8", "short": "int16", "int": "int32", "long": "int64",
                      "half": "float16", "bfloat16": "bfloat16", "float": "float32", "double": "float64",
                      "complex_float": "complex64", "complex_double": "complex128"}.items():  # fmt: skip
    def _cast(self, _kind=getattr(_C, _dtype)):
        return self.type(_kind)

    _cast.__name__ = _name
    setattr(TypedStorage, _name, _cast)


def _load_from_bytes(data):
    """The storage in PyTorch's own pickles of tensors (by `pickle` itself): a file of its older format."""
    import io

    from .serialization import load

    return load(io.BytesIO(data), weights_only=False)


def _rebuild_storage(data, dtype):
    """A storage with the given bytes."""
    made = TypedStorage(len(data) // dtype.itemsize, dtype=dtype, _internal=True)
    if data:
        made._elements().view(_C.uint8).copy_(_C.frombuffer(bytearray(data), dtype=_C.uint8))
    return made


def _arguments_error(cls, problem):
    return f"{problem}\n\n{cls.__name__}.__init__() got an invalid combination of arguments"


def _memory_of(args, dtype, device):
    """Bytes for a number of elements, a sequence of them, or none."""
    device = _C.device("cpu" if device is None else device)
    if not args:
        return UntypedStorage(0, device=device)
    if isinstance(args[0], int):
        return UntypedStorage(args[0] * dtype.itemsize, device=device)
    if isinstance(args[0], (UntypedStorage, TypedStorage)):
        raise TypeError(_arguments_error(TypedStorage, f"Argument type not recognized: {_type(args[0])}"))
    return _C.tensor(list(args[0]), dtype=dtype, device=device).untyped_storage()


class _LegacyStorageMeta(_type):
    """Typed storages are instances of the class of their dtype."""

    def __instancecheck__(cls, instance):
        return _type(instance) is TypedStorage and instance.dtype is cls.dtype

    def __call__(cls, *args, wrap_storage=None, dtype=None, device=None, _internal=False):
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls.dtype, device=device, _internal=_internal)


class _LegacyStorage(TypedStorage, metaclass=_LegacyStorageMeta):
    """`FloatStorage` and the like: `TypedStorage` with the dtype in the name."""

    @classmethod
    def from_buffer(cls, *args, dtype=None, device=None, **kwargs):
        return TypedStorage(wrap_storage=UntypedStorage.from_buffer(*args, dtype=cls.dtype, **kwargs), dtype=cls.dtype,
                            _internal=True)


CLASSES = {
    stem + "Storage": _LegacyStorageMeta(stem + "Storage", (_LegacyStorage,),
                                         {"dtype": getattr(_C, dtype), "__module__": "flambeau"})
    for stem, dtype in _STEMS.items()
}
globals().update(CLASSES)
Storage = CLASSES["FloatStorage"]  # the name that the default dtype's had


def class_of_dtype(dtype):
    """`FloatStorage` for float32, ..."""
    return next((c for c in CLASSES.values() if c.dtype is dtype), None)


def _class_of_name(name):
    return CLASSES[str(name).rpartition(".")[2]]


def is_storage(obj, /):
    """Whether it is a storage, typed or not."""
    return isinstance(obj, (TypedStorage, UntypedStorage))


# ---- memory that processes share ---------------------------------------------------------------------------

# Address of the memory: the descriptor of the file that it maps.
_shared: dict = {}


def is_shared_memory(tensor):
    """Whether other processes can map a tensor's storage."""
    return tensor.device.type == "cpu" and tensor.untyped_storage().data_ptr() in _shared


def shared_descriptor(tensor):
    """The descriptor of the file that a shared storage maps."""
    return _shared[tensor.untyped_storage().data_ptr()]


def map_shared_memory(descriptor, nbytes):
    """A storage over a file in memory. The descriptor is closed when the storage goes."""
    import mmap
    import weakref

    block = mmap.mmap(descriptor, nbytes)
    storage = _C.frombuffer(block, dtype=_C.uint8).untyped_storage()
    address = storage.data_ptr()
    _shared[address] = descriptor
    weakref.finalize(block, _release, address)
    return storage


def _release(address):
    import os

    os.close(_shared.pop(address))


def _file_in_memory(nbytes):
    """The descriptor of an anonymous file."""
    import os

    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("flambeau")
    else:
        import tempfile

        descriptor, path = tempfile.mkstemp()
        os.unlink(path)
    os.ftruncate(descriptor, nbytes)
    return descriptor


def move_to_shared_memory(tensor):
    """Puts the tensor's storage in memory that other processes can map; returns the tensor."""
    if tensor.device.type != "cpu" or is_shared_memory(tensor):
        return tensor
    source = tensor.untyped_storage()
    size = source.nbytes()
    if size == 0:
        return tensor
    storage = map_shared_memory(_file_in_memory(size), size)
    with _C.DisableTorchFunction():
        flat = (0, (size,), (1,))
        _C.empty(0, dtype=_C.uint8).set_(storage, *flat).copy_(_C.empty(0, dtype=_C.uint8).set_(source, *flat))
        tensor.data = _C.empty(0, dtype=tensor.dtype).set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
    return tensor
