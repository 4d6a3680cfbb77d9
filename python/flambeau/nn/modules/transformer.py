"""Transformers."""
import copy
import math
import warnings

from ... import _C
from ..._names import factory_kwargs
from .. import functional as F
from .. import init
from .._functional.attention import _canonical_mask, _none_or_dtype
from ._build import keep
from .activation import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

__all__ = ["Transformer", "TransformerEncoder", "TransformerDecoder", "TransformerEncoderLayer", "TransformerDecoderLayer"]


def _generate_square_subsequent_mask(sz, device=None, dtype=None):
    """-inf above the diagonal, 0 elsewhere: (sz, sz)."""
    return _C.full((sz, sz), -math.inf, dtype=dtype, device=device).triu(1)


def _get_seq_len(src, batch_first):
    size = src.size()
    return size[0] if len(size) == 2 else size[1 if batch_first else 0]


def _get_clones(module, n):
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


def _get_activation_fn(activation):
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(F, activation)


def _detect_is_causal_mask(mask, is_causal=None, size=None):
    """Whether a mask is the causal one: as told, or by looking."""
    if is_causal is not None or mask is None:
        return is_causal is True
    n = size if size is not None else mask.size(-2)
    causal = _generate_square_subsequent_mask(n, device=mask.device, dtype=mask.dtype)
    return mask.size() == causal.size() and bool((mask == causal).all())


