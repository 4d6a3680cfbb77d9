"""Tensors over other objects' memory, and other functions that look at what they are given."""
import warnings

from . import _C
from ._names import overridable

__all__ = ["asarray", "from_dlpack", "to_dlpack", "from_file", "vander", "get_device_module", "get_device"]


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=None):
    """A tensor of any data, over the same memory where that is possible; `copy` forbids (True) or demands (False) it.

    Raises ValueError when memory cannot be shared although `copy` is False.
    """
    if _C._len_torch_function_stack():
        options = {"dtype": dtype, "device": device, "copy": copy, "requires_grad": requires_grad}
        return _C.handle_torch_function(asarray, (), obj, **options)
    if isinstance(obj, _C.Tensor) and type(obj) is not _C.Tensor and not hasattr(type(obj), "_stands_for_another"):
        with _C.DisableTorchFunctionSubclass():  # no class is asked about this
            return _placed(obj, dtype, device, copy, requires_grad)
    source = _over_memory(obj, dtype)
    if source is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        return _C.tensor(obj, dtype=dtype, device=device, requires_grad=bool(requires_grad))
    return _placed(source, dtype, device, copy, requires_grad)


def _over_memory(obj, dtype):
    """A tensor over the memory of `obj`, or None if it only is a sequence or a number."""
    if isinstance(obj, _C.Tensor):
        return obj
    cls = type(obj)
    if cls in (int, float, complex, bool, list, tuple, str):
        return None
    if isinstance(obj, _C.UntypedStorage):
        return _C.empty(0, dtype=dtype or _C.int64).set_(obj)
    if hasattr(cls, "__array_interface__"):
        return _C.as_tensor(obj)
    if hasattr(cls, "__dlpack__"):
        return from_dlpack(obj)
    try:
        memoryview(obj).release()
    except TypeError:
        return None
    return _C.frombuffer(obj, dtype=dtype or _C.get_default_dtype())


def _placed(source, dtype, device, copy, requires_grad):
    wrong_dtype = dtype is not None and dtype != source.dtype
    wrong_device = device is not None and _C.device(device) != source.device
    if copy is False:
        if wrong_device:
            raise ValueError(f"can't alias tensor from device '{source.device}' to '{_C.device(device)}'.")
        if wrong_dtype:
            kinds = source.dtype._scalar_type_name, dtype._scalar_type_name
            raise ValueError(f"can't alias tensor with dtype '{kinds[0]}' into dtype '{kinds[1]}'.")
    result = source
    if copy or wrong_dtype or wrong_device:
        result = source.to(device=source.device if device is None else device, dtype=dtype or source.dtype, copy=True)
    if requires_grad is None:
        if result.requires_grad:
            warnings.warn("torch.asarray: unspecified requires_grad now defaults to obj.requires_grad instead of False. Pass "
                          "requires_grad=False explicitly to get the old behavior and silence this warning.", stacklevel=3)
        return result
    if not requires_grad and not result.is_leaf:
        return result.detach()
    return result.requires_grad_(bool(requires_grad))


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor over the memory of an object with `__dlpack__`, or of a capsule."""
    from .utils.dlpack import from_dlpack as read

    return read(ext_tensor, device=device, copy=copy)


def to_dlpack(tensor):
    """A capsule that others can read the tensor's memory from."""
    return _C.to_dlpack(tensor)


def from_file(filename, shared=False, size=0, *, dtype=None, layout=None, device=None, pin_memory=False,
              requires_grad=False):  # fmt: skip
    """A vector of `size` elements over a file; what is written to it reaches the file if it is `shared`."""
    dtype = dtype or _C.get_default_dtype()
    nbytes = size * dtype.itemsize
    result = _C.frombuffer(_mapped(filename, shared, nbytes), dtype=dtype) if nbytes else _C.empty(0, dtype=dtype)
    return result.requires_grad_() if requires_grad else result


def _mapped(filename, shared, nbytes):
    """The first bytes of a file as memory."""
    import mmap
    import os

    try:
        with open(filename, "a+b" if shared else "rb") as file:
            there = file.seek(0, 2)
            if shared and there < nbytes:
                file.truncate(nbytes)
            elif there < nbytes:
                raise RuntimeError(
                    f"file <{filename}> size <{there}> is smaller than the required mapping size <{nbytes}>"
                )
            return mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
    except OSError as error:
        mode = "read-write" if shared else "read-only"
        raise RuntimeError(
            f"unable to open file <{filename}> in {mode} mode: {os.strerror(error.errno)} ({error.errno})"
        ) from error


@overridable
def vander(x, N=None, increasing=False):
    """Powers of a vector's elements as rows (n, N), the highest first unless `increasing`."""
    if x.dim() != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    if count == 0:
        return _C.empty((x.shape[0], 0), dtype=x.dtype, device=x.device)
    columns = [_C.ones_like(x) if x.dtype is not _C.bool else _C.ones_like(x, dtype=_C.int64)]
    for _ in range(count - 1):
        columns.append(columns[-1] * x)
    return _C.stack(columns if increasing else columns[::-1], dim=-1)


def get_device_module(device=None):
    """The module of a kind of device: `flambeau.cpu`, `flambeau.cuda`."""
    from importlib import import_module

    kind = "cpu" if device is None else _C.device(device).type
    try:
        return import_module("flambeau." + kind)
    except ModuleNotFoundError:
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.") from None


@overridable
def get_device(input):
    """The number of the tensor's device: -1 on the CPU."""
    return input.get_device()
