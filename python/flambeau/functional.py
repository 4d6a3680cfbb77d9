"""Functions over operators that take their arguments in more than one form."""
from . import _C
from ._names import overridable
from .return_types import histogramdd as _HistogramDD

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_shapes", "broadcast_tensors", "cartesian_prod", "block_diag",
    "cdist", "chain_matmul", "einsum", "istft", "lu", "norm", "meshgrid", "pca_lowrank", "split", "stft", "svd_lowrank",
    "tensordot", "unique", "unique_consecutive", "unravel_index",
]  # fmt: skip

Tensor = _C.Tensor


def _one_list(tensors):
    """The tensors of `f(a, b)` as well as of `f([a, b])`."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return list(tensors[0])
    return list(tensors)


# ---- broadcasting ------------------------------------------------------------------------------------


@overridable
def broadcast_tensors(*tensors):
    """Views of the tensors, all expanded to their common size."""
    tensors = _one_list(tensors)
    if not tensors:
        return ()
    sizes = tensors[0].shape
    for tensor in tensors[1:]:
        sizes = _merged(sizes, tensor.shape)
    return tuple(t if t.shape == sizes else t.expand(sizes) for t in tensors)


def _merged(a, b):
    """The size that two sizes broadcast to."""
    rank = max(len(a), len(b))
    result = []
    for place, (m, n) in enumerate(zip((1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b))):
        if m != n and m != 1 and n != 1:
            raise RuntimeError(f"The size of tensor a ({m}) must match the size of tensor b ({n}) at non-singleton "
                               f"dimension {place}")
        result.append(n if m == 1 else m)
    return tuple(result)


def broadcast_shapes(*shapes):
    """The size that tensors of the given sizes broadcast to."""
    from ._size import Size

    shapes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    result = [1] * max(map(len, shapes), default=0)
    for number, shape in enumerate(shapes):
        if any(n < 0 for n in shape):
            raise ValueError("Attempting to broadcast a dimension with negative length!")
        for place in range(-1, -1 - len(shape), -1):
            n = shape[place]
            if n == 1 or n == result[place]:
                continue
            if result[place] != 1:
                seen = result[-max(map(len, shapes[:number])):]
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {n} at {place}! Mismatching argument at index {number} "
                    f"had {shape}; but expected shape should be broadcastable to {seen}")
            result[place] = n
    return Size(result)


# ---- assembling tensors --------------------------------------------------------------------------------


def _each(tensors, change):
    """`change` of a tensor, or a tuple of it for several."""
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return change(tensors[0])
    return tuple(map(change, _one_list(tensors)))


@overridable
def atleast_1d(*tensors):
    """Views with one dimension or more: (,) becomes (1,)."""
    return _each(tensors, lambda t: t.reshape(1) if t.dim() == 0 else t)


@overridable
def atleast_2d(*tensors):
    """Views with two dimensions or more: (n,) becomes (1, n)."""
    return _each(tensors, lambda t: t.reshape(1, 1) if t.dim() == 0 else t.unsqueeze(0) if t.dim() == 1 else t)


def _three_dimensions(t):
    if t.dim() == 0:
        return t.reshape(1, 1, 1)
    return t.unsqueeze(0).unsqueeze(-1) if t.dim() == 1 else t.unsqueeze(-1) if t.dim() == 2 else t


@overridable
def atleast_3d(*tensors):
    """Views with three dimensions or more: (n,) becomes (1, n, 1), and (m, n) becomes (m, n, 1)."""
    return _each(tensors, _three_dimensions)


@overridable
def meshgrid(*tensors, indexing=None):
    """Coordinates of a grid: vectors of n, m, ... elements expanded to (n, m, ...); (m, n, ...) with 'xy'."""
    tensors = _one_list(tensors)
    if indexing is None:
        import warnings

        warnings.warn("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.",
                      stacklevel=3)
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for t in tensors:
        if t.dim() > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t}")
        if t.dtype != tensors[0].dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
        if t.device != tensors[0].device:
            raise RuntimeError("meshgrid expects all tensors to have the same device")
    swapped = indexing == "xy" and len(tensors) > 1
    if swapped:
        tensors[:2] = tensors[1::-1]
    sizes = [t.numel() for t in tensors]
    rank = len(sizes)
    grids = [t.reshape([-1 if d == k else 1 for d in range(rank)]).expand(sizes) for k, t in enumerate(tensors)]
    if swapped:
        grids[:2] = grids[1::-1]
    return tuple(grids)


@overridable
def cartesian_prod(*tensors):
    """All combinations of one element of each of k vectors: (n * m * ..., k); for one vector, itself."""
    tensors = _one_list(tensors)
    for t in tensors:
        if t.dim() != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(t.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return _C.stack([grid.flatten() for grid in meshgrid(*tensors, indexing="ij")], dim=1)


@overridable
def block_diag(*tensors):
    """A matrix with the given ones (or rows, or numbers) along its diagonal."""
    tensors = _one_list(tensors)
    if not tensors:
        return _C.empty(1, 0)
    for place, t in enumerate(tensors):
        if t.dim() > 2:
            raise RuntimeError("torch.block_diag: Input tensors must have 2 or fewer dimensions. "
                               f"Input {place} has {t.dim()} dimensions")
    return _C.block_diag(tensors)


@overridable
def split(tensor, split_size_or_sections, dim=0):
    """Views of `tensor` along `dim`: of one size each (the last may be smaller), or of the given sizes."""
    return tensor.split(split_size_or_sections, dim)


@overridable
def unravel_index(indices, shape):
    """Coordinates of flat indices in a tensor of size `shape`: one tensor for each dimension."""
    if indices.is_complex() or indices.is_floating_point() or indices.dtype is _C.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    sizes = _sizes_of(shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {tuple(sizes)}")
    if not sizes:
        return ()
    places, rest = [], indices.to(_C.int64)
    for n in reversed(sizes):
        places.append(rest.remainder(n))
        rest = rest.floor_divide(n) if len(places) < len(sizes) else rest
    return _C.stack(places[::-1], -1).unbind(-1)


def _sizes_of(shape):
    if isinstance(shape, Tensor):
        shape = shape.tolist()
    if isinstance(shape, int):
        return [shape]
    if not all(isinstance(n, int) for n in shape):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape).__name__}")
    return list(shape)


# ---- products ----------------------------------------------------------------------------------------


def _letters(subscripts):
    """A list such as [0, Ellipsis, 27] as an equation writes it: 'A...b'."""
    text = []
    for s in subscripts:
        if s is Ellipsis:
            text.append("...")
        elif 0 <= s < 52:
            text.append(chr(ord("A") + s) if s < 26 else chr(ord("a") + s - 26))
        else:
            raise ValueError("einsum(): subscript in subscript list is not within the valid range [0, 52)")
    return "".join(text)


def _equation_of(arguments):
    """(equation, operands) of `einsum(a, [0, 1], b, [1, 2], [0, 2])`."""
    operands = arguments[: len(arguments) // 2 * 2 : 2]
    equation = ",".join(_letters(s) for s in arguments[1::2])
    if len(arguments) % 2:
        equation += "->" + _letters(arguments[-1])
    return equation, operands


@overridable
def einsum(*args):
    """Sums of products in Einstein's notation: `einsum('ij,jk->ik', a, b)`."""
    if len(args) < 2:
        raise ValueError("einsum(): must specify the equation string and at least one operand, "
                         "or at least one operand and its subscripts list")
    equation, operands = _equation_of(args) if isinstance(args[0], Tensor) else (args[0], args[1:])
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    return _C.einsum(equation, list(operands))


