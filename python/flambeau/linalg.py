"""Linear algebra: products, factorizations, solvers, norms and determinants of (batches of) matrices."""
from . import _C
from ._namespace import fill

if hasattr(_C, "_LinAlgError"):
    LinAlgError = _C._LinAlgError
else:

    class LinAlgError(RuntimeError):
        """A matrix does not have what was asked for: an inverse, a factorization."""


Tensor = _C.Tensor

fill(
    globals(),
    "linalg_",
    "cholesky cholesky_ex cond cross det diagonal eig eigh eigvals eigvalsh householder_product inv inv_ex ldl_factor "
    "ldl_factor_ex ldl_solve lstsq lu lu_factor lu_factor_ex lu_solve matmul matrix_exp matrix_norm matrix_power "
    "matrix_rank multi_dot norm pinv qr slogdet solve solve_ex solve_triangular svd svdvals tensorinv tensorsolve vander "
    "vecdot vector_norm",
)
__all__ += ["LinAlgError"]  # noqa: F821
