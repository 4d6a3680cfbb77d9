"""Activations and attention."""
import warnings

from ... import _C
from ..._names import factory_kwargs
from .. import functional as F
from .. import init
from .._functional.attention import _canonical_mask, _none_or_dtype
from ..parameter import Parameter
from ._build import keep, make, weight_of
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

__all__ = [
    "Threshold", "ReLU", "RReLU", "Hardtanh", "ReLU6", "Sigmoid", "Hardsigmoid", "Tanh", "SiLU", "Mish", "Hardswish", "ELU",
    "CELU", "SELU", "GLU", "GELU", "Hardshrink", "LeakyReLU", "LogSigmoid", "Softplus", "Softshrink", "MultiheadAttention",
    "PReLU", "Softsign", "Tanhshrink", "Softmin", "Softmax", "Softmax2d", "LogSoftmax",
]


def _renamed(old, new):
    warnings.warn(
        f"keyword argument `{old}` is deprecated and renamed to `{new}`", FutureWarning, stacklevel=3
    )


class Threshold(Module):
    """x above `threshold`, else `value`."""

    __constants__ = ["threshold", "value", "inplace"]

    def __init__(self, threshold, value, inplace=False):
        super().__init__()
        keep(self, threshold=threshold, value=value, inplace=inplace)

    def forward(self, input):
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self):
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class ReLU(Module):
    """max(0, x)."""

    __constants__ = ["inplace"]

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return F.relu(input, self.inplace)

    def extra_repr(self):
        return "inplace=True" if self.inplace else ""


class RReLU(Module):
    """Leaky ReLU with a random slope in [lower, upper] when training."""

    __constants__ = ["lower", "upper", "inplace"]

    def __init__(self, lower=1.0 / 8, upper=1.0 / 3, inplace=False):
        super().__init__()
        keep(self, lower=lower, upper=upper, inplace=inplace)

    def forward(self, input):
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self):
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class Hardtanh(Module):
    """x cut to [min_val, max_val]."""

    __constants__ = ["min_val", "max_val", "inplace"]

    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False, min_value=None, max_value=None):
        super().__init__()
        if min_value is not None:
            _renamed("min_value", "min_val")
            min_val = min_value
        if max_value is not None:
            _renamed("max_value", "max_val")
            max_val = max_value
        keep(self, min_val=min_val, max_val=max_val, inplace=inplace)
        if max_val <= min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")

    def forward(self, input):
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class ReLU6(Hardtanh):
    """x cut to [0, 6]."""

    def __init__(self, inplace=False):
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self):
        return "inplace=True" if self.inplace else ""


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, input):
        return F.sigmoid(input)


class Hardsigmoid(Module):
    """x / 6 + 1/2, cut to [0, 1]."""

    __constants__ = ["inplace"]

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return F.hardsigmoid(input, self.inplace)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, input):
        return F.tanh(input)


class SiLU(Module):
    """x sigmoid(x)."""

    __constants__ = ["inplace"]

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return F.silu(input, self.inplace)

    def extra_repr(self):
        return "inplace=True" if self.inplace else ""


class Mish(Module):
    """x tanh(softplus(x))."""

    __constants__ = ["inplace"]

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return F.mish(input, self.inplace)

    def extra_repr(self):
        return "inplace=True" if self.inplace else ""


class Hardswish(Module):
    """x relu6(x + 3) / 6."""

    __constants__ = ["inplace"]

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return F.hardswish(input, self.inplace)