@overridable
def tensordot(a, b, dims=2, out=None):
    """Sums of products over some dimensions of each: the last and first `dims`, or two lists of them."""
    if not isinstance(dims, (tuple, list, Tensor, int, dict)):
        raise RuntimeError("tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] "
                           f"containing two lists, but got dims={dims}")
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims.numel() > 1 else int(dims)
        if isinstance(dims, list) and len(dims) != 2:
            raise RuntimeError(f"tensordot expects dims to contain two lists, but got dims={dims}")
    if isinstance(dims, (tuple, list)):
        first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
    else:
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        first, second = list(range(-dims, 0)), list(range(dims))
    if out is not None:
        return _C.tensordot(a, b, first, second, out=out)
    return _C.tensordot(a, b, first, second)


@overridable
def chain_matmul(*matrices, out=None):
    """Deprecated: the product of two matrices or more, in the cheapest order; see `linalg.multi_dot`."""
    import warnings

    warnings.warn("torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use "
                  "torch.linalg.multi_dot instead, which accepts a list of two or more tensors rather than multiple "
                  "parameters.", stacklevel=3)
    return _C.linalg_multi_dot(matrices) if out is None else _C.linalg_multi_dot(matrices, out=out)


_CDIST_MODES = {
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": 1,
    "donot_use_mm_for_euclid_dist": 2,
}


