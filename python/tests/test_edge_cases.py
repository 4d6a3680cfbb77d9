"""Corners of operators that a comparison over PyTorch's whole operator database found."""

import math

import pytest

import flambeau as torch
from flambeau.nn import functional as F


def test_running_logsumexp_keeps_the_phase():
    x = torch.tensor([-4.8 - 7.58j, 1 + 3j, 1 - 9j], dtype=torch.complex128)
    result = torch.logcumsumexp(x, 0)
    assert result[0].item() == -4.8 - 7.58j
    assert result[2].item().imag == pytest.approx(-9.281622207373278)


def test_a_norm_of_zero_has_a_tangent_of_zero():
    forward = torch.autograd.forward_ad
    for order in (2, 3, 1.5):
        for x in (torch.zeros(3), torch.zeros(0)):
            with forward.dual_level():
                norm = torch.linalg.vector_norm(forward.make_dual(x, torch.ones_like(x)), order)
                assert forward.unpack_dual(norm).tangent.item() == 0.0


def test_logspace_in_half_precision_rounds_its_ends():
    assert torch.logspace(4.3, 2, 4, 5.0, dtype=torch.bfloat16).tolist() == [1032.0, 298.0, 86.5, 25.0]
    assert torch.logspace(1.3, 2, 1, dtype=torch.int64).tolist() == [19]


def test_trigamma_next_to_its_poles():
    assert torch.polygamma(1, torch.tensor([-8.0]))[0].item() == pytest.approx(20177651499008.0)
    assert torch.polygamma(1, torch.tensor([0.0, -0.0])).tolist() == [math.inf, math.inf]


def test_as_strided_in_place():
    x = torch.arange(12.0).reshape(3, 4)
    same = x.as_strided_((2, 2), (1, 2), 1)
    assert same is x and x.stride() == (1, 2) and x.tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_nothing_is_learnt_from_an_empty_batch():
    norm = torch.nn.BatchNorm1d(3, momentum=0.3)
    norm(torch.zeros(0, 3, 4))
    assert norm.running_mean.tolist() == [0.0] * 3 and norm.running_var.tolist() == [1.0] * 3


@pytest.mark.parametrize("reduce", [torch.masked.sum, torch.masked.amax, torch.masked.amin])
def test_masked_reductions_of_one_number_are_copies(reduce):
    x = torch.tensor(1.0)
    reduce(x).add_(1)
    assert x.item() == 1.0


def test_a_sum_to_no_dims_is_a_sum():
    x = torch.tensor(1, dtype=torch.int32)
    y = x.sum_to_size(())
    assert y.dtype == torch.int64 and y.data_ptr() != x.data_ptr()


def test_shuffling_pixels_by_one_copies():
    x = torch.rand(2, 8, 3, 4)
    last = x.contiguous(memory_format=torch.channels_last)
    for shuffle in (F.pixel_shuffle, F.pixel_unshuffle):
        y = shuffle(x, 1)
        assert y.equal(x) and y.data_ptr() != x.data_ptr()
        assert shuffle(x.transpose(2, 3), 1).stride() == (96, 12, 3, 1)
        assert shuffle(last, 1).stride() == last.stride()
    assert F.pixel_shuffle(last, 2).stride() == (96, 1, 16, 2)


def test_rms_norm_of_complex_numbers():
    x = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128, requires_grad=True)
    y = F.rms_norm(x, (2,), eps=0.5)
    scale = ((1 + 2j) ** 2 + (3 - 1j) ** 2) / 2 + 0.5
    assert y[0].item() == pytest.approx((1 + 2j) / scale**0.5)
    assert torch.autograd.gradcheck(lambda x: F.rms_norm(x, (2,), eps=0.5), (x,))


def test_out_of_linear_and_gelu():
    out = torch.empty(0)
    assert F.linear(torch.ones(2, 3), torch.ones(4, 3), out=out) is out and out.tolist() == [[3.0] * 4] * 2
    out = torch.empty(2)
    assert F.gelu(torch.zeros(2), out=out) is out and out.tolist() == [0.0, 0.0]