class ELU(Module):
    """x, or alpha (exp(x) - 1) below 0."""

    __constants__ = ["alpha", "inplace"]

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        keep(self, alpha=alpha, inplace=inplace)

    def forward(self, input):
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self):
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class CELU(Module):
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1))."""

    __constants__ = ["alpha", "inplace"]

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        keep(self, alpha=alpha, inplace=inplace)

    def forward(self, input):
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self):
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class SELU(Module):
    """Scaled ELU with the self-normalizing constants."""

    __constants__ = ["inplace"]

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return F.selu(input, self.inplace)

    def extra_repr(self):
        return "inplace=True" if self.inplace else ""


class GLU(Module):
    """First half of `dim` times the sigmoid of the second."""

    __constants__ = ["dim"]

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return F.glu(input, self.dim)

    def extra_repr(self):
        return f"dim={self.dim}"


class GELU(Module):
    """x times the normal distribution function of x."""

    __constants__ = ["approximate"]

    def __init__(self, approximate="none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input):
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self):
        return f"approximate={self.approximate!r}"


class Hardshrink(Module):
    """x, or 0 within [-lambd, lambd]."""

    __constants__ = ["lambd"]

    def __init__(self, lambd=0.5):
        super().__init__()
        self.lambd = lambd

    def forward(self, input):
        return F.hardshrink(input, self.lambd)

    def extra_repr(self):
        return f"{self.lambd}"


class LeakyReLU(Module):
    """x, or negative_slope x below 0."""

    __constants__ = ["negative_slope", "inplace"]

    def __init__(self, negative_slope=0.01, inplace=False):
        super().__init__()
        keep(self, negative_slope=negative_slope, inplace=inplace)

    def forward(self, input):
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self):
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class LogSigmoid(Module):
    """log(sigmoid(x))."""

    def forward(self, input):
        return F.logsigmoid(input)


class Softplus(Module):
    """log(1 + exp(beta x)) / beta, linear above `threshold`."""

    __constants__ = ["beta", "threshold"]

    def __init__(self, beta=1.0, threshold=20.0):
        super().__init__()
        keep(self, beta=beta, threshold=threshold)

    def forward(self, input):
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self):
        return f"beta={self.beta}, threshold={self.threshold}"


class Softshrink(Module):
    """x moved towards 0 by `lambd`."""

    __constants__ = ["lambd"]

    def __init__(self, lambd=0.5):
        super().__init__()
        self.lambd = lambd

    def forward(self, input):
        return F.softshrink(input, self.lambd)

    def extra_repr(self):
        return f"{self.lambd}"


class Softsign(Module):
    """x / (1 + |x|)."""

    def forward(self, input):
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x)."""

    def forward(self, input):
        return F.tanhshrink(input)


class PReLU(Module):
    """x, or a learned slope times x below 0."""

    __constants__ = ["num_parameters"]

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        keep(self, num_parameters=num_parameters, init=init)
        self.weight = Parameter(_C.empty(num_parameters, **factory_kwargs(device, dtype)))
        self.reset_parameters()

    def reset_parameters(self):
        """Every slope back to `init`."""
        init.constant_(self.weight, self.init)

    def forward(self, input):
        return F.prelu(input, weight_of(self))

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"


class _AlongDim(Module):
    __constants__ = ["dim"]
    _fn = None

    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def __setstate__(self, state):
        super().__setstate__(state)
        if not hasattr(self, "dim"):
            self.dim = None

    def forward(self, input):
        return type(self)._fn(input, self.dim, _stacklevel=5)

    def extra_repr(self):
        return f"dim={self.dim}"


class Softmin(_AlongDim):
    """softmax(-x)."""

    _fn = staticmethod(F.softmin)


class Softmax(_AlongDim):
    """exp(x) over its sum along `dim`."""

    _fn = staticmethod(F.softmax)


class LogSoftmax(_AlongDim):
    """log(softmax(x))."""

    _fn = staticmethod(F.log_softmax)


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input):
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)


_PROJECTIONS = ("q_proj_weight", "k_proj_weight", "v_proj_weight")