@overridable
def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """Distances (..., m, n) between the rows of (..., m, k) and of (..., n, k) by the p-norm."""
    if compute_mode not in _CDIST_MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return _C.cdist(x1, x2, p, _CDIST_MODES[compute_mode])


# ---- norms ---------------------------------------------------------------------------------------------


@overridable
def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """A norm of all elements, or of vectors or matrices along `dim`; see `linalg.norm`."""
    dims = [dim] if isinstance(dim, int) else dim
    options = {"dtype": dtype} if out is None else {"dtype": dtype, "out": out}
    if isinstance(p, str) and not (p == "fro" and (dims is None or len(dims) < 2)):
        where = (list(range(input.dim())) if input.dim() != 2 else [-2, -1]) if dims is None else list(dims)
        if p not in ("fro", "nuc"):
            raise RuntimeError(f"linalg.matrix_norm: Order {p} not supported.")
        if len(where) != 2:
            raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, where))}")
        if p == "nuc":
            return _C.linalg_matrix_norm(input, p, where, keepdim, **options)
    order = 2.0 if p is None or isinstance(p, str) else p
    return _C.linalg_vector_norm(input, order, dims, keepdim, **options)


# ---- distinct elements ---------------------------------------------------------------------------------


def _chosen(results, inverse, counts):
    """The values, and what else was asked for."""
    values, places, numbers = results
    more = (places,) * inverse + (numbers,) * counts
    return (values, *more) if more else values


@overridable
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """Distinct elements, or slices along `dim`; also where each element went, and how often each occurs."""
    inverse, counts = bool(return_inverse), bool(return_counts)
    if dim is None:
        return _chosen(_C._unique2(input, sorted, inverse, counts), inverse, counts)
    return _chosen(_C.unique_dim(input, dim, sorted, inverse, counts), inverse, counts)


