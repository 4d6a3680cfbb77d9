"""Shared helpers: exceptions carried between processes, and how saved tensors are rebuilt."""
from __future__ import annotations

import sys
from collections import OrderedDict

from . import _C


class KeyErrorMessage(str):
    """A message that KeyError prints as it is, line breaks included."""

    def __repr__(self):
        return self


class ExceptionWrapper:
    """An exception with its traceback as text, to be raised again elsewhere."""

    def __init__(self, exc_info=None, where="in background"):
        import traceback

        caught = sys.exc_info() if exc_info is None else exc_info
        self.where, self.exc_type = where, caught[0]
        self.exc_msg = "".join(traceback.format_exception(*caught))

    def reraise(self):
        """Raise an exception of the original type with the original traceback in its message."""
        kind = self.exc_type
        text = f"Caught {kind.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if getattr(kind, "message", None) and kind is not KeyError:
            raise kind(message=text)
        try:
            again = kind(KeyErrorMessage(text) if kind is KeyError else text)
        except Exception:  # a type that takes other arguments
            raise RuntimeError(text) from None
        raise again


# How tensors are rebuilt from a file. The names and arguments are part of the file format.

def _untyped(storage):
    return getattr(storage, "_untyped_storage", storage)


def _storage_dtype(storage):
    return getattr(storage, "dtype", None) or _C.uint8


def _rebuild_tensor(storage, storage_offset, size, stride):
    """A view of a storage."""
    raw = _untyped(storage)
    return _C.empty(0, dtype=_storage_dtype(storage), device=raw.device).set_(raw, storage_offset, size, stride)


def _with_metadata(tensor, metadata):
    if metadata and metadata.get("conj"):
        tensor = _C._conj(tensor)
    if metadata and metadata.get("neg"):
        tensor = _C._neg_view(tensor)
    return tensor


def get_tensor_metadata(tensor):
    """Flags that a view carries beside its data."""
    out = {}
    if tensor.is_complex() and tensor.is_conj():
        out["conj"] = True
    if tensor.is_neg():
        out["neg"] = True
    return out


def set_tensor_metadata(tensor, metadata):
    """Give a tensor the flags of `get_tensor_metadata`."""
    return _with_metadata(tensor, metadata)


def _finish(tensor, requires_grad, backward_hooks):
    tensor.requires_grad = requires_grad
    if backward_hooks:
        tensor._backward_hooks = backward_hooks
    return tensor


def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None):
    tensor = _with_metadata(_rebuild_tensor(storage, storage_offset, size, stride), metadata)
    return _finish(tensor, requires_grad, backward_hooks)


def _rebuild_tensor_v3(storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None):
    tensor = _C.empty((0,), dtype=dtype, device=_untyped(storage).device)
    tensor.set_(_untyped(storage), storage_offset, size, stride)
    return _finish(_with_metadata(tensor, metadata), requires_grad, backward_hooks)


def _rebuild_parameter(data, requires_grad, backward_hooks):
    from .nn import Parameter

    parameter = Parameter(data, requires_grad)
    if backward_hooks:
        parameter._backward_hooks = backward_hooks
    return parameter


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    return _set_obj_state(_rebuild_parameter(data, requires_grad, backward_hooks), state)


def _set_obj_state(obj, state):
    """Give an object attributes back: a dict, or a pair of a dict and slots."""
    if isinstance(state, tuple):
        if not len(state) == 2:
            raise RuntimeError(f"Invalid serialized state: {state}")
        attributes, slots = state
    else:
        attributes, slots = state, None
    for name, value in (attributes or {}).items():
        setattr(obj, name, value)
    for name, value in (slots or {}).items():
        setattr(obj, name, value)
    return obj


# Sparse tensors are rebuilt before the data of their parts is there (in the older format); checks wait for it.
_sparse_tensors_to_validate: list = []


def _rebuild_sparse_tensor(layout, data):
    from .sparse import sparse_compressed_tensor, sparse_coo_tensor

    if layout == _C.sparse_coo:
        indices, values, size, *coalesced = data
        result = sparse_coo_tensor(indices, values, size, check_invariants=False)
        if coalesced and coalesced[0]:
            result = result._coalesced_(True)
    elif layout == _C.sparse_csr:
        compressed, plain, values, size = data
        result = sparse_compressed_tensor(compressed, plain, values, size, layout=layout, check_invariants=False)
    else:
        raise NotImplementedError(f"rebuilding sparse tensor for layout {layout}")
    _sparse_tensors_to_validate.append((layout, data))
    return result