class MultiheadAttention(Module):
    """Multi-head attention of (L, N, E) on (S, N, E); with `batch_first`, of (N, L, E) on (N, S, E)."""

    __constants__ = ["batch_first"]

    def __init__(
        self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None, vdim=None,
        batch_first=False, device=None, dtype=None,
    ):
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        like = factory_kwargs(device, dtype)
        super().__init__()
        keys, values = (embed_dim if width is None else width for width in (kdim, vdim))
        head_dim, rest = divmod(embed_dim, num_heads)
        if rest:
            raise AssertionError("embed_dim must be divisible by num_heads")
        keep(
            self, embed_dim=embed_dim, kdim=keys, vdim=values, num_heads=num_heads, head_dim=head_dim, dropout=dropout,
            batch_first=batch_first, add_zero_attn=add_zero_attn, _qkv_same_embed_dim=keys == values == embed_dim,
        )
        packed = (3 * embed_dim, embed_dim) if self._qkv_same_embed_dim else None
        widths = dict(zip(_PROJECTIONS, (embed_dim, keys, values)))
        apart = {name: None if packed else (embed_dim, width) for name, width in widths.items()}
        shapes = dict(in_proj_weight=packed, **apart) if packed else dict(apart, in_proj_weight=None)
        make(self, like, **shapes, in_proj_bias=3 * embed_dim if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **like)
        if add_bias_kv:
            make(self, like, bias_k=(1, 1, embed_dim), bias_v=(1, 1, embed_dim))
        else:
            self.bias_k = self.bias_v = None
        self._reset_parameters()

    def _reset_parameters(self):
        for name in ("in_proj_weight",) if self._qkv_same_embed_dim else _PROJECTIONS:
            init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            for bias in (self.in_proj_bias, self.out_proj.bias):
                init.zeros_(bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def __setstate__(self, state):
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(
        self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True,
        is_causal=False,
    ):
        if query.is_nested or key.is_nested or value.is_nested:
            why_not = self._why_not_nested(query, key, value, key_padding_mask is not None or attn_mask is not None)
            if why_not is not None:
                raise AssertionError("MultiheadAttention does not support NestedTensor outside of its fast path. The fast path "
                                     f"was not hit because {why_not}")
            return self._over_sequences(query, need_weights, average_attn_weights)
        key_padding_mask = _canonical_mask(
            key_padding_mask, "key_padding_mask", _none_or_dtype(attn_mask), "attn_mask", query.dtype
        )
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        swap = self.batch_first and query.dim() == 3
        inputs = query, key, value
        if swap:  # what is one tensor stays one tensor
            swapped = {id(x): x.transpose(1, 0) for x in inputs}
            inputs = (swapped[id(x)] for x in inputs)
        options = dict(
            training=self.training, key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            average_attn_weights=average_attn_weights, is_causal=is_causal,
        )
        if not self._qkv_same_embed_dim:
            options.update({name: getattr(self, name) for name in _PROJECTIONS}, use_separate_proj_weight=True)
        sizes = self.embed_dim, self.num_heads
        tensors = self.in_proj_weight, self.in_proj_bias, self.bias_k, self.bias_v
        output = self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias
        attended, weights = F.multi_head_attention_forward(*inputs, *sizes, *tensors, *output, **options)
        return (attended.transpose(1, 0) if swap else attended), weights

    def _why_not_nested(self, query, key, value, masked):
        """Why nested tensors are refused; None where PyTorch takes them: in inference, of the strided layout, without masks."""
        if not (query is key and key is value):
            return "non-self attention was used (query, key, and value are not the same Tensor)"
        reasons = {
            "in_proj_weight was None": self.in_proj_weight is None,
            "training is enabled": self.training,
            "self.num_heads is not even": self.num_heads % 2 == 1,
            "batch_first was not True": not self.batch_first,
            "self.bias_k was not None": self.bias_k is not None,
            "self.bias_v was not None": self.bias_v is not None,
            "add_zero_attn was enabled": self.add_zero_attn,
            "": self.in_proj_bias is None,
            "supplying both src_key_padding_mask and src_mask at the same time                                  is not "
            "supported with NestedTensor input": masked,
            "some Tensor argument has_torch_function": query.layout != _C.strided,
            "grad is enabled and at least one of query or the input/output projection weights or biases requires_grad":
                _C.is_grad_enabled() and any(t.requires_grad for t in (query, *self.parameters())),
        }
        return next((reason for reason, holds in reasons.items() if holds), None)

    def _over_sequences(self, nested, need_weights, average_attn_weights):
        """Self-attention within each part of a nested tensor; weights are padded with zeros, `(N, [heads,] L, L)`."""
        from ...nested import as_nested_tensor, to_padded_tensor

        results = [self(part, part, part, need_weights=need_weights, average_attn_weights=average_attn_weights)
                   for part in (p.unsqueeze(0) for p in nested.unbind())]
        attended = as_nested_tensor([out.squeeze(0) for out, _ in results])
        if not need_weights:
            return attended, None
        return attended, to_padded_tensor(as_nested_tensor([weights.squeeze(0) for _, weights in results]), 0.0)

    def merge_masks(self, attn_mask, key_padding_mask, query):
        """One mask of both, and its kind: 0 attn_mask alone, 1 key_padding_mask alone, 2 both (N, heads, L, L)."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length, _ = query.shape
        heads = (batch, self.num_heads, length, length)
        per_head = attn_mask.dim() == 3
        merged = attn_mask.view(batch, -1, length, length) if per_head else attn_mask.expand(heads)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.view(batch, 1, 1, length).expand(heads)
        return merged, 2
