"""Reads pickles of tensors and plain containers without ever running what a file names.

Names are looked up in a table, never imported; only functions of that table (and those that the user adds) are called.
"""
from __future__ import annotations

import _codecs
import functools
import struct
import sys
import warnings
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import Counter, OrderedDict
from pickle import UnpicklingError, decode_long

import flambeau as _fl

import flambeau._utils as _utils

_BLOCKED = ("sys", "os", "posix", "nt")
_user_allowed: dict = {}

STORAGE_TYPES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "LongStorage": "int64",
    "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8",
    "BoolStorage": "bool", "BFloat16Storage": "bfloat16", "ComplexDoubleStorage": "complex128",
    "ComplexFloatStorage": "complex64", "QUInt8Storage": "quint8", "QInt8Storage": "qint8",
    "QInt32Storage": "qint32", "QUInt4x2Storage": "quint4x2", "QUInt2x4Storage": "quint2x4",
}
_DTYPES = ("bfloat16 bits16 bits1x8 bits2x4 bits4x2 bits8 bool complex128 complex32 complex64 float16 float32 "
           "float4_e2m1fn_x2 float64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu int1 int16 "
           "int2 int3 int32 int4 int5 int6 int64 int7 int8 qint32 qint8 quint2x4 quint4x2 quint8 uint1 uint16 uint2 "
           "uint3 uint32 uint4 uint5 uint6 uint64 uint7 uint8").split()
_TYPED_TENSORS = "BFloat16 Bool Byte Char Double Float Half Int Long Short".split()
_REBUILDERS = ("device_tensor_from_cpu_tensor device_tensor_from_numpy meta_tensor_no_storage nested_tensor parameter "
               "parameter_with_state qtensor sparse_tensor tensor tensor_v2 tensor_v3 wrapper_subclass").split()
_QSCHEMES = ("per_channel_affine", "per_channel_affine_float_qparams", "per_channel_symmetric", "per_tensor_affine",
             "per_tensor_symmetric")


class StorageType:
    """Stands for a typed storage class named in a file."""

    _cache: dict[str, "StorageType"] = {}

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = "torch"
        self._name = name

    @classmethod
    def of(cls, name: str) -> "StorageType":
        return cls._cache.setdefault(name, cls(name))

    @property
    def dtype(self):
        name = STORAGE_TYPES.get(self._name, "uint8")
        return getattr(_fl, name)

    def __str__(self) -> str:
        return f"StorageType(dtype={self.dtype})"


UNTYPED = StorageType.of("UntypedStorage")


def _rebuild_from_type_v2(func, new_type, args, state):
    """A tensor of a subclass, or one with attributes."""
    ret = func(*args)
    if type(ret) is not new_type:
        ret = ret.as_subclass(new_type)
    own = getattr(new_type, "__setstate__", None)
    if own is not None and own is not getattr(_fl.Tensor, "__setstate__", None):
        ret.__setstate__(state)
        return ret
    return _utils._set_obj_state(ret, state)


def _get_layout(name: str):
    """A layout by its name."""
    if not name.startswith("torch.") or type(getattr(_fl, name[6:], None)) is not type(_fl.strided):
        raise UnpicklingError(f"unknown layout {name}")
    return getattr(_fl, name[6:])


