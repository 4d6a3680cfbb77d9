"""NumPy's numbers and arrays beside tensors, and values whose dtype is not the tensor's."""
import numpy as np
import pytest

import flambeau as fb


@pytest.mark.parametrize(
    "data, dtype",
    [
        ([np.float64(1)], fb.float64),
        ([2.0, np.float64(1)], fb.float64),
        ([np.float32(1), 2.0], fb.float32),
        ([np.float16(1), np.float16(2)], fb.float16),
        ([np.float16(1), 1.5], fb.float32),
        ([np.int32(1)], fb.int32),
        ([np.int32(1), 2], fb.int64),
        ([np.int32(1), 2.0], fb.float32),
        ([np.uint8(1), np.int8(2)], fb.int16),
        ([np.complex128(1)], fb.complex128),
        ([np.float64(1), 1j], fb.complex128),
        ([[np.float64(1), 2.0]], fb.float64),
        ([np.bool_(True)], fb.bool),
        ([fb.tensor(1.0), np.float64(1)], fb.float64),
        (np.float64(2), fb.float64),
        ([1, 2.5], fb.float32),
    ],
)
def test_numbers_of_numpy_say_their_dtype(data, dtype):
    assert fb.tensor(data).dtype == dtype
    assert fb.as_tensor(data).dtype == dtype
    assert fb.tensor(data, dtype=fb.complex64).dtype == fb.complex64


def test_an_array_is_compared_as_a_tensor():
    x = fb.tensor([1, 3])
    for same in (x == np.array([1, 2]), np.array([1, 2]) == x):
        assert isinstance(same, fb.Tensor) and same.tolist() == [True, False]
    assert (fb.ones(2) == np.array(["a", "b"])) is False
    with pytest.raises(RuntimeError, match="size"):
        fb.ones(2) == np.ones(3)


def test_an_array_is_divided_by_a_tensor():
    y = np.array([1.0, 3.0]) / fb.tensor([2.0, 4.0])
    assert isinstance(y, fb.Tensor) and y.dtype == fb.float64 and y.tolist() == [0.5, 0.75]
    assert (1 / fb.tensor([2.0])).tolist() == [0.5]
    with pytest.raises(TypeError):
        "a" / fb.ones(2)


def test_where_tensors_name_the_place_the_value_has_the_dtype():
    mask, at = fb.tensor([True, False, True]), fb.tensor([0, 2])
    wrong = "Index put requires the source and destination dtypes match, got Float for the destination and Long for the source"
    for index in (mask, at, (mask, 0)):
        x = fb.zeros(3, 4)
        with pytest.raises(RuntimeError, match=wrong):
            x[index] = fb.ones(2 if isinstance(index, tuple) else (2, 4), dtype=fb.int64)
        assert x.eq(0).all()
    with pytest.raises(RuntimeError, match=wrong):
        fb.zeros(3, 4)[at] = fb.tensor(2)
    # One value for a mask is any; so is what goes to a view.
    x = fb.zeros(3, 4)
    x[mask] = fb.tensor(2)
    x[1:2] = fb.tensor([1, 2, 3, 4])
    x[at] = 5
    assert x.tolist() == [[5.0] * 4, [1.0, 2.0, 3.0, 4.0], [5.0] * 4]
    x[mask] = fb.tensor([3.5], dtype=fb.float64)
    assert x[0, 0] == 3.5
    x.index_put_((mask,), fb.tensor(7))
    assert x[2, 3] == 7
    whole = fb.zeros(3, dtype=fb.int64)
    whole[mask] = fb.tensor(2.5)
    assert whole.tolist() == [2, 0, 2]
    with pytest.raises(RuntimeError):
        x[mask] = fb.tensor(2j)


def test_draws_go_in_the_order_of_the_probabilities_memory():
    fb.manual_seed(0)
    assert fb.multinomial(fb.rand(4, 3).t(), 2).tolist() == [[0, 2], [0, 2], [1, 3]]
    fb.manual_seed(0)
    assert fb.bernoulli(fb.rand(4, 3).t()).is_contiguous()


def test_deterministic_memory_is_filled():
    try:
        fb.use_deterministic_algorithms(True)
        assert fb.empty(2).isnan().all() and fb.empty(3, dtype=fb.complex64).isnan().all()
        assert fb.empty(2, dtype=fb.int16).tolist() == [32767] * 2 and fb.empty(2, dtype=fb.bool).all()
        assert fb.empty(2, dtype=fb.uint8).tolist() == [255] * 2
        assert fb.empty_like(fb.ones(2, 2)).isnan().all() and fb.ones(1).new_empty(2).isnan().all()
        grown = fb.ones(2).resize_(4)
        assert grown[:2].eq(1).all() and grown[2:].isnan().all()
        assert fb.full((2,), 3.0).tolist() == [3.0, 3.0] and fb.zeros_like(fb.ones(2)).tolist() == [0.0, 0.0]
        fb.utils.deterministic.fill_uninitialized_memory = False
        kept = fb.ones(2)
        assert not fb.full_like(kept, 2.0).isnan().any()
    finally:
        fb.utils.deterministic.fill_uninitialized_memory = True
        fb.use_deterministic_algorithms(False)


