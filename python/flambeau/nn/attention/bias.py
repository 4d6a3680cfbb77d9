"""Causal biases for `scaled_dot_product_attention`, which say where queries and keys are aligned."""
import warnings
from enum import IntEnum, auto

from ... import _C
from ..functional import scaled_dot_product_attention

__all__ = ["causal_lower_right", "causal_upper_left", "CausalVariant", "CausalBias"]


class CausalVariant(IntEnum):
    """The corner of the matrix of scores in which the diagonal begins (the first query) or ends (the last one)."""

    UPPER_LEFT = auto()
    LOWER_RIGHT = auto()


class CausalBias(_C.Tensor):
    """Stands for a triangular mask; attention takes it as `attn_mask` and need not hold it in memory."""

    def __new__(cls, variant, seq_len_q, seq_len_kv):
        return _C.empty(()).expand(int(variant), seq_len_q, seq_len_kv).as_subclass(cls)

    def __init__(self, variant, seq_len_q, seq_len_kv):
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant == CausalVariant.LOWER_RIGHT:
            warnings.warn(
                "Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!", stacklevel=2
            )

    def _materialize(self, device=None):
        """The mask as a tensor of booleans."""
        offset = self.seq_len_kv - self.seq_len_q if self.variant == CausalVariant.LOWER_RIGHT else 0
        return _C.ones(self.seq_len_q, self.seq_len_kv, dtype=_C.bool, device=device or "cpu").tril(offset)

    @staticmethod
    def _dispatch(query, key, value, attn_mask, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        if is_causal:
            raise ValueError("CausalBias should not be used with causal=True")
        options = {"dropout_p": dropout_p, "scale": scale, "enable_gqa": enable_gqa}
        if attn_mask.seq_len_q == attn_mask.seq_len_kv or attn_mask.variant == CausalVariant.UPPER_LEFT:
            return scaled_dot_product_attention(query, key, value, is_causal=True, **options)
        return scaled_dot_product_attention(query, key, value, attn_mask=attn_mask._materialize(query.device), **options)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") == "scaled_dot_product_attention":
            return cls._dispatch(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs or {})

    def __repr__(self):
        return repr(self._materialize())


def causal_upper_left(*size):
    """The bias in which query i sees keys 0 to i."""
    return _bias("causal_upper_left", CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size):
    """The bias in which the last query sees every key."""
    return _bias("causal_lower_right", CausalVariant.LOWER_RIGHT, size)


def _bias(name, variant, size):
    if len(size) != 2:
        raise AssertionError(f"{name} only supports 2D tensors")
    return CausalBias(variant, *size)