@functools.lru_cache(None)
def _core_name(module_and_name: str):
    """What a safe name of PyTorch's stands for here; KeyError for others."""
    module, _, name = module_and_name.rpartition(".")
    if module == "torch":
        if name in STORAGE_TYPES:
            return StorageType.of(name)
        if name in _DTYPES or name in _QSCHEMES or name in ("Size", "device", "Tensor"):
            if hasattr(_fl, name):
                return getattr(_fl, name)
    elif module == "torch.cuda" and name in STORAGE_TYPES:
        return StorageType.of(name)
    elif module == "torch.storage":
        if name == "UntypedStorage":
            return UNTYPED
        if name == "TypedStorage":
            return StorageType.of(name)
    elif module == "torch._utils" and name.startswith("_rebuild_") and name[9:] in _REBUILDERS:
        return getattr(_utils, name)
    elif module_and_name == "torch._tensor._rebuild_from_type_v2":
        return _rebuild_from_type_v2
    elif module_and_name == "torch.serialization._get_layout":
        return _get_layout
    elif module == "torch.nested._internal.nested_tensor" and name in ("_rebuild_njt", "NestedTensor"):
        from .nested._internal import nested_tensor

        return getattr(nested_tensor, name)
    elif module_and_name == "torch._dynamo.decorators._DimRange":  # an attribute of parts of saved nested tensors
        from ._dynamo.decorators import _DimRange

        return _DimRange
    elif module_and_name == "torch.nn.parameter.Parameter":
        from .nn import Parameter

        return Parameter
    if module in ("torch", "torch.cuda", "torch.sparse", "torch.cuda.sparse") and name.endswith("Tensor") and (
            name[:-6] in _TYPED_TENSORS):
        found = _fl
        for part in module.split(".")[1:]:
            found = getattr(found, part)
        return getattr(found, name)
    raise KeyError(module_and_name)


_PLAIN = {"collections.OrderedDict": OrderedDict, "collections.Counter": Counter, "_codecs.encode": _codecs.encode,
          "builtins.bytearray": bytearray, "builtins.set": set, "builtins.complex": complex,
          "__builtin__.bytearray": bytearray, "__builtin__.set": set, "__builtin__.complex": complex}


def _full_name(obj) -> str:
    module = getattr(obj, "__module__", None)
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
    if module is None or name is None:
        return str(obj)
    if module == "flambeau" or module.startswith("flambeau."):
        module = "torch" + module[8:]
    return f"{module}.{name}"


def _add_safe_globals(safe_globals) -> None:
    for entry in safe_globals:
        _user_allowed[_user_name(entry)] = entry


def _user_name(entry) -> str:
    if isinstance(entry, tuple):
        if len(entry) != 2:
            raise ValueError(f"Expected tuple of length 2 (global, str of callable full path), but got tuple of length: "
                             f"{len(entry)}")
        if not isinstance(entry[1], str):
            raise TypeError(f"Expected second item of tuple to be a string, but got {type(entry[1])}")
        return entry[1]
    return _full_name(entry)


def _get_safe_globals() -> list:
    return list(_user_allowed.values())


def _clear_safe_globals() -> None:
    _user_allowed.clear()


def _remove_safe_globals(safe_globals) -> None:
    for entry in safe_globals:
        _user_allowed.pop(_user_name(entry), None)


class _safe_globals:
    """Adds safe names within a block."""

    def __init__(self, safe_globals) -> None:
        self.safe_globals = safe_globals

    def __enter__(self):
        self.before = dict(_user_allowed)
        _add_safe_globals(self.safe_globals)

    def __exit__(self, *exc):
        _user_allowed.clear()
        _user_allowed.update(self.before)


def _user_object(full: str):
    entry = _user_allowed.get(full)
    return entry[0] if isinstance(entry, tuple) else entry


def _is_allowed(full: str) -> bool:
    try:
        return full in _PLAIN or full in _user_allowed or _core_name(full) is not None
    except KeyError:
        return False


def get_globals_in_pkl(file) -> set[str]:
    """All names that a pickle refers to."""
    import pickletools

    names: set[str] = set()
    strings: list[str] = []
    for op, arg, _ in pickletools.genops(file):
        if op.name in ("GLOBAL", "INST"):
            names.add(_shown_name(*str(arg).split(" ", 1)))
        elif op.name == "STACK_GLOBAL":
            names.add(_shown_name(*strings[-2:]))
        elif isinstance(arg, str):
            strings.append(arg)
    return names


def _shown_name(module: str, name: str) -> str:
    module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
    return name if module == "builtins" else f"{module}.{name}"


