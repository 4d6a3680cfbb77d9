"""Sparse tensors: made of coordinates or compressed rows, and the functions of `torch.sparse`."""
from .. import _C

__all__ = ["addmm", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax", "spdiags",
           "sum"]  # fmt: skip

_checking = False


class check_sparse_tensor_invariants:
    """Whether the indices of new sparse tensors are checked: a context, a decorator, or `enable()` and `disable()`."""

    def __init__(self, enable=True):
        self._wanted = enable
        self._before = None

    @staticmethod
    def is_enabled():
        """Whether they are checked unless a call says otherwise."""
        return _checking

    @staticmethod
    def enable():
        """Check them from now on."""
        global _checking
        _checking = True

    @staticmethod
    def disable():
        """Check them no more."""
        global _checking
        _checking = False

    def __enter__(self):
        global _checking
        if self._before is not None:
            raise RuntimeError("This context manager instance is already activated. Use a different context manager "
                               "instance for context nesting.")  # fmt: skip
        self._before, _checking = _checking, self._wanted

    def __exit__(self, *exception):
        global _checking
        _checking, self._before = self._before, None

    def __call__(self, function):
        from functools import wraps

        @wraps(function)
        def checked(*args, **kwargs):
            with type(self)(self._wanted):
                return function(*args, **kwargs)

        return checked


def _part(data, dtype=None, device=None):
    """Indices or values, given as a tensor or as what makes one."""
    return _C.as_tensor(data, dtype=dtype, device=device)


def _index_part(data, device):
    """Indices, which lists make as 64-bit integers."""
    made = _part(data, device=device)
    return made if made.dtype in (_C.int32, _C.int64) else made.to(_C.int64)


def _overridden(function, parts, kwargs):
    """The answer of a class or mode with `__torch_function__`, or NotImplemented."""
    if not _C.has_torch_function(parts):
        return NotImplemented
    relevant = [p for p in parts if hasattr(type(p), "__torch_function__")]
    return _C.handle_torch_function(function, relevant, *parts, **kwargs)


def _finished(tensor, requires_grad):
    if requires_grad:
        return tensor.detach().requires_grad_()
    return tensor


def sparse_coo_tensor(indices, values=None, size=None, *, dtype=None, device=None, pin_memory=False, requires_grad=False,
                      check_invariants=None, is_coalesced=None, layout=None):  # fmt: skip
    """A tensor with `values` (entries, dense sizes...) at coordinates `indices` (sparse dims, entries); zeros of a size."""
    if values is None:
        size = indices if size is None else size
        made = _C.sparse_coo_tensor(tuple(size), dtype=dtype, device=device)
        return _finished(made, requires_grad)
    if size is not None:
        size = tuple(size)
    parts = (indices, values) if size is None else (indices, values, size)
    options = dict(dtype=dtype, device=device, requires_grad=requires_grad, check_invariants=check_invariants,
                   is_coalesced=is_coalesced)  # fmt: skip
    answer = _overridden(sparse_coo_tensor, parts, {k: v for k, v in options.items() if v})
    if answer is not NotImplemented:
        return answer
    values = _part(values, dtype, device)
    indices = _part(indices, device=values.device).to(_C.int64)
    if size is None:
        made = _C.sparse_coo_tensor(indices, values, is_coalesced=is_coalesced)
    else:
        if _checking if check_invariants is None else check_invariants:
            _C._validate_sparse_coo_tensor_args(indices, values, size, is_coalesced)
        made = _C.sparse_coo_tensor(indices, values, size, is_coalesced=is_coalesced)
    return _finished(made, requires_grad)


def _compressed(function, compressed, plain, values, size, layout, dtype, device, requires_grad, check_invariants):
    if str(layout) != "torch.sparse_csr":
        raise NotImplementedError(f"a tensor of layout {layout} cannot be made: there are torch.sparse_coo and torch.sparse_csr")
    parts = (compressed, plain, values)
    options = dict(size=size, dtype=dtype, device=device, requires_grad=requires_grad, check_invariants=check_invariants)
    answer = _overridden(function, parts, {k: v for k, v in options.items() if v is not None})
    if answer is not NotImplemented:
        return answer
    values = _part(values, dtype, device)
    compressed, plain = _index_part(compressed, values.device), _index_part(plain, values.device)
    checks = _checking if check_invariants is None else check_invariants
    if size is None:
        made = _C.sparse_csr_tensor(compressed, plain, values)
        size = made.shape
    else:
        made = None
    if checks:
        _C._validate_sparse_csr_tensor_args(compressed, plain, values, tuple(size))
    if made is None:
        made = _C.sparse_csr_tensor(compressed, plain, values, tuple(size))
    return _finished(made, requires_grad)


def sparse_csr_tensor(crow_indices, col_indices, values, size=None, *, dtype=None, device=None, pin_memory=False,
                      requires_grad=False, check_invariants=None, layout=None):  # fmt: skip
    """A matrix in compressed rows: where each row begins (rows + 1), and the column and value of each entry."""
    return _compressed(sparse_csr_tensor, crow_indices, col_indices, values, size, _C.sparse_csr if layout is None else layout,
                       dtype, device, requires_grad, check_invariants)  # fmt: skip