@overridable
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The elements (or slices along `dim`) without those equal to the one before."""
    inverse, counts = bool(return_inverse), bool(return_counts)
    return _chosen(_C.unique_consecutive(input, inverse, counts, dim), inverse, counts)


# ---- statistics ----------------------------------------------------------------------------------------


@overridable
def histogramdd(input, bins, *, range=None, weight=None, density=False, out=None):
    """Counts (or weights) of points (..., n) in boxes: `bins` are how many along each dimension, or their edges."""
    n = input.shape[-1] if input.dim() else 0
    bins = [bins] * n if isinstance(bins, int) else list(bins)
    options = {"weight": weight, "density": density}
    if bins and isinstance(bins[0], Tensor):
        hist, edges = _C._histogramdd_from_bin_tensors(input, bins, **options), tuple(bins)
    else:
        hist = _C._histogramdd_from_bin_cts(input, bins, range=range, **options)
        edges = _C._histogramdd_bin_edges(input, bins, range=range, **options)
    if out is not None:
        for place, value in zip((out[0], *out[1]), (hist, *edges)):
            place.resize_(value.shape).copy_(value)
        return out
    return _HistogramDD((hist, tuple(edges)))


@overridable
def _segment_reduce(data, reduce, **options):
    """Segments along an axis reduced to one element each; see `segment_reduce`."""
    return _C.segment_reduce(data, reduce, **options)


# ---- Fourier transforms over time --------------------------------------------------------------------------


@overridable
def stft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False,
         onesided=None, return_complex=None, align_to_window=None):  # fmt: skip
    """Spectra of windows of a signal (..., time): (..., frequency, window)."""
    return _C.stft(input, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex,
                   align_to_window)


@overridable
def istft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None,
          length=None, return_complex=False):  # fmt: skip
    """The signal (..., time) that has the given spectra, by least squares."""
    return _C.istft(input, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex)


def _shape_as_tensor(input):
    """The sizes of `input` as a tensor of int64."""
    return _C.tensor(list(input.shape), dtype=_C.int64)


# ---- factorizations --------------------------------------------------------------------------------------


@overridable
def lu(A, pivot=True, get_infos=False, out=None):
    """The factors of `A` in one matrix, and pivots; deprecated, see `linalg.lu_factor_ex`."""
    result = _C._lu_with_info(A, pivot=pivot, check_errors=not get_infos)
    if out is None:
        return result if get_infos else (result[0], result[1])
    if not isinstance(out, (tuple, list)):
        raise TypeError(f"argument 'out' must be tuple of Tensors, not {type(out).__name__}")
    wanted = 3 if get_infos else 2
    if len(out) != wanted:
        raise TypeError(f"expected tuple of {wanted} elements but got {len(out)}")
    for place, value in zip(out, result):
        place.resize_as_(value).copy_(value)
    return out


@overridable
def svd_lowrank(A, q=6, niter=2, M=None):
    """The leading q singular values and vectors of `A` (less M), from a random sketch refined `niter` times."""
    m, n = A.shape[-2:]
    if M is not None:
        A = A - M.expand(A.shape)
    flipped = m < n
    if flipped:
        A = A.mH
    basis = _range_of(A, q, niter)
    left, values, right = _C.linalg_svd(basis.mH @ A, full_matrices=False)
    left, right = basis @ left, right.mH
    return (right, values, left) if flipped else (left, values, right)


def _range_of(A, q, niter):
    """Orthonormal columns (..., m, q) that nearly span the columns of (..., m, n)."""
    kind = A.dtype if A.is_complex() or A.is_floating_point() else _C.get_default_dtype()
    sketch = _C.linalg_qr(A @ _C.randn(A.shape[-1], q, dtype=kind, device=A.device))[0]
    for _ in range(niter):
        sketch = _C.linalg_qr(A.mH @ sketch)[0]
        sketch = _C.linalg_qr(A @ sketch)[0]
    return sketch


@overridable
def pca_lowrank(A, q=None, center=True, niter=2):
    """Principal components: `svd_lowrank` of (..., m, n) whose columns have mean 0 (with `center`)."""
    *_, m, n = A.shape
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(dim=-2, keepdim=True) if center else A, q, niter=niter)


@overridable
def lobpcg(A, k=None, B=None, X=None, n=None, iK=None, niter=None, tol=None, largest=None, method=None, tracker=None,
           ortho_iparams=None, ortho_fparams=None, ortho_bparams=None):  # fmt: skip
    """Extreme eigenvalues and eigenvectors of a symmetric matrix, by conjugate gradients on blocks of vectors."""
    from ._lobpcg import lobpcg

    return lobpcg(A, k, B, X, n, iK, niter, tol, largest, method, tracker)