class _Machine:
    """One run over a pickle."""

    def __init__(self, file, encoding: str = "bytes") -> None:
        self.encoding = encoding
        self.read_bytes = file.read
        self.readline = file.readline
        self.memo: dict[int, object] = {}
        self.stack: list = []
        self.marks: list[list] = []
        self.protocol = -1

    def persistent_load(self, pid):
        raise UnpicklingError("unsupported persistent id encountered")

    def read(self, n: int) -> bytes:
        data = self.read_bytes(n)
        if len(data) != n:
            raise EOFError
        return data

    def line(self) -> str:
        data = self.readline()
        if not data.endswith(b"\n"):
            raise EOFError
        return data[:-1].decode("utf-8")

    def pop_mark(self) -> list:
        items = self.stack
        self.stack = self.marks.pop()
        return items

    def load(self):
        """The object that the pickle describes."""
        read, table = self.read_bytes, self.TABLE
        while True:
            code = read(1)
            if not code:
                raise EOFError
            function = table.get(code[0])
            if function is None:
                if code[0] == 0x2E:  # STOP
                    return self.stack.pop()
                raise UnpicklingError(f"Unsupported operand {code[0]}")
            function(self)

    # Names, and what is done with them

    def op_global(self):
        module, name = self.line(), self.line()
        if self.protocol < 3:  # names of Python 2, as such pickles have them
            if (module, name) in NAME_MAPPING:
                module, name = NAME_MAPPING[module, name]
            else:
                module = IMPORT_MAPPING.get(module, module)
        if module in _BLOCKED:
            raise UnpicklingError(f"Trying to load unsupported GLOBAL {module}.{name} whose module {module} is blocked.")
        full = f"{module}.{name}"
        found = _PLAIN.get(full)
        if found is None:
            try:
                found = _core_name(full)
            except KeyError:
                found = _user_object(_shown_name(module, name))
                if found is None:
                    found = _user_object(full)
        if found is None:
            shown = _shown_name(module, name)
            raise UnpicklingError(
                f"Unsupported global: GLOBAL {shown} was not an allowed global by default. Please use "
                f"`torch.serialization.add_safe_globals([{shown}])` or the `torch.serialization.safe_globals([{shown}])` "
                "context manager to allowlist this global if you trust this class/function.")
        self.stack.append(found)

    @staticmethod
    def _by_user(obj) -> bool:
        return any((entry[0] if isinstance(entry, tuple) else entry) is obj for entry in _user_allowed.values())

    def op_newobj(self):
        args = self.stack.pop()
        cls = self.stack.pop()
        if cls is _parameter_class():
            made = cls(*args)
        elif cls in (OrderedDict, Counter, set, _within("_dynamo.decorators", "_DimRange")) or self._by_user(cls) or (
                _is_tensor_type(cls)):
            made = cls.__new__(cls, *args)
        else:
            raise UnpicklingError("Can only create new object for nn.Parameter or classes allowlisted via "
                                  f"`add_safe_globals` but got {cls}")
        self.stack.append(made)

    def op_reduce(self):
        args = self.stack.pop()
        func = self.stack[-1]
        if not (_is_safe_function(func) or self._by_user(func)):
            raise UnpicklingError(f"Trying to call reduce for unrecognized function {func}")
        if isinstance(func, StorageType):
            raise UnpicklingError(f"Trying to call reduce for unrecognized function {func}")
        if func is _codecs.encode and not (len(args) == 2 and isinstance(args[0], str) and args[1] == "latin1"):
            raise UnpicklingError("Only latin1 text can be encoded while loading weights")
        if not isinstance(args, tuple):
            raise UnpicklingError(f"Trying to call reduce with arguments of type {type(args)}")
        if func is _rebuild_from_type_v2 and not (
                len(args) == 4 and _is_safe_function(args[0])
                and (args[1] is _fl.Tensor or args[1] is _parameter_class() or self._by_user(args[1])
                     or args[1] is not None and args[1] is _nested_class())):
            raise UnpicklingError("Trying to rebuild a tensor of a type that is not allowed")
        self.stack[-1] = func(*args)

    def op_build(self):
        state = self.stack.pop()
        inst = self.stack[-1]
        kind = type(inst)
        if kind is _fl.Tensor:
            inst.set_(*state)
        elif kind is _parameter_class():
            inst.__setstate__(state)
        elif kind is OrderedDict:
            inst.__dict__.update(state)
        elif kind is _within("_dynamo.decorators", "_DimRange"):
            inst.__setstate__(state)
        elif self._by_user(kind):
            if hasattr(inst, "__setstate__"):
                inst.__setstate__(state)
            else:
                slots = None
                if isinstance(state, tuple) and len(state) == 2:
                    state, slots = state
                if state:
                    inst.__dict__.update(state)
                for key, value in (slots or {}).items():
                    setattr(inst, key, value)
        else:
            raise UnpicklingError("Can only build Tensor, Parameter, OrderedDict or types allowlisted via "
                                  f"`add_safe_globals`, but got {kind}")

    def op_binpersid(self):
        pid = self.stack.pop()
        if type(pid) is not tuple and not type(pid) is int:
            raise UnpicklingError(f"persistent_load id must be tuple or int, but got {type(pid)}")
        if type(pid) is tuple and len(pid) > 0 and _as_text(pid[0]) != "storage":
            raise UnpicklingError(f"Only persistent_load of storage is allowed, but got {pid[0]}")
        self.stack.append(self.persistent_load(pid))

    # Containers

    def op_append(self):
        item = self.stack.pop()
        target = self.stack[-1]
        if type(target) is not list:
            raise UnpicklingError(f"Can only append to lists, but got {type(target)}")
        target.append(item)

    def op_appends(self):
        items = self.pop_mark()
        target = self.stack[-1]
        if type(target) is not list:
            raise UnpicklingError(f"Can only extend lists, but got {type(target)}")
        target.extend(items)

    def _check_dict(self, target):
        if type(target) not in (dict, OrderedDict, Counter) and not self._by_user(type(target)):
            raise UnpicklingError(f"Can only SETITEM for dict, collections.OrderedDict, collections.Counter, but got "
                                  f"{type(target)}")

    def op_setitem(self):
        value, key = self.stack.pop(), self.stack.pop()
        self._check_dict(self.stack[-1])
        self.stack[-1][key] = value

    def op_setitems(self):
        items = self.pop_mark()
        target = self.stack[-1]
        self._check_dict(target)
        for i in range(0, len(items), 2):
            target[items[i]] = items[i + 1]

    def op_mark(self):
        self.marks.append(self.stack)
        self.stack = []

    def op_tuple(self):
        items = self.pop_mark()
        self.stack.append(tuple(items))

    def _tuple_of(n: int):  # noqa: N805
        def op(self):
            if len(self.stack) < n:
                raise IndexError("pop from empty list")
            items = tuple(self.stack[-n:])
            self.stack[-n:] = [items]

        return op

    # Values

    def _value(make):  # noqa: N805
        def op(self):
            self.stack.append(make(self))

        return op

    def _binstring(length):  # noqa: N805
        def op(self):
            n = length(self)
            if n < 0:
                raise UnpicklingError("BINSTRING pickle has negative byte count")
            data = self.read(n)
            self.stack.append(data if self.encoding == "bytes" else data.decode(self.encoding, "strict"))

        return op

    def op_proto(self):
        self.protocol = self.read(1)[0]
        if self.protocol != 2:
            warnings.warn(f"Detected pickle protocol {self.protocol} in the checkpoint, which was not the default pickle "
                          "protocol used by `torch.load` (2). The weights_only Unpickler might not support all "
                          "instructions implemented by this protocol, please file an issue for adding support if you "
                          "encounter this.", stacklevel=4)

    def _put(number):  # noqa: N805
        def op(self):
            i = number(self)
            if i < 0:
                raise ValueError("negative argument")
            self.memo[i] = self.stack[-1]

        return op

    # The commonest ones, without further calls.

    def op_binput(self):
        at = self.read_bytes(1)
        if not at:
            raise EOFError
        self.memo[at[0]] = self.stack[-1]

    def op_binget(self):
        at = self.read_bytes(1)
        if not at:
            raise EOFError
        self.stack.append(self.memo[at[0]])

    def op_binint1(self):
        number = self.read_bytes(1)
        if not number:
            raise EOFError
        self.stack.append(number[0])

    def op_binunicode(self):
        length = int.from_bytes(self.read(4), "little")
        self.stack.append(str(self.read(length), "utf-8", "surrogatepass"))

    def op_pop(self):
        if self.stack:
            self.stack.pop()
        else:
            self.pop_mark()

    def op_dup(self):
        self.stack.append(self.stack[-1])

    _u1 = lambda self: self.read(1)[0]  # noqa: E731
    _u2 = lambda self: struct.unpack("<H", self.read(2))[0]  # noqa: E731
    _u4 = lambda self: struct.unpack("<I", self.read(4))[0]  # noqa: E731
    _i4 = lambda self: struct.unpack("<i", self.read(4))[0]  # noqa: E731

    TABLE = {
        0x80: op_proto, ord("("): op_mark, ord("c"): op_global, 0x81: op_newobj, ord("R"): op_reduce,
        ord("b"): op_build, ord("Q"): op_binpersid, ord("a"): op_append, ord("e"): op_appends,
        ord("s"): op_setitem, ord("u"): op_setitems, ord("t"): op_tuple, 0x85: _tuple_of(1), 0x86: _tuple_of(2),
        0x87: _tuple_of(3), ord("0"): op_pop, ord("2"): op_dup,
        ord("N"): _value(lambda self: None), 0x88: _value(lambda self: True), 0x89: _value(lambda self: False),
        ord(")"): _value(lambda self: ()), ord("]"): _value(lambda self: []), ord("}"): _value(lambda self: {}),
        0x8F: _value(lambda self: set()),
        ord("K"): op_binint1, ord("M"): _value(_u2), ord("J"): _value(_i4),
        ord("G"): _value(lambda self: struct.unpack(">d", self.read(8))[0]),
        ord("X"): op_binunicode,
        0x8A: _value(lambda self: decode_long(self.read(self._u1()))),
        ord("U"): _binstring(_u1), ord("T"): _binstring(_i4),
        ord("q"): op_binput, ord("r"): _put(_u4), ord("h"): op_binget, ord("j"): _value(lambda self: self._get(self._u4())),
    }
    del TABLE[0x8F]

    def _get(self, i: int):
        return self.memo[i]


