"""What results are, beyond their values: whose memory, which strides, which dtype, which type, and what they ask for."""
import flambeau as torch
import pytest

F = torch.nn.functional


def test_reductions_of_a_number_are_copies():
    for function in (torch.masked.sum, torch.masked.amax, torch.masked.amin, lambda x: torch.masked.prod(x, 0)):
        x = torch.tensor(1.0)
        function(x).add_(1)
        assert x == 1
    x = torch.tensor(1, dtype=torch.int8)
    assert x.sum_to_size(()).dtype == torch.int64
    assert x.sum_to_size(()).data_ptr() != x.data_ptr()


@pytest.mark.parametrize("shuffle", [F.pixel_shuffle, F.pixel_unshuffle])
def test_shuffled_pixels_are_copies_in_order(shuffle):
    x = torch.rand(1, 4, 3, 2)
    assert shuffle(x, 1).data_ptr() != x.data_ptr()
    assert shuffle(x.permute(3, 1, 2, 0), 1).stride() == (12, 3, 1, 1)
    last = torch.rand(2, 4, 2, 6).to(memory_format=torch.channels_last)
    assert shuffle(last, 1).stride() == last.stride()
    assert shuffle(last, 2).is_contiguous(memory_format=torch.channels_last)
    for shape in ((2, 8, 6, 4), (1, 16, 20, 36)):
        x = torch.rand(shape)
        assert torch.equal(shuffle(x.to(memory_format=torch.channels_last), 2), shuffle(x, 2))


def test_what_is_rolled_keeps_its_memory_format():
    x = torch.rand(2, 8, 6, 6)
    last = x.to(memory_format=torch.channels_last)
    for shifts, dims in ((1, 2), ((1, 2), (2, 3)), (1, 0), (1, 1)):
        assert last.roll(shifts, dims).stride() == last.stride()
        assert torch.equal(last.roll(shifts, dims), x.roll(shifts, dims))
    for shifts, dims in ((3, ()), (0, 2), (6, 2)):
        assert last.roll(shifts, dims).stride() == x.stride()
        assert last.roll(shifts, dims).data_ptr() != last.data_ptr()
    assert x.transpose(0, 1).roll(1, 2).is_contiguous()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("columns", [5, 32, 33, 64, 100, 257])
def test_halves_by_rows_and_numbers(dtype, columns):
    x = torch.randn(70, columns).to(dtype)
    row, column = torch.randn(columns).to(dtype), torch.randn(70, 1).to(dtype)
    for other in (row, column, x[:, :1], x[:1]):
        wide = x.float() - other.float()
        assert torch.equal(x - other, wide.to(dtype))
        assert torch.equal(x < other, x.float() < other.float())
        assert torch.equal(x.clone().sub_(other), wide.to(dtype))
    for part in (x[:, ::2], x[::3, 1::3], x.t(), x.flip(1)):
        assert torch.equal(part * 3, (part.float() * 3).to(dtype))
        assert torch.equal(part.float().to(dtype), part)


def test_extremes_of_few_rows():
    for dtype in (torch.bool, torch.uint8, torch.int8, torch.int64, torch.uint64, torch.float64):
        for rows in (1, 2, 3, 5, 32, 33):
            x = torch.randint(0, 2 if dtype is torch.bool else 100, (rows, 203)).to(dtype)
            columns = x.t().tolist()
            assert x.amax(0).tolist() == [max(c) for c in columns] and x.amin(0).tolist() == [min(c) for c in columns]
            assert x.amax(0).dtype is dtype
            if dtype is not torch.uint64:
                assert x.any(0).tolist() == [any(c) for c in columns]


EINSUMS = {
    "ij,kj->ki": ([3, 4], [5, 4], (3, 1)),
    "ibnd,hnd->ibh": ([5, 2, 4, 8], [6, 4, 8], (12, 6, 1)),
    "nchw,cd->ndhw": ([2, 3, 4, 5], [3, 6], (120, 1, 30, 6)),
    "abc,cd->bda": ([2, 3, 4], [4, 5], (10, 1, 5)),
    "abc,cd->dab": ([2, 3, 4], [4, 5], (6, 3, 1)),
    "bac,bcd->dba": ([2, 3, 4], [2, 4, 5], (3, 15, 1)),
    "ijbs,ibns->bnij": ([3, 4, 2, 2], [3, 2, 4, 2], (48, 4, 16, 1)),
    "da,bae->bde": ([2, 3], [3, 3, 5], (5, 15, 1)),
    "bthd,bshd->bhts": ([2, 3, 4, 5], [2, 6, 4, 5], (72, 18, 6, 1)),
}


