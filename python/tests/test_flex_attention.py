"""Attention with functions of scores and masks of blocks."""
import flambeau as torch
import pytest
from flambeau.nn.attention.flex_attention import (AuxRequest, BlockMask, and_masks, create_block_mask, create_mask,
                                                  flex_attention, or_masks)
from flambeau.nn.functional import scaled_dot_product_attention as attention


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def inputs(heads=2, length=300):
    query = torch.arange(2 * 2 * length * 8.0).reshape(2, 2, length, 8).sin()
    return query, query.cos()[:, :heads], query.tanh()[:, :heads]


def test_as_plain_attention():
    query, key, value = inputs()
    torch.testing.assert_close(flex_attention(query, key, value), attention(query, key, value))
    mask = create_block_mask(causal, None, None, 300, 300)
    torch.testing.assert_close(flex_attention(query, key, value, block_mask=mask), attention(query, key, value, is_causal=True))
    query, key, value = inputs(heads=1)
    torch.testing.assert_close(
        flex_attention(query, key, value, enable_gqa=True, scale=0.5),
        attention(query, key.expand_as(query), value.expand_as(query), scale=0.5),
    )


def test_scores_changed():
    query, key, value = inputs(length=20)
    slopes = torch.tensor([0.5, 0.25])
    result, aux = flex_attention(query, key, value, score_mod=lambda s, b, h, q, k: s + slopes[h] * (k - q),
                                 return_aux=AuxRequest(lse=True, max_scores=True))  # fmt: skip
    distance = torch.arange(20) - torch.arange(20)[:, None]
    bias = slopes[:, None, None] * distance
    torch.testing.assert_close(result, attention(query, key, value, attn_mask=bias.expand(2, 2, 20, 20)))
    scores = query @ key.transpose(-2, -1) / 8**0.5 + bias
    torch.testing.assert_close(aux.lse, scores.logsumexp(-1))
    torch.testing.assert_close(aux.max_scores, scores.amax(-1))


def test_rows_without_keys_are_zero():
    query, key, value = inputs(length=4)
    mask = create_block_mask(lambda b, h, q, k: q != 1, 1, 1, 4, 4)
    result, lse = flex_attention(query.requires_grad_(), key, value, block_mask=mask, return_lse=True)
    assert result[:, :, 1].eq(0).all() and lse[:, :, 1].eq(-torch.inf).all()
    result.sum().backward()
    assert query.grad.isfinite().all()


def test_block_mask():
    mask = create_block_mask(causal, 1, 1, 300, 300)
    assert mask.shape == (1, 1, 300, 300) and mask.BLOCK_SIZE == (128, 128) and mask.numel() == 90000
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 3]]] and mask.full_kv_num_blocks.tolist() == [[[0, 1, 0]]]
    assert mask.kv_indices.tolist() == [[[[0, 1, 2], [1, 0, 2], [0, 1, 2]]]] and mask.kv_indices.dtype == torch.int32
    assert mask.q_num_blocks.tolist() == [[[2, 2, 1]]] and mask.full_q_num_blocks.tolist() == [[[1, 0, 0]]]
    assert mask.to_dense().tolist() == [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]]
    assert str(mask) == "BlockMask(shape=(1, 1, 300, 300), sparsity=-9.23%, \n(0, 0)\n██    \n████  \n██████\n)"
    row = mask[0, 0, 1]
    assert row.kv_num_blocks.tolist() == [[[1]]] and round(row.sparsity(), 2) == 63.59
    with pytest.raises(RuntimeError, match="Cannot use mask_mod from a sliced BlockMask"):
        row.mask_mod(0, 0, 0, 0)
    assert mask._adjust(200, 100).shape == (1, 1, 200, 100)
    other = BlockMask.from_kv_blocks(mask.kv_num_blocks, mask.kv_indices, BLOCK_SIZE=64)
    assert other.seq_lengths == (192, 192) and other.full_kv_indices is None and len(other.as_tuple()) == 17


def test_masks_joined():
    left = lambda b, h, q, k: k == 0  # noqa: E731
    assert create_mask(and_masks(causal, left), None, None, 2, 2).tolist() == [[[[True, False], [True, False]]]]
    assert create_mask(or_masks(causal, left), None, None, 2, 2).tolist() == [[[[True, False], [True, True]]]]
    with pytest.raises(RuntimeError, match="All inputs should be callable mask_mods"):
        or_masks(causal, 5)


@pytest.mark.parametrize(("change", "error", "words"), [
    (lambda q, k, v: (q[0], k, v), NotImplementedError, "NYI: query, key, and value must be 4D tensors"),
    (lambda q, k, v: (q, k[:, :1], v[:, :1]), ValueError, "the same number of heads but got Hq=2 and Hkv=1"),
    (lambda q, k, v: (q, k[..., :4], v), ValueError, "the same embedding dimension but got E=8 and E=4"),
    (lambda q, k, v: (q, k[:1], v[:1]), ValueError, "the same batch size, or non-none block_mask"),
])  # fmt: skip
def test_wrong_shapes(change, error, words):
    with pytest.raises(error, match=words):
        flex_attention(*change(*inputs(length=5)))


def test_wrong_lengths():
    query, key, value = inputs()
    for length, word in ((200, "smaller"), (400, "larger")):
        with pytest.raises(ValueError, match=f"was created for a {word} length"):
            flex_attention(query, key, value, block_mask=create_block_mask(causal, 1, 1, length, length))


def test_the_tracers_marks():
    dynamo = torch._dynamo
    x = torch.ones(2, 3)
    dynamo.mark_dynamic(x, 0)
    dynamo.mark_static(x)
    dynamo.mark_static_address(x)
    assert x._dynamo_dynamic_indices == {0} and x._dynamo_static_indices == {0, 1}
    assert x._dynamo_static_input_type == "unguarded" and not dynamo.is_dynamo_supported()
    with dynamo.config.patch(suppress_errors=True):
        assert dynamo.config.suppress_errors
    assert not dynamo.config.suppress_errors and issubclass(dynamo.exc.Unsupported, RuntimeError)


@pytest.mark.parametrize("name", ["causal_upper_left", "causal_lower_right"])
def test_causal_biases_stand_for_masks(name):
    from flambeau.nn.attention import bias

    query, key, value = inputs(length=5)
    query = query[:, :, :3].requires_grad_()
    causal = getattr(bias, name)(3, 5)
    mask = torch.ones(3, 5, dtype=torch.bool).tril(2 if name == "causal_lower_right" else 0)
    got, want = attention(query, key, value, causal, scale=0.5), attention(query, key, value, mask, scale=0.5)
    torch.testing.assert_close(got, want)
    for a, b in zip(torch.autograd.grad(got.sum(), query), torch.autograd.grad(want.sum(), query)):
        torch.testing.assert_close(a, b)
    assert repr(causal) == repr(mask)
    assert isinstance(causal.variant, bias.CausalVariant) and (causal.seq_len_q, causal.seq_len_kv) == (3, 5)
    with pytest.raises(ValueError, match="CausalBias should not be used with causal=True"):
        attention(query, key, value, attn_mask=causal, is_causal=True)
    with pytest.raises(AssertionError, match=f"{name} only supports 2D tensors"):
        getattr(bias, name)(3)
    with pytest.warns(UserWarning, match="will produce NaNs"):
        bias.causal_lower_right(5, 3)