def _validate_loaded_sparse_tensors():
    """Check the indices of all sparse tensors rebuilt since the last call."""
    from .sparse import sparse_compressed_tensor, sparse_coo_tensor

    waiting = _sparse_tensors_to_validate[:]
    _sparse_tensors_to_validate.clear()
    for layout, data in waiting:
        if data[1].is_meta or data[0].is_meta:
            continue
        if layout == _C.sparse_coo:
            sparse_coo_tensor(*data[:3], check_invariants=True)
        else:
            sparse_compressed_tensor(*data, layout=layout, check_invariants=True)


def _rebuild_nested_tensor(buffer, sizes, strides, storage_offsets):
    from .nested._internal.strided import _nested_view_from_buffer

    return _nested_view_from_buffer(buffer, sizes, strides, storage_offsets)


def _rebuild_device_tensor_from_numpy(data, dtype, device, requires_grad):
    return _rebuild_device_tensor_from_cpu_tensor(_C.from_numpy(data), dtype, device, requires_grad)


_rebuild_xla_tensor = _rebuild_device_tensor_from_numpy


def _rebuild_device_tensor_from_cpu_tensor(data, dtype, device, requires_grad):
    return data.to(dtype=dtype, device=device).requires_grad_(requires_grad)


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    return _C.empty_strided(size, stride, dtype=dtype, device="meta", requires_grad=requires_grad)


def _rebuild_wrapper_subclass(cls, dtype, size, stride, storage_offset, layout, device, requires_grad):
    tensor = _C.empty_strided(size, stride, dtype=dtype, layout=layout, device=device)
    return tensor.as_subclass(cls).requires_grad_(requires_grad)


def _import_dotted_name(name):
    """The object at a dotted name whose first part is a module."""
    first, *rest = name.split(".")
    obj = __import__(first)
    for part in rest:
        obj = getattr(obj, part)
    return obj


def _element_size(dtype):
    """Bytes per element."""
    if dtype.is_complex:
        return _C.finfo(dtype).bits >> 2
    if dtype.is_floating_point:
        return _C.finfo(dtype).bits >> 3
    return 1 if dtype == _C.bool else _C.iinfo(dtype).bits >> 3


def _flatten_dense_tensors(tensors):
    """All elements in one vector."""
    return _C.cat([t.contiguous().view(-1) for t in tensors]) if len(tensors) != 1 else tensors[0].contiguous().view(-1)


def _unflatten_dense_tensors(flat, tensors):
    """Views of a vector in the shapes of `tensors`."""
    pieces = flat.split([t.numel() for t in tensors])
    return tuple(piece.view(t.shape) for piece, t in zip(pieces, tensors))


def _take_tensors(tensors, size_limit):
    """Groups of tensors of one type, each at most about `size_limit` bytes."""
    groups: OrderedDict = OrderedDict()
    for tensor in tensors:
        group, size = groups.get(tensor.type(), ([], 0))
        n = tensor.numel() * tensor.element_size()
        if size + n > size_limit and size > 0:
            yield group
            group, size = [], 0
        groups[tensor.type()] = (group + [tensor], size + n)
    for group, _ in groups.values():
        if group:
            yield group


def _get_available_device_type():
    """The kind of an accelerator that is there: none."""
    return None


def _get_device_module(device_type):
    """`flambeau.cuda` for "cuda", and so on."""
    import flambeau

    module = getattr(flambeau, device_type, None)
    if module is None:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as 'torch.{device_type}'."
        )
    return module


def _get_device_index(device, optional=False, allow_cpu=False):
    """The index of a device given as a number, a name or a device."""
    if isinstance(device, str):
        device = _C.device(device)
    if isinstance(device, int):
        return device
    if isinstance(device, _C.device):
        if not allow_cpu and device.type == "cpu":
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        if device.type == "cpu":
            return -1
        if device.index is not None:
            return device.index
    if optional:
        return 0
    raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")


class classproperty:
    """A property of the class itself."""

    def __init__(self, func):
        self.func = func

    def __get__(self, instance, owner):
        return self.func(owner)


def is_compiling():
    """Whether a compiler is tracing: never."""
    return False