def sparse_compressed_tensor(compressed_indices, plain_indices, values, size=None, *, dtype=None, layout=None, device=None,
                             pin_memory=False, requires_grad=False, check_invariants=None):  # fmt: skip
    """A matrix in a compressed layout, of which compressed rows are there."""
    if layout is None:
        raise RuntimeError("sparse_compressed_tensor: expected sparse compressed tensor layout but got None")
    return _compressed(sparse_compressed_tensor, compressed_indices, plain_indices, values, size, layout, dtype, device,
                       requires_grad, check_invariants)  # fmt: skip


addmm = _C._sparse_addmm
mm = _C._sparse_mm
sampled_addmm = _C.sparse_sampled_addmm


def sum(input, dim=None, dtype=None):
    """The sum of all entries, or along dims: sparse if a sparse dim is left."""
    dims = () if dim is None else (dim,)
    return _C._sparse_sum(input, *dims) if dtype is None else _C._sparse_sum(input, *dims, dtype=dtype)


def softmax(input, dim, *, dtype=None):
    """Softmax along a dim among the entries: what is not there counts as minus infinity."""
    return _C._sparse_softmax(input, dim, dtype=dtype)


def log_softmax(input, dim, *, dtype=None):
    """The logarithm of the softmax along a dim among the entries."""
    return _C._sparse_log_softmax(input, dim, dtype=dtype)


def spdiags(diagonals, offsets, shape, layout=None):
    """A sparse matrix with `diagonals` (n, length) at `offsets`: what lies in its column j is the j-th value of a diagonal."""
    diagonals, offsets = _C.atleast_2d(diagonals), _C.atleast_1d(offsets)
    layout = _C.sparse_coo if layout is None else layout
    if diagonals.dim() != 2:
        raise RuntimeError("Diagonals must be vector or matrix")
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if offsets.dim() != 1:
        raise RuntimeError("Offsets must be scalar or vector")
    if len(diagonals) != len(offsets):
        raise RuntimeError(f"Number of diagonals ({len(diagonals)}) does not match the number of offsets ({len(offsets)})")
    if str(layout) not in ("torch.sparse_coo", "torch.sparse_csr", "torch.sparse_csc"):
        named = "".join(part.capitalize() for part in str(layout)[6:].split("_"))
        raise RuntimeError(f"Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {named}")
    if offsets.dtype != _C.int64:
        raise RuntimeError(f"Offset Tensor must have dtype Long but got {offsets.dtype._scalar_type_name}")
    if len(offsets.unique()) != len(offsets):
        raise RuntimeError("Offset tensor contains duplicate values")
    columns = _C.arange(diagonals.shape[1]).expand(diagonals.shape)
    rows = columns - offsets[:, None]
    inside = (rows >= 0) & (rows < shape[0]) & (columns < shape[1])
    made = _C.sparse_coo_tensor(_C.stack((rows[inside], columns[inside])), diagonals[inside], tuple(shape))
    return made if layout == _C.sparse_coo else made.to_sparse(layout=layout)


def _typed_classes():
    """The old classes of sparse tensors, one for each dtype: `FloatTensor(indices, values, size)`, `isinstance(x, LongTensor)`."""
    from .._typed import CLASSES, tensortype

    class sparsetype(tensortype):
        """Makes tensors of coordinates and values, and tells them by their dtype."""

        __module__ = "flambeau.sparse"

        def __call__(cls, *args, **kwargs):
            if not args:
                return sparse_coo_tensor([[]], [], (0,), dtype=cls.dtype, check_invariants=False)
            if isinstance(args[0], _C.Tensor) and len(args) > 1:
                if args[1].dtype != cls.dtype:
                    raise TypeError(f"expected values of dtype {cls.dtype}, but got {args[1].dtype}")
                return sparse_coo_tensor(*args, check_invariants=False)
            sizes = args[0] if isinstance(args[0], (tuple, list)) else args
            return sparse_coo_tensor(_C.zeros((len(sizes), 0), dtype=_C.int64), _C.zeros(0, dtype=cls.dtype), tuple(sizes),
                                     check_invariants=False)

        def __instancecheck__(cls, obj):
            return isinstance(obj, _C.Tensor) and obj.dtype is cls.dtype and obj.device.type == "cpu" and obj.is_sparse

    attributes = {"__module__": "flambeau.sparse", "__slots__": (), "layout": _C.sparse_coo, "is_cuda": False, "is_sparse": True}
    return {name: sparsetype(name, (), {**attributes, "dtype": kind.dtype}) for name, kind in CLASSES.items()}


def __getattr__(name):
    if name.endswith("Tensor") and name != "BoolTensor":  # made when first asked for
        classes = _typed_classes()
        if name in classes:
            globals().update(classes)
            return classes[name]
    raise AttributeError(f"module 'torch.sparse' has no attribute '{name}'")
