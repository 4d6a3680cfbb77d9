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


def test_products_of_bytes():
    torch.manual_seed(0)
    for rows, inner, columns in [(1, 1, 1), (5, 67, 3), (1, 300, 40), (33, 130, 65), (40, 0, 3), (70, 1200, 50)]:
        signed = torch.randint(-128, 128, (rows, inner), dtype=torch.int8)
        unsigned = torch.randint(0, 256, (rows, inner), dtype=torch.uint8)
        right = torch.randint(-128, 128, (inner, columns), dtype=torch.int8)
        for left in (signed, unsigned, signed.t().contiguous().t()):
            for factor in (right, right.t().contiguous().t()):
                product = torch._int_mm(left, factor)
                assert product.dtype == torch.int32
                assert torch.equal(product, left.int() @ factor.int())
                out = torch.empty(columns, rows, dtype=torch.int32).t()
                assert torch.equal(torch._int_mm(left, factor, out=out), product)
    assert torch._int_mm(signed.to("meta"), right.to("meta")).shape == (70, 50)
    # Sums wrap.
    ones = torch.full((1, 2**17 + 8), 255, dtype=torch.uint8)
    assert torch._int_mm(ones, torch.full((2**17 + 8, 1), 127, dtype=torch.int8)).item() == -49941496


@pytest.mark.parametrize(
    "left, right, message",
    [
        ((2, 3), (4, 5), r"self.size\(1\) needs to match mat2.size\(0\) but got 3 and 4"),
        ((2, 3, 4), (4, 5), "Expected self to be of dimension 2 but got 3"),
        ((3,), (3, 4), "Expected self to be of dimension 2 but got 1"),
        ((3, 4), (4, 5, 6), "Expected mat2 to be of dimension 2 but got 3"),
    ],
)
def test_bytes_that_do_not_fit(left, right, message):
    with pytest.raises(RuntimeError, match=message):
        torch._int_mm(torch.ones(left, dtype=torch.int8), torch.ones(right, dtype=torch.int8))


def test_what_bytes_are_not():
    byte, wide = torch.ones(2, 2, dtype=torch.int8), torch.ones(2, 2)
    with pytest.raises(RuntimeError, match="Expected self dtype to be int8 or uint8 but got float"):
        torch._int_mm(wide, byte)
    with pytest.raises(RuntimeError, match="Expected mat2 dtype to be of type int8 but got unsigned char"):
        torch._int_mm(byte, byte.to(torch.uint8))
    with pytest.raises(RuntimeError, match="dtype"):
        torch._int_mm(byte, byte, out=wide)
