"""Operators of PyTorch's that ask or check something of tensors, by their names in `ops.aten`: methods of Tensor elsewhere."""
from . import _C
from ._ops import define

__all__ = []


def _of(method):
    """A method of Tensor as a function."""
    return lambda self, *args: getattr(self, method)(*args)


def _listed(method):
    """One entry of a tuple, or all as a list."""

    def get(self, dim=None):
        return list(getattr(self, method)()) if dim is None else getattr(self, method)(dim)

    return get


def _is_contiguous(self, memory_format=_C.contiguous_format):
    return self.is_contiguous(memory_format=memory_format)


def _copy(self, src, non_blocking=False):
    """What `self` would be after `copy_`; it stays as it is."""
    return _C.empty_like(self).copy_(src)


def _assert_async(self, assert_msg=None):
    """RuntimeError if the one element is 0, or if there is not one."""
    if self.numel() != 1:
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous" if self.numel() == 0 else
                           "Boolean value of Tensor with more than one value is ambiguous")
    if not self.item():
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


def _truth(name, reduce):
    def test(self):
        if self.dtype != _C.bool:
            raise RuntimeError(f"{name}: expected a tensor of dtype bool, but got {self.dtype}")
        return reduce(self)

    return test


def _assert_tensor_metadata(a, size=None, stride=None, dtype=None, *, device=None, layout=None):
    """RuntimeError where a tensor is not as it is said to be."""
    for what, wanted, found in (("sizes", size, list(a.shape)), ("strides", stride, list(a.stride()))):
        if wanted is not None and list(wanted) != found:
            raise RuntimeError(f"Tensor {what} mismatch! Expected: {list(wanted)}, Got: {found}")
    for what, wanted, found in (("dtype", dtype, a.dtype), ("device", device, a.device), ("layout", layout, a.layout)):
        if wanted is not None and wanted != found:
            raise RuntimeError(f"Tensor {what} mismatch! Expected: {wanted}, Got: {found}")


for _schema, _function in {
    "size(Tensor self) -> int[]": _listed("size"), "size.int(Tensor self, int dim) -> int": _of("size"),
    "sym_size(Tensor self) -> SymInt[]": _listed("size"), "sym_size.int(Tensor self, int dim) -> SymInt": _of("size"),
    "stride(Tensor self) -> int[]": _listed("stride"), "stride.int(Tensor self, int dim) -> int": _of("stride"),
    "sym_stride(Tensor self) -> SymInt[]": _listed("stride"), "sym_stride.int(Tensor self, int dim) -> SymInt": _of("stride"),
    "numel(Tensor self) -> int": _of("numel"), "sym_numel(Tensor self) -> SymInt": _of("numel"),
    "sym_storage_offset(Tensor self) -> SymInt": _of("storage_offset"), "dim(Tensor self) -> int": _of("dim"),
    "is_contiguous(Tensor self) -> bool": _is_contiguous,
    "is_contiguous.memory_format(Tensor self, MemoryFormat memory_format) -> bool": _is_contiguous,
    "is_same_size(Tensor self, Tensor other) -> bool": lambda self, other: self.shape == other.shape,
    "is_floating_point(Tensor self) -> bool": _of("is_floating_point"), "is_complex(Tensor self) -> bool": _of("is_complex"),
    "detach_(Tensor(a!) self) -> Tensor(a!)": _of("detach_"), "lift_fresh(Tensor(a) self) -> Tensor(a)": lambda self: self,
    "copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor": _copy,
    "_local_scalar_dense(Tensor self) -> Scalar": _of("item"),
    "_assert_async(Tensor self) -> ()": _assert_async, "_assert_async.msg(Tensor self, str assert_msg) -> ()": _assert_async,
    "_is_all_true(Tensor self) -> Tensor": _truth("_is_all_true", _C.all),
    "_is_any_true(Tensor self) -> Tensor": _truth("_is_any_true", _C.any),
    "_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, "
    "Device? device=None, Layout? layout=None) -> ()": _assert_tensor_metadata,
}.items():
    _name = _schema[: _schema.index("(")]
    define(f"aten::{_name}", f"aten::{_schema}", _function)
