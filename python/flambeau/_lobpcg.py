"""Extreme eigenpairs of large symmetric matrices by conjugate gradients on blocks of vectors (A. Knyazev, "Toward the
optimal preconditioned eigensolver: locally optimal block preconditioned conjugate gradient method")."""
from . import _C
from .autograd.grad_mode import no_grad

Tensor = _C.Tensor


def _times(A, X):
    return X if A is None else A @ X


def _orthonormal(S, B):
    """A basis of the span of S's columns that is orthonormal in B's inner product; nearly dependent ones are left out."""
    S = S / _C.linalg_vector_norm(S, 2, [0]).clamp_min(_C.finfo(S.dtype).tiny)
    for _ in range(2):
        gram = S.mH @ _times(B, S)
        values, vectors = _C.linalg_eigh((gram + gram.mH) / 2)
        kept = values > values[-1] * _C.finfo(S.dtype).eps * 8 * S.shape[-1]
        S = S @ (vectors[:, kept] / values[kept].sqrt())
    return S


def _extreme(A, B, S, k, largest):
    """The best approximations of k eigenpairs in the span of S's columns, by Rayleigh and Ritz."""
    small = S.mH @ _times(A, S)
    values, vectors = _C.linalg_eigh((small + small.mH) / 2)
    if largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    return values[:k], S @ vectors[:, :k]


def _one(A, B, iK, X, k, niter, tol, largest, tracker):
    n = X.shape[-1]
    E, X = _extreme(A, B, _orthonormal(X, B), n, largest)
    P, step = None, 0
    scale = _C.linalg_vector_norm(_times(A, X)) / _C.linalg_vector_norm(X)
    weight = 1 if B is None else _C.linalg_vector_norm(B @ X) / _C.linalg_vector_norm(X)
    while niter < 0 or step < niter:
        step += 1
        R = _times(A, X) - _times(B, X) * E
        error = _C.linalg_vector_norm(R, 2, [0]) / (_C.linalg_vector_norm(X, 2, [0]) * (scale + E.abs() * weight))
        if tracker is not None:
            tracker({"istep": step, "E": E, "X": X, "R": R, "rerr": error})
        if bool((error[:k] < tol).all()):
            break
        parts = [X, _times(iK, R)] + ([] if P is None else [P])
        E, following = _extreme(A, B, _orthonormal(_C.cat(parts, dim=-1), B), n, largest)
        # The part of the step that X does not have.
        P = following - X @ (X.mH @ _times(B, following))
        X = following
    return E[:k], X[:, :k]


def _differentiable(A, E, X):
    """The same values, which follow A to the first order: a zero is added that has their derivative."""
    change = (A - A.detach()) @ X
    values = E + (X.conj() * change).sum(-2).real if X.is_complex() else E + (X * change).sum(-2)
    unit = _C.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    columns = []
    for j in range(X.shape[-1]):
        gap = E[..., j, None, None] * unit - A.detach()
        inverse = _C.linalg_pinv(gap, atol=None, rtol=1e-6, hermitian=True)
        columns.append(inverse @ change[..., j : j + 1])
    return values, X + _C.cat(columns, dim=-1)


def lobpcg(A, k=None, B=None, X=None, n=None, iK=None, niter=None, tol=None, largest=None, method=None, tracker=None,
           ortho_iparams=None, ortho_fparams=None, ortho_bparams=None):  # fmt: skip
    """The k largest (or smallest) eigenvalues and eigenvectors of symmetric A, or of `A x = l B x`.

    `X` has first approximations, `iK` is a preconditioner; iteration ends when the relative residuals are below `tol`, or
    after `niter` steps. `method` is accepted: both of its values are computed with orthonormal bases. The results can be
    differentiated once with respect to A where B is not given."""
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"unknown method {method!r}")
    if A.shape[-1] != A.shape[-2]:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    m = A.shape[-1]
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if X is None else X.shape[-1]) if n is None else n
    if m < 3 * n:
        raise ValueError(f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x the "
                         f"number of requested eigenpairs (={n})")
    kind = A.dtype if A.is_floating_point() or A.is_complex() else _C.get_default_dtype()
    tol = _C.finfo(kind).eps ** 0.5 if tol is None else tol
    niter = 1000 if niter is None else niter
    largest = True if largest is None else largest
    batch = tuple(A.shape[:-2])
    if X is None:
        X = _C.randn(*batch, m, n, dtype=kind, device=A.device)
    elif tuple(X.shape[-2:]) != (m, n):
        raise ValueError(f"X must have shape {(m, n)}, but got {tuple(X.shape)}")
    with no_grad():
        flat = [None if t is None else t.detach().expand(*batch, *t.shape[-2:]).reshape(-1, *t.shape[-2:])
                for t in (A, B, iK, X)]  # fmt: skip
        found = [
            _one(*(None if t is None else t[i] for t in flat), k, niter, tol, largest, tracker)
            for i in range(flat[0].shape[0])
        ]
        E = _C.stack([e for e, _ in found]).reshape(*batch, k)
        vectors = _C.stack([x for _, x in found]).reshape(*batch, m, k)
    if A.requires_grad and B is None:
        return _differentiable(A, E, vectors)
    return E, vectors
