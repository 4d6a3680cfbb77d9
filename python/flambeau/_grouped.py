"""Matrix products by groups of rows or columns, as mixtures of experts compute them."""
from . import _C
from ._ops import define

_SCHEMA = "aten::_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor"
_DTYPES = (_C.float32, _C.bfloat16, _C.float16)
_NAMES = {
    _C.float64: "Double", _C.int64: "Long", _C.int32: "Int", _C.int16: "Short", _C.int8: "Char", _C.uint8: "Byte", _C.bool: "Bool",
    _C.complex64: "ComplexFloat", _C.complex128: "ComplexDouble",
}  # fmt: skip


def _check_matrix(matrix, label):
    if matrix.dtype not in _DTYPES:
        name = _NAMES.get(matrix.dtype, matrix.dtype)
        raise RuntimeError(f"Expected {label} to be Float32, BFloat16 or Float16 matrix, got {name}")


def _check_layout(matrix):
    """Rows or columns must be contiguous and start at multiples of 16 bytes."""
    rows, columns = matrix.shape[-2:]
    step, unit = matrix.stride()[-2:]
    if unit == 1 and step >= max(1, columns):
        distance = step
    elif step == 1 and unit >= max(1, rows):
        distance = unit
    else:
        raise RuntimeError(f"Invalid strides/sizes, got {list(matrix.stride())} for strides and {list(matrix.shape)} for sizes")
    if distance * matrix.element_size() % 16:
        raise RuntimeError("strides should be multiple of 16 bytes")


def _check(a, b, offs, bias, out_dtype):
    _check_matrix(a, "mat_a")
    _check_matrix(b, "mat_b")
    if a.dim() not in (2, 3):
        raise RuntimeError("mat_a has to be 2 or 3d")
    if b.dim() not in (2, 3):
        raise RuntimeError("mat_b has to be 2 or 3d")
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    _check_layout(a)
    _check_layout(b)
    if (offs is not None) != (a.dim() == 2 or b.dim() == 2):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if offs is not None:
        if offs.dim() != 1:
            raise RuntimeError("offs has to be 1D")
        if offs.dtype != _C.int32:
            raise RuntimeError("Offsets have to be int32")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype is not None and out_dtype != a.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    groups = [len(m) for m in (offs, a if a.dim() == 3 else None, b if b.dim() == 3 else None) if m is not None]
    if groups[0] != groups[-1]:
        raise RuntimeError("batched dimension has to match" if offs is None else "matrix batch sizes have to match")


def _spans(offs, length):
    """The groups' (start, length), clipped to a dim of `length`."""
    start, spans = 0, []
    for end in offs.tolist():
        if end < start:
            raise RuntimeError("offsets of groups must not decrease")
        spans.append((min(start, length), min(end, length) - min(start, length)))
        start = end
    return spans


def _joined(parts, dim, length):
    """The groups' results side by side, with zeros behind the last group."""
    rest = length - sum(part.shape[dim] for part in parts)
    if rest:
        shape = list(parts[0].shape)
        shape[dim] = rest
        parts.append(parts[0].new_zeros(shape))
    return _C.cat(parts, dim)


def _grouped_mm(self, mat2, offs=None, bias=None, out_dtype=None):
    """(M, K) by (G, K, N) with groups of rows: (M, N); (G, M, K) by (K, N) with groups of columns: (M, N);
    (M, K) by (K, N) with groups of K: (G, M, N); (G, M, K) by (G, K, N): (G, M, N). The groups end at `offs`."""
    _check(self, mat2, offs, bias, out_dtype)
    rows, columns = self.shape[-2], mat2.shape[-1]
    if offs is None:
        return _C.bmm(self, mat2)
    if self.is_meta or mat2.is_meta:
        shape = (len(offs), rows, columns) if self.dim() == mat2.dim() == 2 else (rows, columns)
        return self.new_empty(shape)
    if self.dim() == 3:
        spans = _spans(offs, columns)
        parts = [_C.mm(one, mat2.narrow(1, start, n)) for one, (start, n) in zip(self.unbind(), spans, strict=True)]
        return _joined(parts, 1, columns)
    if mat2.dim() == 3:
        spans = _spans(offs, rows)
        parts = [_C.mm(self.narrow(0, start, n), one) for one, (start, n) in zip(mat2.unbind(), spans, strict=True)]
        return _joined(parts, 0, rows)
    spans = _spans(offs, self.shape[1])
    return _C.stack([_C.mm(self.narrow(1, start, n), mat2.narrow(0, start, n)) for start, n in spans])


define("aten::_grouped_mm", _SCHEMA, _grouped_mm)