Unpickler = _Machine


def _as_text(value):
    return value.decode("ascii") if isinstance(value, bytes) else value


def _within(module: str, name: str):
    """A name of a module that was imported before, as it is when a file names it; None otherwise."""
    return getattr(sys.modules.get(f"flambeau.{module}"), name, None)


def _nested_class():
    return _within("nested._internal.nested_tensor", "NestedTensor")


@functools.lru_cache(None)
def _parameter_class():
    try:
        return _core_name("torch.nn.parameter.Parameter")
    except (ImportError, AttributeError):
        return None


def _is_tensor_type(cls) -> bool:
    return cls is _fl.Tensor or getattr(cls, "__name__", "").endswith("Tensor") and not isinstance(cls, type(_fl.Tensor)) \
        or type(cls).__name__ == "tensortype"


@functools.lru_cache(None)
def _safe_functions() -> frozenset:
    return frozenset({OrderedDict, Counter, set, bytearray, complex, _codecs.encode, _rebuild_from_type_v2, _get_layout,
                      _fl.Size, _fl.device, *(getattr(_utils, f"_rebuild_{n}") for n in _REBUILDERS
                                              if hasattr(_utils, f"_rebuild_{n}"))})


def _is_safe_function(func) -> bool:
    try:
        rebuilds_nested = func is _within("nested._internal.nested_tensor", "_rebuild_njt") and func is not None
        return func in _safe_functions() or func is _parameter_class() or rebuilds_nested or _is_tensor_type(func)
    except TypeError:
        return False


def load(file, *, encoding: str = "ASCII"):
    """Read one pickle."""
    return Unpickler(file, encoding=encoding).load()