class Transformer(Module):
    """Encoder and decoder: src (S, N, E), tgt (T, N, E) to (T, N, E); with `batch_first` the batch comes first."""

    def __init__(
        self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, dropout=0.1,
        activation=F.relu, custom_encoder=None, custom_decoder=None, layer_norm_eps=1e-05, batch_first=False,
        norm_first=False, bias=True, device=None, dtype=None,
    ):
        like = factory_kwargs(device, dtype)
        super().__init__()
        settings = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)

        def stack(kind, layer_kind, count):
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, **like)
            return kind(layer_kind(*settings, **like), count, norm)

        self.encoder = custom_encoder
        if custom_encoder is None:
            self.encoder = stack(TransformerEncoder, TransformerEncoderLayer, num_encoder_layers)
        self.decoder = custom_decoder
        if custom_decoder is None:
            self.decoder = stack(TransformerDecoder, TransformerDecoderLayer, num_decoder_layers)
        self._reset_parameters()
        keep(self, d_model=d_model, nhead=nhead, batch_first=batch_first)

    def forward(
        self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None, tgt_key_padding_mask=None,
        memory_key_padding_mask=None, src_is_causal=None, tgt_is_causal=None, memory_is_causal=False,
    ):
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if {src.size(-1), tgt.size(-1)} != {self.d_model}:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        own = dict(tgt_mask=tgt_mask, tgt_key_padding_mask=tgt_key_padding_mask, tgt_is_causal=tgt_is_causal)
        return self.decoder(
            tgt, memory, memory_mask=memory_mask, memory_key_padding_mask=memory_key_padding_mask,
            memory_is_causal=memory_is_causal, **own,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """The causal mask: -inf above the diagonal, 0 elsewhere, (sz, sz)."""
        return _generate_square_subsequent_mask(sz, dtype=dtype, device=device)

    def _reset_parameters(self):
        for matrix in (p for p in self.parameters() if p.dim() > 1):
            init.xavier_uniform_(matrix)


def _why_not_nested(layer):
    """Why an encoder of such layers does not skip padding at inference; "" if it does."""
    if not isinstance(layer, TransformerEncoderLayer):
        return "encoder_layer was not TransformerEncoderLayer"
    attention = layer.self_attn
    if layer.norm_first:
        return "encoder_layer.norm_first was True"
    if not attention.batch_first:
        return (
            "encoder_layer.self_attn.batch_first was not True(use batch_first for better inference performance)"
        )
    if attention.in_proj_bias is None:
        return "encoder_layer.self_attn was passed bias=False"
    if not attention._qkv_same_embed_dim:
        return "encoder_layer.self_attn._qkv_same_embed_dim was not True"
    if not layer.activation_relu_or_gelu:
        return "encoder_layer.activation_relu_or_gelu was not True"
    if layer.norm1.eps != layer.norm2.eps:
        return "encoder_layer.norm1.eps was not equal to encoder_layer.norm2.eps"
    if attention.num_heads % 2 == 1:
        return "encoder_layer.self_attn.num_heads is odd"
    return ""


class TransformerEncoder(Module):
    """A stack of `num_layers` copies of an encoder layer."""

    __constants__ = ["norm"]

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        keep(
            self, num_layers=num_layers, norm=norm, enable_nested_tensor=enable_nested_tensor,
            use_nested_tensor=enable_nested_tensor, mask_check=mask_check,
        )
        why_not = _why_not_nested(encoder_layer)
        if enable_nested_tensor and why_not:
            warnings.warn(
                f"enable_nested_tensor is True, but self.use_nested_tensor is False because {why_not}", stacklevel=2
            )
            self.use_nested_tensor = False

    def _skips_padding(self, src, mask, padding):
        """At inference, with padding at the end of each sequence only, padded places come out as zeros."""
        if not self.use_nested_tensor or padding is None or mask is not None or src.dim() != 3:
            return False
        layer = self.layers[0]
        if layer.training or layer.self_attn.training:
            return False
        if _C.is_grad_enabled() and (src.requires_grad or any(p.requires_grad for p in layer.parameters())):
            return False
        kept = padding.logical_not()
        return not self.mask_check or not bool((kept[:, 1:] & ~kept[:, :-1]).any())

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        padding = _canonical_mask(src_key_padding_mask, "src_key_padding_mask", _none_or_dtype(mask), "mask", src.dtype)
        mask = _canonical_mask(mask, "mask", None, "", src.dtype, False)
        output = src
        skips = self._skips_padding(src, mask, padding)
        batch_first = getattr(getattr(self.layers[0], "self_attn", None), "batch_first", False)
        causal = _detect_is_causal_mask(mask, is_causal, _get_seq_len(src, batch_first))
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        if skips:
            output = output.masked_fill(padding.ne(0).unsqueeze(-1), 0.0)
        return output if self.norm is None else self.norm(output)


class TransformerDecoder(Module):
    """A stack of `num_layers` copies of a decoder layer."""

    __constants__ = ["norm"]

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        keep(self, num_layers=num_layers, norm=norm)

    def forward(
        self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None,
        tgt_is_causal=None, memory_is_causal=False,
    ):
        length = _get_seq_len(tgt, self.layers[0].self_attn.batch_first)
        options = dict(
            tgt_mask=tgt_mask, tgt_key_padding_mask=tgt_key_padding_mask, memory_mask=memory_mask,
            memory_key_padding_mask=memory_key_padding_mask, memory_is_causal=memory_is_causal,
            tgt_is_causal=_detect_is_causal_mask(tgt_mask, tgt_is_causal, length),
        )
        output = tgt
        for layer in self.layers:
            output = layer(output, memory, **options)
        return output if self.norm is None else self.norm(output)


class _Layer(Module):
    """What encoder and decoder layers share: the feed-forward net, and norms and dropouts for `blocks` residuals."""

    __constants__ = ["norm_first"]

    def _feed_forward(self, width, inner, dropout, bias, norm_first, eps, blocks, like):
        self.linear1 = Linear(width, inner, bias=bias, **like)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(inner, width, bias=bias, **like)
        self.norm_first = norm_first
        numbers = range(1, blocks + 1)
        for i in numbers:
            setattr(self, f"norm{i}", LayerNorm(width, eps, bias=bias, **like))
        for i in numbers:
            setattr(self, f"dropout{i}", Dropout(dropout))

    def __setstate__(self, state):
        super().__setstate__(state)
        vars(self).setdefault("activation", F.relu)

    def _inner(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        return self.dropout1(_attended(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal))


def _attended(attention, x, keys, mask, padding, causal):
    """The output of attention, without weights."""
    options = dict(attn_mask=mask, key_padding_mask=padding, is_causal=causal, need_weights=False)
    return attention(x, keys, keys, **options)[0]


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward net, each with a residual and a norm."""

    def __init__(
        self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-05, batch_first=False,
        norm_first=False, bias=True, device=None, dtype=None,
    ):
        like = factory_kwargs(device, dtype)
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **like)
        self._feed_forward(d_model, dim_feedforward, dropout, bias, norm_first, layer_norm_eps, 2, like)
        if isinstance(activation, str):
            activation = _get_activation_fn(activation)
        name = type(activation).__name__ if isinstance(activation, Module) else None
        self.activation_relu_or_gelu = (
            1 if activation is F.relu or name == "ReLU" else 2 if activation is F.gelu or name == "GELU" else 0
        )
        self.activation = activation

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        padding = _canonical_mask(
            src_key_padding_mask, "src_key_padding_mask", _none_or_dtype(src_mask), "src_mask", src.dtype
        )
        mask = _canonical_mask(src_mask, "src_mask", None, "", src.dtype, False)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), mask, padding, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, mask, padding, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _ff_block(self, x):
        return self.dropout2(self._inner(x))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention on the encoder's output and a feed-forward net, each with a residual and a norm."""

    def __init__(
        self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-05, batch_first=False,
        norm_first=False, bias=True, device=None, dtype=None,
    ):
        like = factory_kwargs(device, dtype)
        super().__init__()
        for name in ("self_attn", "multihead_attn"):
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **like))
        self._feed_forward(d_model, dim_feedforward, dropout, bias, norm_first, layer_norm_eps, 3, like)
        self.activation = _get_activation_fn(activation) if isinstance(activation, str) else activation

    def forward(
        self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None,
        tgt_is_causal=False, memory_is_causal=False,
    ):
        x = tgt
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), memory, *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, memory, *other))
        return self.norm3(x + self._ff_block(x))

    def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
        return self.dropout2(_attended(self.multihead_attn, x, mem, attn_mask, key_padding_mask, is_causal))

    def _ff_block(self, x):
        return self.dropout3(self._inner(x))
