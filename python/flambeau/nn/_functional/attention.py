"""Attention."""
import math
import warnings
from enum import Enum

from ... import _C
from ..._names import overridable
from .activation import dropout, softmax
from .norm import linear
from .vision import pad

aten = _C.ops.aten


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    """softmax(Q Kᵀ scale + mask) V. Shapes: (N, ..., L, E), (N, ..., S, E), (N, ..., S, Ev)."""
    return aten.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def _split_linear(x, w, b, parts):
    """`parts` projections of one input with a stacked weight: each (..., E), contiguous."""
    stacked = linear(x, w, b).unflatten(-1, (parts, -1))
    return stacked.movedim(-2, 0).contiguous().unbind(0)


def _in_projection_packed(q, k, v, w, b=None):
    """The three projections with one stacked weight (3E, E); inputs that are one tensor share a product."""
    if q is k and k is v:
        return _split_linear(q, w, b, 3)
    shares = [1, 2] if k is v else [1, 1, 1]
    sizes = [q.size(-1) * n for n in shares]
    biases = [None] * len(shares) if b is None else b.split(sizes)
    projected = []
    for x, w_x, b_x, n in zip((q, k, v), w.split(sizes), biases, shares):
        projected += [linear(x, w_x, b_x)] if n == 1 else _split_linear(x, w_x, b_x, n)
    return tuple(projected)


def _in_projection(q, k, v, w_q, w_k, w_v, b_q=None, b_k=None, b_v=None):
    """The three projections with weights of their own: (E, E), (E, K), (E, V)."""
    width = q.size(-1)
    rows = (("query", q, w_q, b_q), ("key", k, w_k, b_k), ("value", v, w_v, b_v))
    for label, x, w, _ in rows:
        if tuple(w.shape) != (width, x.size(-1)):
            raise AssertionError(f"expecting {label} weights shape of {(width, x.size(-1))}, but got {w.shape}")
    for label, _, _, b in rows:
        if b is not None and tuple(b.shape) != (width,):
            raise AssertionError(f"expecting {label} bias shape of {(width,)}, but got {b.shape}")
    return tuple(linear(x, w, b) for _, x, w, b in rows)


