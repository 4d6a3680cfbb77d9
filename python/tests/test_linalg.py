"""Linear algebra beyond the recorded calls: what has no solution, matrices without elements, derivatives at singular
matrices, and eigenpairs by iteration."""
import math

import flambeau as torch
import pytest

linalg = torch.linalg


@pytest.mark.parametrize(
    "name, message",
    [
        ("inv", "linalg.inv: The diagonal element 1 is zero, the inversion could not be completed"),
        ("cholesky", "linalg.cholesky: .*leading minor of order 1 is not positive-definite"),
        ("lu_factor", r"torch.linalg.lu_factor: U\[1,1\] is zero"),
    ],
)
def test_what_does_not_exist_is_named(name, message):
    with pytest.raises(RuntimeError, match=message) as one:
        getattr(linalg, name)(torch.zeros(3, 3))
    assert isinstance(one.value, linalg.LinAlgError) == (name != "lu_factor")
    with pytest.raises(RuntimeError, match=r"\(Batch element 1\)"):
        getattr(linalg, name)(torch.stack([torch.eye(3), torch.zeros(3, 3)]))


@pytest.mark.parametrize("name", ["svd", "svdvals", "eigh", "eigvalsh", "eig", "eigvals", "pinv", "cond"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_no_decomposition_loops_on_what_is_not_finite(name, value):
    with pytest.raises(RuntimeError):
        getattr(linalg, name)(torch.full((3, 3), value))


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
def test_square_matrices_without_elements(shape):
    empty = torch.zeros(shape)
    names = "inv det slogdet eig eigh eigvals eigvalsh cholesky lu lu_factor ldl_factor matrix_exp svd qr pinv"
    for name in names.split():
        getattr(linalg, name)(empty)
    assert linalg.det(torch.zeros(0, 0)).item() == 1


def test_matrices_without_columns_have_all_vectors():
    u, s, vh = linalg.svd(torch.zeros(3, 0))
    assert u.tolist() == torch.eye(3).tolist() and s.shape == (0,) and vh.shape == (0, 0)
    q, r = linalg.qr(torch.zeros(3, 0), "complete")
    assert q.tolist() == torch.eye(3).tolist() and r.shape == (3, 0)


@pytest.mark.parametrize("recorded", [False, True])
def test_determinants_are_smooth_where_they_are_zero(recorded):
    a = torch.tensor([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(linalg.det(a), a, create_graph=recorded)
    cofactors = torch.tensor([[-3.0, 6, -3], [6, -12, 6], [-3, 6, -3]], dtype=torch.float64)
    assert torch.allclose(gradient, cofactors, rtol=1e-6, atol=1e-6)


def test_solutions_do_not_depend_on_the_order_in_memory():
    a, b = torch.randn(5, 4, 4), torch.randn(4, 3)
    assert torch.allclose(linalg.solve(a, b), linalg.solve(a.mT.contiguous().mT, b), rtol=1e-3, atol=1e-4)
    assert torch.allclose(linalg.solve(a.mT, b.mT, left=False).mT, linalg.solve(a, b), rtol=1e-3, atol=1e-4)


def test_pivots_from_outside_are_checked():
    factors = torch.eye(3)
    for pivots in ([0, 2, 3], [1, 2, 4], [-1, 2, 3]):
        with pytest.raises(RuntimeError):
            linalg.lu_solve(factors, torch.tensor(pivots, dtype=torch.int32), torch.ones(3, 1))


@pytest.mark.parametrize("largest", [False, True])
def test_lobpcg_finds_extreme_eigenpairs(largest):
    x = torch.randn(40, 40, dtype=torch.float64)
    a = x @ x.mT + torch.eye(40, dtype=torch.float64)
    values, vectors = torch.lobpcg(a, k=3, largest=largest, tol=1e-9)
    expected = linalg.eigvalsh(a)
    expected = expected.flip(0)[:3] if largest else expected[:3]
    assert torch.allclose(values, expected, rtol=1e-6)
    assert torch.allclose(a @ vectors, vectors * values, atol=1e-4)

    def value(a):
        return torch.lobpcg((a + a.mT) / 2, k=1, X=vectors[:, :1], tol=1e-12, largest=largest)[0]

    assert torch.autograd.gradcheck(value, a.clone().requires_grad_(), atol=1e-4)