def test_messages():
    for n in (2, 3):
        with pytest.raises(RuntimeError, match=rf"internal error: output_size.size\(\) must be {n}"):
            getattr(F, f"adaptive_max_pool{n}d")(torch.rand(1, 2, 3, 4), ())
    with pytest.raises(RuntimeError, match=r"Expected 3-dimensional input for 3-dimensional weight.*4-dimensional"):
        F.conv2d(torch.rand(1, 1, 4, 3), torch.rand(1, 2, 2), padding="same")
    with pytest.raises(RuntimeError, match=r"tau.shape\[-1\] must be equal to min\(other.shape\[-2\], input.shape\[-1\]\)"):
        torch.ormqr(torch.rand(5, 3), torch.rand(2), torch.rand(5, 5))
    with pytest.raises(RuntimeError, match="number of categories cannot exceed"):
        torch.multinomial(torch.ones(2**24 + 1), 3)


def test_topk_and_kthvalue_take_of_equal_elements_those_that_pytorch_takes():
    x = torch.tensor([1.0, 2, 2, 1, 2, 0, 2, 1])
    assert torch.zeros(2, 8).topk(2).indices.tolist() == [[6, 5], [6, 5]]
    assert x.topk(2).indices.tolist() == [1, 6]
    # In a heap, and by parting.
    assert torch.zeros(200).topk(2).indices.tolist() == [0, 1]
    assert torch.zeros(100).topk(2).indices.tolist() == [67, 66]
    assert torch.zeros(2, 8).kthvalue(3).indices.tolist() == [6, 6]
    assert x.kthvalue(5).indices.item() == 6
    nan = math.nan
    x = torch.tensor([nan, 1, nan, 0, nan, -0.0, 0, 1])
    assert x.topk(4).indices.tolist() == [2, 4, 0, 7]
    least, where = x.topk(3, largest=False)
    assert where.tolist() == [6, 5, 3] and least.signbit().tolist() == [False, True, False]
    assert (x.kthvalue(7).indices.item(), x.kthvalue(2).indices.item()) == (2, 5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_topk_and_kthvalue_of_rows_and_columns_with_equal_elements(dtype):
    x = (torch.arange(60) * 7 % 11 % 4).reshape(3, 20).to(dtype)
    greatest = [[1, 12, 13, 2, 16], [14, 4, 3, 15, 16], [17, 6, 5, 16, 19]]
    assert x.topk(5).indices.tolist() == greatest
    assert x.t().topk(5, 0).indices.t().tolist() == greatest
    least = [[0, 9, 10, 11, 19], [1, 11, 12, 13, 2], [15, 13, 14, 4, 2]]
    assert x.topk(5, largest=False, sorted=False).indices.tolist() == least
    assert x.kthvalue(9).indices.tolist() == [8, 8, 12]


def test_topk_without_an_order_has_pytorchs():
    assert (torch.arange(20) * 7 % 20).topk(6, sorted=False).values.tolist() == [15, 17, 16, 19, 18, 14]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [40, 64, 128])
def test_rows_that_no_cache_holds_are_as_those_of_halves(dtype, n):
    rows = (13 << 20) // n // dtype.itemsize
    x = torch.randn(rows, n, dtype=dtype)
    weight = torch.randn(n, dtype=dtype)
    half = rows // 2 + 3

    def same(function):
        whole, parts = function(x), torch.cat([function(x[:half]), function(x[half:])])
        assert torch.equal(whole, parts)

    same(lambda x: x.softmax(-1))
    same(lambda x: x.cumsum(-1))
    same(lambda x: x.cumprod(-1))
    same(lambda x: F.rms_norm(x, (n,), weight))
    # (Whole vectors of a row are summed otherwise.)
    if (dtype, n) == (torch.float32, 64):
        assert torch.allclose(F.layer_norm(x, (n,), weight)[:half], F.layer_norm(x[:half], (n,), weight), atol=1e-5)
    else:
        same(lambda x: F.layer_norm(x, (n,), weight, weight))