def _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads):
    """Check ranks; returns whether there is a batch dim."""
    ndim = query.dim()
    if ndim not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {ndim}-D query tensor"
        )
    batched = ndim == 3
    kind = "batched (3-D)" if batched else "unbatched (2-D)"
    if key.dim() != ndim or value.dim() != ndim:
        raise AssertionError(
            f"For {kind} `query`, expected `key` and `value` to be {ndim}-D but found {key.dim()}-D and {value.dim()}-D "
            "tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != ndim - 1:
        raise AssertionError(
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {ndim - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise AssertionError(
                f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor "
                "instead"
            )
        if not batched and attn_mask.dim() == 3:
            expected = (num_heads, query.shape[0], key.shape[0])
            if tuple(attn_mask.shape) != expected:
                raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}")
    return batched


def _canonical_mask(mask, mask_name, other_type, other_name, target_type, check_other=True):
    """A mask as numbers to add: bool becomes 0 and -inf."""
    if mask is None:
        return None
    is_float = mask.is_floating_point()
    if mask.dtype != _C.bool and not is_float:
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=3,
        )
    if is_float:
        return mask
    return _C.zeros_like(mask, dtype=target_type).masked_fill_(mask, float("-inf"))


def _none_or_dtype(tensor):
    return None if tensor is None else tensor.dtype


def _needed_masks(query, attn_mask, key_padding_mask, is_causal, need_weights):
    """Both masks as numbers to add, and whether "causal" alone says it all."""
    key_padding_mask = _canonical_mask(
        key_padding_mask, "key_padding_mask", _none_or_dtype(attn_mask), "attn_mask", query.dtype
    )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    padded = key_padding_mask is not None
    if is_causal and not padded and not need_weights:
        return None, None, True
    attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
    return attn_mask, key_padding_mask, is_causal and not padded


def _head_width(width, expected, num_heads):
    """The width of a head; all heads together are as wide as the input."""
    if width != expected:
        raise AssertionError(f"was expecting embedding dimension of {expected}, but got {width}")
    traced = isinstance(width, _C.Tensor)
    head = width.div(num_heads, rounding_mode="trunc") if traced else width // num_heads
    if head * num_heads != width:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {num_heads}")
    return head


def _projected(query, key, value, packed, bias, separate):
    """Queries, keys and values: with the `separate` weights, else (None) with the packed one."""
    if separate is None:
        if key.shape != value.shape:
            raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
        if packed is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        return _in_projection_packed(query, key, value, packed, bias)
    if key.shape[:2] != value.shape[:2]:
        raise AssertionError(f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}")
    for label, w in zip("qkv", separate):
        if w is None:
            raise AssertionError(f"use_separate_proj_weight is True but {label}_proj_weight is None")
    return _in_projection(query, key, value, *separate, *(() if bias is None else bias.chunk(3)))


def _three_dims(mask, shape, copies):
    """A mask of `shape` (L, S), or one per head and sample (`copies`), as (1 or copies, L, S)."""
    ndim = mask.dim()
    if ndim not in (2, 3):
        raise RuntimeError(f"attn_mask's dimension {ndim} is not supported")
    expected = shape if ndim == 2 else (copies, *shape)
    if tuple(mask.shape) != expected:
        raise RuntimeError(f"The shape of the {ndim}D attn_mask is {mask.shape}, but should be {expected}.")
    return mask.unsqueeze(0) if ndim == 2 else mask


def _over_heads(mask, batch, keys, num_heads):
    """A mask of keys (N, S) as (N·heads, 1, S)."""
    for dim, expected in enumerate((batch, keys)):
        if mask.shape[dim] != expected:
            raise AssertionError(f"Expected key_padded_mask.shape[{dim}] to be {expected}, but got {mask.shape[dim]}")
    return mask.repeat_interleave(num_heads, 0).unsqueeze(1)


def _visible(mask):
    """A mask, if any, with one more key that everything sees."""
    return None if mask is None else pad(mask, (0, 1))


def _check_static(label, tensor, batch, width):
    for dim, expected in ((0, batch), (2, width)):
        if tensor.size(dim) != expected:
            raise AssertionError(f"expecting {label}.size({dim}) of {expected}, but got {tensor.size(dim)}")


def _weigh(q, k, v, mask, p):
    """Attention over (B, L, D) with its weights (B, L, S)."""
    q = q * math.sqrt(1.0 / float(q.shape[-1]))
    k = k.transpose(-2, -1)
    weights = softmax(_C.bmm(q, k) if mask is None else _C.baddbmm(mask, q, k), dim=-1)
    if p > 0.0:
        weights = dropout(weights, p=p)
    return _C.bmm(weights, v), weights


@overridable
def multi_head_attention_forward(
    query,
    key,
    value,
    embed_dim_to_check,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    bias_k,
    bias_v,
    add_zero_attn,
    dropout_p,
    out_proj_weight,
    out_proj_bias,
    training=True,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    use_separate_proj_weight=False,
    q_proj_weight=None,
    k_proj_weight=None,
    v_proj_weight=None,
    static_k=None,
    static_v=None,
    average_attn_weights=True,
    is_causal=False,
):
    """Multi-head attention of (L, N, E) on (S, N, E); returns the output and, if asked, the weights (N, L, S)."""
    batched = _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    attn_mask, key_padding_mask, is_causal = _needed_masks(query, attn_mask, key_padding_mask, is_causal, need_weights)
    length, batch, width = query.shape
    copies = batch * num_heads
    head_width = _head_width(width, embed_dim_to_check, num_heads)
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias, separate)
    if attn_mask is not None:
        attn_mask = _three_dims(attn_mask, (length, key.shape[0]), copies)

    # Additional keys: learned ones before the heads are split, a zero one after.
    if (bias_k is None) != (bias_v is None):
        raise AssertionError("bias_k and bias_v must both be given or both be None")
    if bias_k is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to static key or value")
        k, v = (_C.cat([x, extra.repeat(1, batch, 1)]) for x, extra in ((k, bias_k), (v, bias_v)))
        attn_mask, key_padding_mask = _visible(attn_mask), _visible(key_padding_mask)
    for label, static in (("static_k", static_k), ("static_v", static_v)):
        if static is not None:
            _check_static(label, static, copies, head_width)
    q, k, v = (
        x.view(x.shape[0], copies, head_width).transpose(0, 1) if static is None else static
        for x, static in ((q, None), (k, static_k), (v, static_v))
    )
    if add_zero_attn:
        k, v = (_C.cat([x, x.new_zeros(copies, 1, head_width)], dim=1) for x in (k, v))
        attn_mask, key_padding_mask = _visible(attn_mask), _visible(key_padding_mask)

    keys = k.size(1)
    if key_padding_mask is not None:
        spread = _over_heads(key_padding_mask, batch, keys, num_heads)
        attn_mask = spread if attn_mask is None else attn_mask + spread
    p = dropout_p if training else 0.0
    weights = None
    if need_weights:
        output, weights = _weigh(q, k, v, attn_mask, p)
        output = output.transpose(0, 1)
        weights = weights.view(batch, num_heads, length, keys)
        if average_attn_weights:
            weights = weights.mean(dim=1)
        if not batched:
            weights = weights.squeeze(0)
    else:
        if attn_mask is not None:
            shared = attn_mask.size(0) == 1
            attn_mask = attn_mask.unsqueeze(0) if shared else attn_mask.view(batch, num_heads, -1, keys)
        q, k, v = (x.view(batch, num_heads, -1, head_width) for x in (q, k, v))
        output = scaled_dot_product_attention(q, k, v, attn_mask, p, is_causal).permute(2, 0, 1, 3)
    output = linear(output.reshape(length * batch, width), out_proj_weight, out_proj_bias).view(length, batch, -1)
    return output if batched else output.squeeze(1), weights