@pytest.mark.parametrize("equation", EINSUMS)
def test_products_lie_in_memory_as_einsum_asks_where_one_matrix_product_can(equation):
    x, y, strides = EINSUMS[equation]
    x, y = torch.rand(x), torch.rand(y)
    result = torch.einsum(equation, x, y)
    assert result.stride() == strides
    (a, b), out = equation.split("->")[0].split(","), equation.split("->")[1]
    names = sorted(set(a + b))
    aligned = [t.permute([n.index(c) for c in names if c in n]).reshape([t.shape[n.index(c)] if c in n else 1 for c in names])
               for t, n in ((x, a), (y, b))]  # fmt: skip
    summed = (aligned[0] * aligned[1]).sum([d for d, c in enumerate(names) if c not in out])
    order = [c for c in names if c in out]
    torch.testing.assert_close(result, summed.permute([order.index(c) for c in out]))


@pytest.mark.parametrize(("equation", "strides"), [("edc->de", (4, 1)), ("acb->bc", (2, 1)), ("dacb->ca", (2, 1))])
def test_sums_lie_in_memory_as_einsum_asks(equation, strides):
    assert torch.einsum(equation, torch.rand(4, 2, 3) if len(equation) == 7 else torch.rand(2, 2, 3, 4)).stride() == strides


def test_strides_as_pytorch_has_them():
    x = torch.full((4, 3), 9.0).t()
    assert torch.mvlgamma(x, 1).stride() == (4, 1)
    assert F.rrelu(x, training=True).stride() == F.rrelu(x).stride() == (4, 1)
    assert x.float(memory_format=torch.contiguous_format) is x
    assert x.to(torch.float32, memory_format=torch.contiguous_format) is x
    last = torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert last.float(memory_format=torch.contiguous_format).is_contiguous()
    assert torch.einsum("ij,k->ikj", torch.ones(3, 2).t(), torch.ones(4)).stride() == (1, 2, 8)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.int32])
def test_einsum_of_whole_numbers_sums_in_64_bits(dtype):
    x = torch.einsum("...ik,...j->ij", torch.ones(1, 2, 3, dtype=dtype), torch.ones(3, dtype=dtype))
    assert x.dtype == torch.int64 and x.tolist() == [[3] * 3] * 2
    x = torch.einsum("ij,jk->ik", torch.ones(2, 1, dtype=dtype), torch.ones(3, 3, dtype=dtype))
    assert x.dtype == torch.int64 and x.tolist() == [[3] * 3] * 2
    assert torch.einsum("i,j->ij", torch.ones(2, dtype=dtype), torch.ones(3, dtype=dtype)).dtype == dtype
    assert torch.einsum("ij,k->i", torch.ones(2, 1, dtype=dtype), torch.ones(1, dtype=dtype)).dtype == dtype


def test_named_results_have_their_types():
    types = torch.return_types
    assert type(torch.lu(torch.eye(2), get_infos=True)).__name__ == "_lu_with_info"
    assert type(torch.histogramdd(torch.rand(3, 2), [2, 2])) is types.histogramdd
    out = torch.ones(2), torch.ones(2, dtype=torch.int64)
    assert type(torch.cummax(torch.ones(2), 0)) is types.cummax
    assert type(torch.cummax(torch.ones(2), 0, out=out)) is types.cummax_out
    assert types.cummax_out.__name__ == "cummax_out"


def test_which_results_have_gradients():
    x = torch.rand(4, 3).requires_grad_()
    wanted = lambda results: [r.requires_grad for r in results]  # noqa: E731
    assert wanted(torch.native_layer_norm(x, (3,), None, None, 1e-5)) == [True, False, False]
    assert wanted(torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)) == [True, False, False]
    assert wanted(torch._native_batch_norm_legit(x, None, None, True, 0.1, 1e-5)) == [True, False, False]
    assert wanted(torch.linalg.lstsq(x, torch.ones(4, 2), driver="gelsd")) == [True, True, False, False]
    assert wanted(torch.native_group_norm(x, None, None, 4, 3, 1, 1, 1e-5)) == [True] * 3


