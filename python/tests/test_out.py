"""`out=`: which dtypes are taken, in which words others are refused, and what becomes of sizes."""

import flambeau as torch
import pytest

X = torch.tensor([1.5, 1.5, 2.7])
C = torch.tensor([3 + 4j, 3])
DOUBLE, LONG = torch.float64, torch.int64

UNCAST = "Found dtype Double but expected Float"
EXACT = "Expected out tensor to have dtype float, but got double instead"

REFUSED = [
    *((lambda out, f=f: getattr(torch, f)(X, out=out), (3,), DOUBLE, UNCAST)
      for f in ("abs", "neg", "ceil", "floor", "trunc", "round", "frac", "sign", "sgn", "negative", "absolute")),
    (lambda out: torch.lerp(X, X, X, out=out), (3,), DOUBLE, UNCAST),
    (lambda out: torch._C._nn.gelu(X, out=out), (3,), DOUBLE, UNCAST),
    (lambda out: torch.alias_copy(X, out=out), (3,), DOUBLE, EXACT),
    (lambda out: torch.linalg.cross(X, X, out=out), (3,), DOUBLE, EXACT),
    (lambda out: torch.linalg.solve(torch.eye(3), X, out=out), (3,), DOUBLE, EXACT),
    (lambda out: torch.msort(X, out=out), (3,), DOUBLE, EXACT),
    (lambda out: torch.cumsum(X, 0, dtype=torch.float32, out=out), (3,), DOUBLE, EXACT),
    (lambda out: torch.matmul(torch.eye(3), torch.eye(3), out=out), (3, 3), DOUBLE, EXACT),
    (lambda out: torch.matmul(X, X, out=out), (), DOUBLE, "result dtype Double does not match input dtype Float"),
    (lambda out: torch.mv(torch.eye(3), X, out=out), (3,), DOUBLE,
     "addmv input tensors must have the same dtype, but got Double, Float, and Float"),
    (lambda out: torch.signbit(X, out=out), (3,), DOUBLE, "signbit does not support non-boolean outputs."),
    (lambda out: torch.isin(X, X, out=out), (3,), LONG, "Expected out tensor to have dtype bool, but got long int instead"),
    (lambda out: torch.isin(1.5, X, out=out), (), LONG, "Expected out tensor to have dtype bool, but got long int instead"),
    (lambda out: torch.multinomial(X, 2, out=out), (2,), DOUBLE, "multinomial expects Long tensor out, got: Double"),
    (lambda out: torch.float_power(X, 2, out=out), (3,), torch.float32,
     "the output given to float_power has dtype Float but the operation's result requires dtype Double"),
    (lambda out: torch.linalg.norm(X, out=out), (), DOUBLE, "linalg.norm expected out tensor dtype Float but got: Double"),
    (lambda out: torch.fft.irfft(C, out=out), (2,), torch.complex64,
     "irfft expects a floating point output tensor, but got ComplexFloat"),
    (lambda out: torch.fft.ifft(X, out=out), (3,), torch.complex128, "Found dtype ComplexDouble but expected ComplexFloat"),
    (lambda out: torch.linalg.eigvals(torch.eye(3), out=out), (3,), LONG,
     "torch.linalg.eigvals: Expected eigenvalues to be safely castable from ComplexFloat dtype, but got eigenvalues with dtype Long"),
    (lambda out: torch.logsumexp(X, 0, out=out), (), LONG,
     "logsumexp(): Expected floating point type for result tensor, but got: Long"),
    (lambda out: torch.zeros(3, dtype=DOUBLE, out=out), (3,), torch.float32,
     "dtype Double does not match dtype of out parameter (Float)"),
    (lambda out: torch.arange(3, dtype=LONG, out=out), (3,), torch.bool, "dtype Long does not match dtype of out parameter (Bool)"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refused(case):
    call, size, dtype, message = REFUSED[case]
    out = torch.ones(size, dtype=dtype)
    with pytest.raises(RuntimeError) as e:
        call(out)
    assert str(e.value) == message
    assert (out == 1).all()


def test_kthvalue_names_its_output():
    with pytest.raises(RuntimeError, match="output indices must be of scalar type Long"):
        torch.kthvalue(X, 2, out=(torch.tensor(0.0), torch.tensor(0.0)))
    with pytest.raises(RuntimeError, match="output values must be of same type as input"):
        torch.kthvalue(X, 2, out=(torch.zeros((), dtype=DOUBLE), torch.tensor(0)))


def test_computed_in_the_given_dtype():
    # Not 1.5, 3, 5.7 cut off afterwards: the elements are.
    assert torch.cumsum(X, 0, out=torch.zeros(3, dtype=LONG)).tolist() == [1, 2, 4]
    assert torch.cumprod(X, 0, out=torch.zeros(3, dtype=LONG)).tolist() == [1, 1, 2]
    assert torch.nansum(torch.tensor([300, 2]), 0, out=torch.zeros((), dtype=torch.uint8)).item() == 46
    assert torch.nansum(torch.tensor([1, 2]), 0, out=torch.zeros((), dtype=torch.bool)).item() is True


def test_sums_and_products_are_of_the_given_dtype():
    x = torch.tensor([[1.5, 300.0], [1.5, 2.0]])
    for call, long, small in ((torch.sum, [2, 302], [2, 46]), (torch.prod, [1, 600], [1, 88])):
        assert call(x, 0, out=torch.zeros(2, dtype=LONG)).tolist() == long
        assert call(x.to(LONG), 0, out=torch.zeros(2, dtype=torch.uint8)).tolist() == small
        assert call(x, 0, out=torch.zeros(2, dtype=torch.bool)).tolist() == [True, True]
        with pytest.raises(RuntimeError):
            call(x, 0, dtype=DOUBLE, out=torch.zeros(2))
    assert torch.mean(x.to(DOUBLE), 0, out=torch.zeros(2)).tolist() == [1.5, 151]
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype double, but got float instead"):
        torch.mean(x, 0, dtype=DOUBLE, out=torch.zeros(2))


def test_refused_before_anything_is_resized():
    out = torch.ones(2, dtype=DOUBLE)
    for call in (
        lambda: torch.where(X > 2, X, X, out=out),
        lambda: torch.cumsum(X, 0, dtype=torch.float32, out=out),
        lambda: torch.argsort(X, stable=True, out=out),
        lambda: torch.lerp(X, X, X, out=out),
    ):
        with pytest.raises(RuntimeError):
            call()
        assert out.tolist() == [1, 1]


def test_cast_to_the_given_dtype():
    assert torch.lerp(X, X, 0.5, out=torch.zeros(3, dtype=DOUBLE)).dtype is DOUBLE
    assert torch.diag(X, out=torch.zeros(0)).shape == (3, 3)
    small = torch.tensor([3, 2], dtype=torch.uint8)
    assert torch.all(small, 0, out=torch.zeros((), dtype=torch.bool)).item() is True
    assert torch.bernoulli(torch.ones(3), out=torch.zeros(3, dtype=LONG)).tolist() == [1, 1, 1]
    assert torch.mean(C, 0, out=torch.zeros(())).item() == 3
    assert torch.abs(C, out=torch.zeros(2, dtype=DOUBLE)).tolist() == [5, 3]
    for dtype in (DOUBLE, torch.complex64):
        r, tau = torch.geqrf(torch.eye(3), out=(torch.zeros(3, 3, dtype=dtype), torch.zeros(3, dtype=DOUBLE)))
        assert r.dtype is dtype and r.abs().sum().item() == 3
    values = torch.linalg.eigvals(torch.eye(3), out=torch.zeros(3, dtype=torch.complex128))
    assert values.tolist() == [1, 1, 1]


def test_lists_and_statistics_are_resized():
    outs = (torch.zeros(0), torch.zeros(0))
    assert torch.split_with_sizes_copy(torch.ones(3, 3), (1, 2), out=outs) is None
    assert [tuple(t.shape) for t in outs] == [(1, 3), (2, 3)] and all((t == 1).all() for t in outs)
    outs = tuple(torch.zeros(0) for _ in range(3))
    ones, zeros = torch.ones(3), torch.zeros(3)
    torch._native_batch_norm_legit(torch.ones(3, 3), ones, ones, zeros, ones.clone(), True, 0.1, 1e-5, out=outs)
    assert [tuple(t.shape) for t in outs] == [(3, 3), (3,), (3,)]
    assert tuple(zeros.shape) == (3,)


def test_sequences_keep_a_shape_of_as_many_elements():
    assert torch.arange(6, out=torch.zeros(2, 3)).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert torch.linspace(0, 5, 6, out=torch.zeros(3, 2).t()).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert tuple(torch.logspace(0, 1, 0, out=torch.zeros(0, 3)).shape) == (0, 3)
    assert tuple(torch.arange(4, out=torch.zeros(2, 3)).shape) == (4,)


def test_order_of_resized_outputs():
    def order(call, *outs):
        call(outs[0] if len(outs) == 1 else outs)
        return [t.stride() for t in outs]

    x, symmetric, ones = torch.ones(5, 6, 7), torch.eye(3) * 4, torch.ones(3)
    empty = torch.zeros(0, dtype=torch.complex64)
    assert order(lambda o: torch.fft.fft(x, dim=1, out=o), empty.clone()) == [(42, 7, 1)]
    assert order(lambda o: torch.fft.ifft(x, dim=1, out=o), empty.clone()) == [(42, 1, 6)]
    assert order(lambda o: torch.quantile(torch.ones(3, 4), torch.ones(2), dim=0, out=o), torch.zeros(0)) == [(4, 1)]
    assert order(lambda o: torch.linalg.tensorinv(torch.eye(6).reshape(6, 2, 3), ind=1, out=o), torch.zeros(0)) == [(18, 6, 1)]
    # An empty tensor takes the order of the result, one with elements its own.
    for size, stride in ((0, (1, 3)), (2, (3, 1))):
        assert order(lambda o: torch.cholesky_inverse(symmetric, out=o), torch.zeros(size)) == [stride]
        assert order(lambda o: torch.geqrf(symmetric, out=o), torch.zeros(size), torch.zeros(size)) == [stride, (1,)]
        assert order(lambda o: torch.linalg.householder_product(symmetric, ones, out=o), torch.zeros(size)) == [stride]


def test_overlap_with_the_input():
    x = torch.arange(10.0)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        torch.kthvalue(x, 2, out=(x, torch.tensor(0)))
    # The places are not looked at.
    x = torch.arange(10)
    assert torch.kthvalue(x, 2, out=(torch.tensor(0), x[3])).values.item() == 1


def test_meta_outputs_need_only_be_castable():
    x, out = torch.ones(3, device="meta"), torch.ones(3, device="meta", dtype=DOUBLE)
    assert torch.neg(x, out=out) is out
    with pytest.raises(RuntimeError):
        torch.matmul(torch.ones(3, 3, device="meta"), torch.ones(3, 3, device="meta"), out=torch.ones(3, 3, device="meta", dtype=LONG))


def test_scans_of_no_dims():
    truth = torch.tensor(True)
    assert torch.cumsum(truth, 0, out=torch.zeros((), dtype=torch.bool)).item() is True
    assert torch.cumprod(truth, 0, out=torch.zeros(0, dtype=torch.bool)).item() is True