# ---- scaled and grouped products ----


class ScalingType(Enum):
    """How scales are laid out over a matrix."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(Enum):
    """How scales are ordered in memory."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def _listed(x):
    return [] if x is None else list(x) if isinstance(x, (list, tuple)) else [x]


def _codes(x):
    return [e.value for e in _listed(x)]


def scaled_mm(
    mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None, swizzle_b=None, bias=None,
    output_dtype=_C.bfloat16, contraction_dim=(), use_fast_accum=False,
):
    """Matrix product of low-precision matrices with scales."""
    return aten._scaled_mm_v2(
        mat_a, mat_b, _listed(scale_a), _codes(scale_recipe_a), _codes(swizzle_a), _listed(scale_b), _codes(scale_recipe_b),
        _codes(swizzle_b), bias, output_dtype, contraction_dim, use_fast_accum,
    )


def scaled_grouped_mm(
    mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None, swizzle_b=None, bias=None, offs=None,
    output_dtype=_C.bfloat16, contraction_dim=(), use_fast_accum=False,
):
    """Grouped matrix products of low-precision matrices with scales."""
    return aten._scaled_grouped_mm_v2(
        mat_a, mat_b, _listed(scale_a), _codes(scale_recipe_a), _codes(swizzle_a), _listed(scale_b), _codes(scale_recipe_b),
        _codes(swizzle_b), offs, bias, output_dtype, contraction_dim, use_fast_accum,
    )


def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """One matrix product per group of rows, the groups ending at `offs`."""
    return aten._grouped_mm(mat_a, mat_b, offs=offs, bias=bias, out_dtype=out_dtype)