def test_what_has_no_gradient_gives_none():
    def gradients(function, *shapes):
        leaves = [torch.rand(*shape).requires_grad_() for shape in shapes]
        return [g is not None for g in torch.autograd.grad(function(*leaves).sum(), leaves, allow_unused=True)]

    for norm in (torch.linalg.vector_norm, torch.norm, torch.linalg.norm, torch.masked.norm):
        assert gradients(lambda x, norm=norm: norm(x, 0), (3,)) == [False]
    assert torch.func.grad(lambda x: torch.linalg.vector_norm(x, 0))(torch.ones(2)).tolist() == [0, 0]
    assert gradients(torch.linalg.householder_product, (5, 0), (0,)) == [False, False]
    assert gradients(torch.ormqr, (5, 0), (0,), (5, 3)) == [False, False, True]


def test_as_strided_in_place():
    x = torch.arange(9.0, requires_grad=True)
    y = x * 1
    assert y.as_strided_((2, 2), (1, 3), 1) is y
    y.sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 0, 1, 1, 0, 0, 0]
    assert torch.arange(9.0)[2:].as_strided_((2,), (3,)).tolist() == [2, 5]
    with pytest.raises(RuntimeError, match="out of bounds"):
        torch.arange(4.0).as_strided_((5,), (2,))


def test_functions_of_layers_take_out():
    out = torch.zeros(2, 4)
    assert F.linear(torch.ones(2, 3), torch.ones(4, 3), out=out) is out and out.tolist() == [[3] * 4] * 2
    out = torch.ones(2)
    assert F.gelu(torch.zeros(2), out=out) is out and out.tolist() == [0, 0]


def test_rms_norm_of_complex_numbers():
    # The squares are z z, not |z|^2.
    z = torch.tensor([3 + 4j, 1j], requires_grad=True)
    y = F.rms_norm(z, (2,), eps=0.5)
    torch.testing.assert_close(y.detach(), torch.tensor([1.4142135 + 0j, 0.2262742 + 0.1697056j]))
    (g,) = torch.autograd.grad(y.abs().sum(), z)
    torch.testing.assert_close(g, torch.tensor([-0.0339411 - 0.0452548j, -0.0651670 + 0.2638357j]))


def test_an_empty_batch_moves_no_statistics():
    norm = torch.nn.BatchNorm1d(3, momentum=0.3)
    norm.running_mean.fill_(2.0)
    norm(torch.zeros(0, 3, 4))
    assert norm.running_var.tolist() == [1] * 3 and norm.running_mean.tolist() == [2] * 3


INT = dict(dtype=torch.int64)
REFUSALS = [
    (lambda: torch.narrow(torch.ones(3, 4), 1, torch.tensor([0, 1]), 2), RuntimeError,
     "^start must be an 0-dim integral Tensor.$"),
    (lambda: torch.narrow(torch.ones(3, 4), 1, torch.tensor(1.0), 2), RuntimeError, "^start must be an 0-dim integral"),
    (lambda: torch.hstack([torch.ones(2)], out=torch.zeros(2, **INT)), TypeError, "^torch.cat.*desired output type Long"),
    (lambda: torch.tensor([1, 2]).atan2_(torch.ones(2, 2)), RuntimeError, "doesn't match the broadcast shape"),
    (lambda: F.adaptive_max_pool2d(torch.ones(1, 2, 3, 4), ()), RuntimeError, "internal error: output_size.size.. must be 2"),
    (lambda: F.conv2d(torch.ones(1, 4, 3), torch.ones(1, 2, 2), padding="same"), RuntimeError,
     "Expected 3-dimensional input for 3-dimensional weight.* got 4-dimensional input of size .1, 1, 4, 3."),
    (lambda: torch.ormqr(torch.ones(5, 0, **INT), torch.ones(5, **INT), torch.ones(5, 5, **INT)), RuntimeError,
     "tau.shape.-1. must be equal to min"),
    (lambda: torch.ormqr(torch.ones(2, 2, **INT), torch.ones(2, **INT), torch.ones(2, 2, **INT)), NotImplementedError,
     "\"ormqr_cpu\" not implemented for 'Long'"),
    (lambda: torch.multinomial(torch.zeros(2**24 + 1), 3), RuntimeError, "number of categories cannot exceed 2.24"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), REFUSALS, ids=range(len(REFUSALS)))
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()
    assert torch.narrow(torch.ones(3, 4), 1, torch.tensor(-1), 1).shape == (3, 1)