def test_values_and_dtypes_of_mixed_arguments():
    loss = fb.nn.functional.binary_cross_entropy_with_logits
    for target in (fb.float16, fb.bfloat16, fb.float64):
        got = loss(fb.tensor([1.0, -2.0, 3.0]), fb.tensor([1.0, 0.0, 1.0], dtype=target))
        assert got.dtype == target and abs(float(got) - 0.16292568) < 2e-3
    with pytest.raises(NotImplementedError, match="\"log_sigmoid_cpu\" not implemented for 'Long'"):
        loss(fb.tensor([1, 2]), fb.tensor([1.0, 0.0]))
    hinge = fb.nn.functional.hinge_embedding_loss(fb.tensor([1, -2, 3]), fb.tensor([1, -1, 1]), margin=1.5, reduction="none")
    assert hinge.dtype == fb.int64 and hinge.tolist() == [1, 3, 3]
    assert fb.ldexp(fb.tensor([1.0, 3.0]).half(), fb.tensor([20, -1])).tolist() == [float("inf"), 1.5]
    assert fb.ldexp(fb.tensor([1e-40, 1e30]), fb.tensor([200, -200])).tolist() == pytest.approx(
        [1.6069293830420667e20, 6.223015371501754e-31])
    assert fb.ldexp(fb.tensor([1.0]), fb.tensor([-149])).tolist() == [2.0**-149]
    with pytest.raises(NotImplementedError, match="ldexp_cpu_exp"):
        fb.ldexp(fb.ones(1), fb.tensor([True]))
    assert fb.addr(fb.tensor(1.0, dtype=fb.float64), fb.ones(2), fb.ones(2)).dtype == fb.float64
    with pytest.raises(RuntimeError, match="must be either float or double dtype"):
        fb.quantile(fb.ones(3).half(), 0.5)
    assert fb.i0(fb.tensor([88.7, 89.0, -95.0])).isinf().tolist() == [False, True, True]
    assert fb.bincount(fb.tensor([], dtype=fb.int64), weights=fb.tensor([]), minlength=2).dtype == fb.int64


def test_meta_tensors_need_no_data_where_sizes_are_given():
    meta = lambda *sizes, **options: fb.ones(*sizes, device="meta", **options)
    assert fb.nn.functional.one_hot(meta(2, dtype=fb.int64), 3).shape == (2, 3)
    assert fb.nonzero_static(meta(2), size=3).shape == (3, 1)
    assert fb.bernoulli(meta(2)).shape == (2,)
    assert fb.repeat_interleave(meta(3), meta(3, dtype=fb.int64), output_size=5).shape == (5,)
    assert fb.linspace(meta(()), fb.tensor(1.0), 3, device="meta").shape == (3,)


def test_three_dimensional_pooling_is_row_major():
    x = fb.ones(2, 3, 4, 4, 4).contiguous(memory_format=fb.channels_last_3d)
    F = fb.nn.functional
    for y in (F.avg_pool3d(x, 2), F.adaptive_avg_pool3d(x, 2), F.adaptive_max_pool3d(x, 2), F.lp_pool3d(x, 2.0, 2)):
        assert y.is_contiguous()
    assert F.max_pool3d(x, 2).is_contiguous(memory_format=fb.channels_last_3d)


def test_errors_where_panics_were():
    with pytest.raises(RuntimeError, match="expected two matrices"):
        fb.sparse.mm(fb.eye(2).to_sparse_csr(), fb.tensor(1.0), "sum")
    with pytest.raises(RuntimeError, match="wrapping around more than once"):
        fb.nn.functional.pad(fb.ones(1, 4, 1), (-1, 1), mode="circular")
    x = fb.ones(2, 3)
    assert x[..., ...].shape == (2, 3) and x[0, ..., ...].shape == (3,)
    with pytest.raises(IndexError):
        x[..., ..., 0]


def test_arrays_beside_sizes_take_them_for_one():
    size, array = fb.Size([3, 4]), np.array([1, 2])
    for made, values in ((size * array, [3, 8]), (array * size, [3, 8]), (size + array, [4, 6]), (array + size, [4, 6]),
                         (size - array, [2, 2]), (size + np.int64(1), [4, 5])):  # fmt: skip
        assert type(made) is np.ndarray and made.tolist() == values
    for made, values in ((size + (1,), (3, 4, 1)), ((1,) + size, (1, 3, 4)), (size * 2, (3, 4) * 2), (2 * size, (3, 4) * 2),
                         (size * np.int64(2), (3, 4) * 2), (size * fb.tensor(2), (3, 4) * 2)):  # fmt: skip
        assert type(made) is fb.Size and made == values
    for wrong, text in ((lambda: size + [1], "can only concatenate tuple .not list. to torch.Size"),
                        (lambda: size + fb.ones(2), "can only concatenate tuple .not Tensor. to torch.Size"),
                        (lambda: size * 2.0, "can't multiply sequence by non-int of type 'float'"),
                        (lambda: size * size, "can't multiply sequence by non-int of type")):  # fmt: skip
        with pytest.raises(TypeError, match=text):
            wrong()
