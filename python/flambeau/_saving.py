"""The pickler of `save`: objects under PyTorch's names, storages set aside."""
from __future__ import annotations

import functools
import pickle
import sys
import types
from collections import OrderedDict
from typing import Any

import flambeau as _fl
import flambeau._utils as _utils

from ._weights_only_unpickler import STORAGE_TYPES


class _Name:
    """Something that a file refers to by module and name."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self):
        raise TypeError("only a name")


class _SavedStorage:
    """A storage as a file refers to it."""

    def __init__(self, storage, type_name: str, itemsize: int) -> None:
        self.storage, self.type_name, self.itemsize = storage, type_name, itemsize


# Types whose objects are neither written under other names nor, but for storages, set aside.
_USUAL = frozenset({type(None), bool, int, float, str, bytes, tuple, list, dict, type, OrderedDict, _Name, _SavedStorage,
                    _fl.Tensor})
_PUTS = [pickle.BINPUT + bytes((number,)) for number in range(256)]
_BYTES = [pickle.BININT1 + bytes((number,)) for number in range(256)]
_TUPLES = [pickle.EMPTY_TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3]

_dtype_to_type: dict[str, str] = {v: k for k, v in STORAGE_TYPES.items()}


def _dtype_name(dtype) -> str:
    return str(dtype).split(".")[-1]


@functools.cache
def _type_name(dtype) -> str | None:
    return _dtype_to_type.get(_dtype_name(dtype))


class _Pickler(pickle._Pickler):  # type: ignore[name-defined]
    """Writes objects under PyTorch's names; `storages` collects what their tensors hold."""

    def __init__(self, file, protocol: int, legacy: bool = False) -> None:
        from .serialization import location_tag

        super().__init__(file, protocol)
        self.legacy = legacy
        self.storages: OrderedDict[int, tuple[str, Any, int]] = OrderedDict()
        self.dtypes: dict[int, str] = {}
        self.names: dict[tuple[str, str], _Name] = {}
        self.location_tag = location_tag
        if self.proto < 4:  # no frames
            self.write = file.write

    def save(self, obj, save_persistent_id=True):
        # What the general way does, with fewer questions for the objects that most files consist of.
        kind = type(obj)
        if kind not in _USUAL:
            super().save(obj, save_persistent_id)
            return
        if self.proto >= 4:
            self.framer.commit_frame()
        known = self.memo.get(id(obj))
        if known is not None:
            self.write(self.get(known[0]))
        elif kind is _SavedStorage:
            self.save_pers(self.persistent_id(obj))
        elif kind is _fl.Tensor:
            self._save_tensor(obj)
        elif kind is not OrderedDict:
            self.dispatch[kind](self, obj)
        elif obj or obj.__dict__:
            super().save(obj, save_persistent_id)
        else:
            self.save_reduce(OrderedDict, (), obj=obj)

    def memoize(self, obj):
        number = len(self.memo)
        self.write(_PUTS[number] if number < 256 and 0 < self.proto < 4 else self.put(number))
        self.memo[id(obj)] = number, obj

    def _memoized(self, obj) -> bytes:
        number = len(self.memo)
        self.memo[id(obj)] = number, obj
        return _PUTS[number] if number < 256 else self.put(number)

    def _tuple_of_integers(self, items: tuple) -> bytes | None:
        """A tuple of numbers that take at most two bytes each, as protocols 2 and 3 write it."""
        if not items:
            return pickle.EMPTY_TUPLE
        if min(items) < 0 or max(items) > 0xFFFF:
            return None
        text = b"".join([_BYTES[n] if n < 256 else pickle.BININT2 + n.to_bytes(2, "little") for n in items])
        text = text + _TUPLES[len(items)] if len(items) <= 3 else pickle.MARK + text + pickle.TUPLE
        return text + self._memoized(items)

    def _save_tensor(self, tensor) -> None:
        """What `save_reduce` would write, in few pieces for the commonest of tensors."""
        made = self._reduce_tensor(tensor)
        function, args = made[:2]
        if self.proto not in (2, 3) or len(args) != 6 or type(args[0]) is not _SavedStorage:
            self.save_reduce(*made, obj=tensor)
            return
        storage, offset, size, stride, requires_grad, hooks = args
        self.save(function)
        self.write(pickle.MARK)
        self.save(storage)
        self.save(offset)
        for items in (size, stride):
            text = self._tuple_of_integers(items)
            if text is None:
                self.save(items)
            else:
                self.write(text)
        self.write(pickle.NEWTRUE if requires_grad else pickle.NEWFALSE)
        self.save(OrderedDict)
        self.write(b"".join((pickle.EMPTY_TUPLE, pickle.REDUCE, self._memoized(hooks), pickle.TUPLE, self._memoized(args),
                             pickle.REDUCE, self._memoized(tensor))))

    def persistent_id(self, obj):
        if type(obj) is _SavedStorage:
            storage, type_name = obj.storage, obj.type_name
            nbytes = storage.nbytes()
            has_data = nbytes and storage.device.type != "meta"
            key = storage.data_ptr() if has_data else id(storage)
            if has_data and type_name != "UntypedStorage" and self.dtypes.setdefault(key, type_name) != type_name:
                raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
            if key not in self.storages:
                name = str(storage.data_ptr() or id(storage)) if self.legacy else str(len(self.storages))
                self.storages[key] = (name, storage, obj.itemsize)
            name = self.storages[key][0]
            module = "torch.storage" if type_name == "UntypedStorage" else "torch"
            pid = ("storage", self._name(module, type_name), name, self.location_tag(storage), nbytes // obj.itemsize)
            return (*pid, None) if self.legacy else pid
        return None

    def _name(self, module: str, name: str) -> _Name:
        known = self.names.get((module, name))
        if known is None:
            known = self.names[module, name] = _Name(module, name)
        return known

    def reducer_override(self, obj):
        if isinstance(obj, _fl.Tensor):
            return self._reduce_tensor(obj)
        kind = type(obj)
        if kind is _fl.Size:
            return self._name("torch", "Size"), (tuple(obj),)
        if kind is _fl.device:
            return self._name("torch", "device"), (obj.type,) if obj.index is None else (obj.type, obj.index)
        if kind is _fl.layout:
            return self._name("torch.serialization", "_get_layout"), (str(obj),)
        return NotImplemented

    def _reduce_tensor(self, tensor):
        cls = type(tensor)
        if cls is _fl.Tensor and not tensor.__dict__:
            return self._reduce_plain(tensor)
        own = cls.__reduce_ex__
        parameter = cls.__name__ == "Parameter" and cls.__module__.endswith("nn.parameter")
        if not parameter and (own is not _fl.Tensor.__reduce_ex__ or _takes_calls_over(cls)):
            return tensor.__reduce_ex__(self.proto)
        with _fl.DisableTorchFunctionSubclass():
            return self._reduce_of_class(tensor, cls, parameter)

    def _reduce_of_class(self, tensor, cls, parameter):
        state = {k: v for k, v in getattr(tensor, "__dict__", {}).items() if not k.startswith("_backward_hooks")}
        if parameter:
            data = tensor.detach()
            if state:
                return self._util("_rebuild_parameter_with_state"), (data, tensor.requires_grad, OrderedDict(), state)
            return self._util("_rebuild_parameter"), (data, tensor.requires_grad, OrderedDict())
        function, args = self._reduce_plain(tensor)
        if cls is _fl.Tensor and not state:
            return function, args
        named = self._name("torch", "Tensor") if cls is _fl.Tensor else cls
        return self._name("torch._tensor", "_rebuild_from_type_v2"), (function, named, args, state)

    def _util(self, name: str) -> _Name:
        return self._name("torch._utils", name)

    def _reduce_plain(self, t):
        if t.is_cpu and t.layout is _fl.strided and not t.is_nested:
            return self._reduce_strided(t)
        if t.is_nested:
            return self._util("_rebuild_nested_tensor"), (t.values(), t._nested_tensor_size(),
                                                          t._nested_tensor_strides(), t._nested_tensor_storage_offsets())
        layout = t.layout
        if layout == _fl.sparse_coo:
            t = t.detach()
            args = (layout, (t._indices(), t._values(), t.size(), t.is_coalesced()))
            return self._util("_rebuild_sparse_tensor"), args
        if str(layout) in ("torch.sparse_csr", "torch.sparse_bsr"):
            args = (layout, (t.crow_indices(), t.col_indices(), t.values(), t.size()))
            return self._util("_rebuild_sparse_tensor"), args
        if str(layout) in ("torch.sparse_csc", "torch.sparse_bsc"):
            args = (layout, (t.ccol_indices(), t.row_indices(), t.values(), t.size()))
            return self._util("_rebuild_sparse_tensor"), args
        if t.device.type == "meta":
            return self._util("_rebuild_meta_tensor_no_storage"), (t.dtype, tuple(t.size()), t.stride(), t.requires_grad)
        return self._reduce_strided(t)

    def _reduce_strided(self, t):
        type_name = _type_name(t.dtype)
        storage = _SavedStorage(t.untyped_storage(), type_name or "UntypedStorage",
                                t.element_size() if type_name else 1)
        args = (storage, t.storage_offset(), tuple(t.size()), t.stride(), t.requires_grad, OrderedDict())
        if not type_name:
            args = (*args, t.dtype)
        metadata = _utils.get_tensor_metadata(t)
        if metadata:
            args = (*args, metadata)
        return self._util("_rebuild_tensor_v2" if type_name else "_rebuild_tensor_v3"), args

    def save_global(self, obj, name=None):
        """A class or function, by name; ours go under PyTorch's module names."""
        module = getattr(obj, "__module__", None)
        if module is not None and (module == "flambeau" or module.startswith("flambeau.")):
            named = name or getattr(obj, "__qualname__", None) or obj.__name__
            found = sys.modules.get(module)
            for part in named.split("."):
                found = getattr(found, part, None)
            if found is not obj:
                raise pickle.PicklingError(f"Can't pickle {obj!r}: it's not found as {module}.{named}")
            self._write_global("torch" + module[8:], named, obj)
            return
        try:
            super().save_global(obj, name)
        except (pickle.PicklingError, AttributeError):
            pickle.dumps(obj, self.proto)  # raises in the words of the pickler that PyTorch uses
            raise

    def _write_global(self, module: str, name: str, obj) -> None:
        if "." in name and self.proto < 4:  # a nested class
            super().save_global(obj, name)
            return
        self.write(pickle.GLOBAL + module.encode() + b"\n" + name.encode() + b"\n")
        self.memoize(obj)

    def _save_name(self, obj):
        self._write_global(obj.module, obj.name, obj)

    def _save_dtype(self, obj):
        self._write_global("torch", _dtype_name(obj), obj)

    def _save_untyped(self, obj):
        self.save(_SavedStorage(obj, "UntypedStorage", 1))

    def _save_typed(self, obj):
        self.save(_SavedStorage(_untyped(obj), _dtype_to_type[_dtype_name(obj.dtype)], obj.element_size()))

    def _save_type(self, obj):
        module = obj.__module__
        if module in ("flambeau", "torch") or module.startswith("flambeau."):
            self.save_global(obj)
        else:
            pickle._Pickler.save_type(self, obj)  # type: ignore[attr-defined]

    dispatch = {**pickle._Pickler.dispatch, _Name: _save_name, type: _save_type,
                types.FunctionType: save_global}  # type: ignore[attr-defined]


def _takes_calls_over(cls) -> bool:
    """Whether a class of tensors has a `__torch_function__` of its own, which is asked how its tensors are written."""
    own = getattr(cls.__torch_function__, "__func__", cls.__torch_function__)
    return own not in (_fl.Tensor.__torch_function__.__func__, _fl._C._disabled_torch_function_impl)


def _untyped(storage):
    return getattr(storage, "_untyped_storage", storage)


def _register_types() -> None:
    """Make the pickler know the core's types, once they are there."""
    if type(_fl.float32) in _Pickler.dispatch:
        return
    _Pickler.dispatch[type(_fl.float32)] = _Pickler._save_dtype
    _Pickler.dispatch[_fl.UntypedStorage] = _Pickler._save_untyped
    typed = getattr(_fl, "TypedStorage", None)
    if typed is not None:
        _Pickler.dispatch[typed] = _Pickler._save_typed
