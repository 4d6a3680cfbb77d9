"""Ready-made parametrizations: orthogonal matrices, weight norm, spectral norm."""
from enum import Enum, auto

from ... import _C
from ...autograd.grad_mode import no_grad
from ..functional import normalize
from ..modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module
from . import parametrize

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _is_orthogonal(matrix, eps=None):
    """Whether the columns are orthonormal, as far as rounding lets them be."""
    rows, cols = matrix.shape[-2:]
    if eps is None:
        eps = 10.0 * rows * _C.finfo(matrix.dtype).eps
    return _C.allclose(matrix.mH @ matrix, _C.eye(cols, dtype=matrix.dtype, device=matrix.device), atol=eps)


def _diagonal(matrix):
    return matrix.diagonal(dim1=-2, dim2=-1)


def _make_orthogonal(matrix):
    """The orthogonal factor, with the signs that make it `matrix` itself where that is orthogonal already."""
    reflections, scales = _C.geqrf(matrix)
    factor = _C.linalg.householder_product(reflections, scales)
    factor *= _diagonal(reflections).sgn().unsqueeze(-2)
    return factor


class _OrthMaps(Enum):
    """Ways from a free matrix to an orthogonal one."""

    matrix_exp = auto()
    cayley = auto()
    householder = auto()


def _by_reflections(free):
    """The product of the reflections at the columns below the diagonal, with the diagonal as signs."""
    vectors = free.tril(diagonal=-1)
    factor = _C.linalg.householder_product(vectors, 2.0 / (1.0 + (vectors * vectors).sum(dim=-2)))
    return factor * _diagonal(free).int().unsqueeze(-2)


def _by_rotation(free, cayley):
    """The rotation that belongs to the skew-Hermitian matrix of the lower triangle, cut to its first columns."""
    rows, cols = free.shape[-2:]
    lower = free.tril()
    if cols < rows:
        lower = _C.cat([lower, lower.new_zeros(rows, rows - cols).expand(*lower.shape[:-2], -1, -1)], dim=-1)
    skew = lower - lower.mH
    if cayley:
        one = _C.eye(rows, dtype=skew.dtype, device=skew.device)
        rotation = _C.linalg.solve(_C.add(one, skew, alpha=-0.5), _C.add(one, skew, alpha=0.5))
    else:
        rotation = _C.matrix_exp(skew)
    return rotation if cols == rows else rotation[..., :cols]


class _Orthogonal(Module):
    """Any matrix to one with orthonormal columns (or rows, if they are fewer)."""

    def __init__(self, weight, orthogonal_map, *, use_trivialization=True):
        super().__init__()
        if orthogonal_map == _OrthMaps.householder and weight.is_complex():
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.orthogonal_map, self.shape = orthogonal_map, weight.shape
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X):
        wide = X.size(-2) < X.size(-1)
        tall = X.mT if wide else X
        if self.orthogonal_map == _OrthMaps.householder:
            result = _by_reflections(tall)
        else:
            result = _by_rotation(tall, self.orthogonal_map == _OrthMaps.cayley)
        if hasattr(self, "base"):
            result = self.base @ result
        return result.mT if wide else result

    @no_grad()
    def right_inverse(self, Q):
        """What maps to Q: with the base, Q becomes the base and the map starts at the identity."""
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
            )
        wide = Q.size(-2) < Q.size(-1)
        tall = Q.mT if wide else Q
        if not hasattr(self, "base"):
            if self.orthogonal_map != _OrthMaps.householder:
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                    "use_trivialization=False."
                )
            vectors, scales = _C.geqrf(tall)
            signs = _diagonal(vectors)
            signs.sign_()
            signs[scales == 0.0] *= -1
            return vectors.mT if wide else vectors
        self.base = self._completed(tall)
        return self._minus_one(Q)

    @staticmethod
    def _completed(tall):
        """A square orthogonal matrix whose first columns span those of `tall`; the other ones are random."""
        rows, cols = tall.shape[-2:]
        if rows == cols:
            return tall.clone() if _is_orthogonal(tall) else _make_orthogonal(tall)
        others = _C.randn(*tall.shape[:-2], rows, rows - cols, dtype=tall.dtype, device=tall.device)
        return _make_orthogonal(_C.cat([tall, others], dim=-1))

    @staticmethod
    def _minus_one(like):
        """-1 on the diagonal."""
        matrix = _C.zeros_like(like)
        _diagonal(matrix).fill_(-1.0)
        return matrix


def _find(module, name):
    tensor = getattr(module, name, None)
    if not isinstance(tensor, _C.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return tensor


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """Keep a matrix (or batch of them) orthogonal: by "matrix_exp", "cayley" or "householder"."""
    weight = _find(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    kind = _OrthMaps.__members__.get(orthogonal_map)
    if kind is None:
        raise ValueError(f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}')
    parametrization = _Orthogonal(weight, kind, use_trivialization=use_trivialization)
    parametrize.register_parametrization(module, name, parametrization, unsafe=True)
    return module


class _WeightNorm(Module):
    """g · v / ‖v‖."""

    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return _C.ops.aten._weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight):
        """Magnitude and direction of a weight."""
        return _C.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """A weight as magnitude times direction."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def old_names(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(old_names)
    return module


class _SpectralNorm(Module):
    """A weight over its largest singular value, found by power iteration."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps = dim % ndim, eps
        if ndim == 1:
            return
        self.n_power_iterations = n_power_iterations
        matrix = self._reshape_weight_to_matrix(weight)
        for name, size in zip(("_u", "_v"), matrix.shape):
            self.register_buffer(name, self._unit(matrix.new_empty(size).normal_(0, 1)))
        self._power_method(matrix, 15)  # a good start

    def _unit(self, vector, out=None):
        return normalize(vector, dim=0, eps=self.eps, out=out)

    def _reshape_weight_to_matrix(self, weight):
        """(rows, cols) with `dim` first."""
        return weight.movedim(self.dim, 0).flatten(1)

    @no_grad()
    def _power_method(self, matrix, n_power_iterations):
        for _ in range(n_power_iterations):
            self._u = self._unit(_C.mv(matrix, self._v), out=self._u)
            self._v = self._unit(_C.mv(matrix.H, self._u), out=self._v)

    def forward(self, weight):
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # The next call changes the vectors in place; backward needs these values.
        left, right = self._u.clone(), self._v.clone()
        return weight / _C.vdot(left, matrix.mv(right))

    def right_inverse(self, value):
        """Assigned values are taken as they are."""
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divide a weight by its spectral norm, estimated by power iteration."""
    weight = _find(module, name)
    if dim is None:
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module
