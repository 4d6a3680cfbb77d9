"""Attention between the sequences of nested tensors."""
from ... import _C
from .nested_tensor import NestedTensor, nested_view_from_values_offsets

__all__ = ["attention"]


def _check(query, key, value, attn_mask):
    """ValueError unless all three are nested, of one dtype and at least three dims, and there is no mask."""
    three = {"query": query, "key": key, "value": value}
    if not all(isinstance(t, NestedTensor) for t in three.values()):
        nested = [f"{name}.is_nested: {t.is_nested}" for name, t in three.items()]
        raise ValueError("Expected query, key, and value to be nested tensors, but got "
                         f"{nested[0]}, {nested[1]}, and {nested[2]} instead.")
    for what in ("dtype", "device"):
        if any(getattr(t, what) != getattr(query, what) for t in three.values()):
            found = [f"{name}.{what}: {getattr(t, what)}" for name, t in three.items()]
            raise ValueError(f"Expected query, key, and value to have the same {what}, but got "
                             f"{found[0]}, {found[1]}, and {found[2]} instead.")
    if any(t.dim() < 3 for t in three.values()):
        found = [f"{name}.dim: {t.dim()}" for name, t in three.items()]
        raise ValueError("Expected query, key, and value to all be  at least 3 dimensional, but got "
                         f"{found[0]}, {found[1]} and {found[2]} instead.")
    if query._ragged_idx != key._ragged_idx or query._ragged_idx != value._ragged_idx:
        raise ValueError(f"Expected query, key, and value to all be ragged on the same dimension, but got ragged dims "
                         f"{query._ragged_idx}, {key._ragged_idx}, and {value._ragged_idx}, respectively.")
    if attn_mask is not None:
        raise ValueError("Masks are not yet supported!")
    for t in (key, value):
        if t._size[0] != query._size[0]:
            raise RuntimeError(f"matmul: Expected size for the 1st dimension of 2nd input tensor to be: {query._size[0]} "
                               f"but got: {t._size[0]}.")


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """Every sequence of `query` attends to that of `key` and `value` in its place.

    Shapes `(B, H, j, E)`, `(B, H, k, E)` and `(B, H, k, V)` give `(B, H, j, V)`, whose memory is that of `(B, j, H, V)`.
    """
    from ...nn.functional import scaled_dot_product_attention

    _check(query, key, value, attn_mask)
    options = dict(dropout_p=dropout_p, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)
    parts = [scaled_dot_product_attention(q, k, v, **options)
             for q, k, v in zip(query.unbind(), key.unbind(), value.unbind())]
    ragged = query._ragged_idx
    values = _C.cat([part.movedim(ragged - 1, 0) for part in parts]).movedim(0, ragged - 1)
    if query._lengths is None:
        return query.like(values)
    lengths = query._lengths
    return nested_view_from_values_offsets(values, _C.cat([lengths.new_zeros(1), lengths.cumsum(0)]), ragged)
