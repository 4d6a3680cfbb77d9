"""Activations, softmax and its kin, dropout."""
import warnings

from ... import _C
from ..._names import overridable

aten = _C.ops.aten

# In-place forms and plain operators, under the names they have here.
celu_ = _C.celu_
relu_ = _C.relu_
rrelu_ = _C.rrelu_
selu_ = _C.selu_
threshold_ = _C.threshold_
hardshrink = _C.hardshrink
prelu = _C.prelu


def elu_(input, alpha=1.0):
    """In-place `elu`."""
    return aten.elu_(input, alpha)


def hardtanh_(input, min_val=-1.0, max_val=1.0):
    """In-place `hardtanh`."""
    return aten.hardtanh_(input, min_val, max_val)


def leaky_relu_(input, negative_slope=0.01):
    """In-place `leaky_relu`."""
    return aten.leaky_relu_(input, negative_slope)


@overridable
def threshold(input, threshold, value, inplace=False):
    """`input` where it exceeds `threshold`, else `value`."""
    return _C.threshold_(input, threshold, value) if inplace else _C.threshold(input, threshold, value)


@overridable
def relu(input, inplace=False):
    """max(0, x)."""
    return _C.relu_(input) if inplace else _C.relu(input)


@overridable
def glu(input, dim=-1):
    """First half of `dim` times the sigmoid of the second."""
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return aten.glu(input, dim)


@overridable
def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """`input` cut to [min_val, max_val]."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return aten.hardtanh_(input, min_val, max_val) if inplace else aten.hardtanh(input, min_val, max_val)


@overridable
def relu6(input, inplace=False):
    """`input` cut to [0, 6]."""
    return aten.relu6_(input) if inplace else aten.relu6(input)


@overridable
def elu(input, alpha=1.0, inplace=False):
    """x, or alpha (exp(x) - 1) below 0."""
    return aten.elu_(input, alpha) if inplace else aten.elu(input, alpha)


@overridable
def selu(input, inplace=False):
    """Scaled ELU with the self-normalizing constants."""
    return _C.selu_(input) if inplace else _C.selu(input)


@overridable
def celu(input, alpha=1.0, inplace=False):
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1))."""
    return _C.celu_(input, alpha) if inplace else _C.celu(input, alpha)


@overridable
def leaky_relu(input, negative_slope=0.01, inplace=False):
    """x, or negative_slope x below 0."""
    return aten.leaky_relu_(input, negative_slope) if inplace else aten.leaky_relu(input, negative_slope)


@overridable
def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """Leaky ReLU with a random slope in [lower, upper] when training."""
    return (_C.rrelu_ if inplace else _C.rrelu)(input, lower, upper, training)


def logsigmoid(input, *, out=None):
    """log(sigmoid(x))."""
    return aten.log_sigmoid(input, out=out)


def gelu(input, approximate="none", *, out=None):
    """x times the normal distribution function of x; `approximate` may be "tanh"."""
    if out is not None:
        return aten.gelu(input, approximate=approximate, out=out)
    return aten.gelu(input, approximate=approximate)


def softplus(input, beta=1, threshold=20, *, out=None):
    """log(1 + exp(beta x)) / beta, linear above `threshold`."""
    return aten.softplus(input, beta, threshold, out=out)


def softshrink(input, lambd=0.5, *, out=None):
    """x moved towards 0 by `lambd`."""
    return aten.softshrink(input, lambd, out=out)


@overridable
def tanhshrink(input):
    """x - tanh(x)."""
    return input - input.tanh()


@overridable
def softsign(input):
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


def _softmax_dim(name, dim, ndim):
    if dim is not None:
        return dim
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=5,
    )
    return 0 if ndim in (0, 1, 3) else 1


@overridable
def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """softmax(-x)."""
    return (-input).softmax(_softmax_dim("softmin", dim, input.dim()), dtype=dtype)


@overridable
def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(x) over its sum along `dim`."""
    return input.softmax(_softmax_dim("softmax", dim, input.dim()), dtype=dtype)


@overridable
def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """log(softmax(x))."""
    return input.log_softmax(_softmax_dim("log_softmax", dim, input.dim()), dtype=dtype)


@overridable
def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A sample of the Gumbel-softmax distribution; with `hard`, one-hot with the soft gradient."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=3)
    gumbels = -_C.empty_like(logits, memory_format=_C.contiguous_format).exponential_().log()
    soft = ((logits + gumbels) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = _C.zeros_like(logits, memory_format=_C.contiguous_format).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft


@overridable
def tanh(input):
    """Hyperbolic tangent."""
    return input.tanh()


@overridable
def sigmoid(input):
    """1 / (1 + exp(-x))."""
    return input.sigmoid()


@overridable
def hardsigmoid(input, inplace=False):
    """x / 6 + 1/2, cut to [0, 1]."""
    return aten.hardsigmoid_(input) if inplace else aten.hardsigmoid(input)


@overridable
def silu(input, inplace=False):
    """x sigmoid(x)."""
    return aten.silu_(input) if inplace else aten.silu(input)


@overridable
def mish(input, inplace=False):
    """x tanh(softplus(x))."""
    return aten.mish_(input) if inplace else aten.mish(input)


@overridable
def hardswish(input, inplace=False):
    """x relu6(x + 3) / 6."""
    return aten.hardswish_(input) if inplace else aten.hardswish(input)


# ---- dropout ----


def _check_probability(p):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


@overridable
def dropout(input, p=0.5, training=True, inplace=False):
    """Zero elements with probability p and scale the rest by 1 / (1 - p)."""
    _check_probability(p)
    return _C.dropout_(input, p, training) if inplace else _C.dropout(input, p, training)


@overridable
def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps mean and variance of SELU activations."""
    _check_probability(p)
    return _C.alpha_dropout_(input, p, training) if inplace else _C.alpha_dropout(input, p, training)


def _feature_dropout(input, p, training, inplace, batched_dim):
    batched = input.dim() == batched_dim
    if not batched:
        input = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = _C.feature_dropout_(input, p, training) if inplace else _C.feature_dropout(input, p, training)
    if batched:
        return result
    return result.squeeze_(0) if inplace else result.squeeze(0)


def _warn_odd_rank(name, ndim, spatial, low, high):
    warnings.warn(
        f"{name}: Received a {ndim}-D input to {name}, which is deprecated and will result in an error in a future release. "
        f"To retain the behavior and silence this warning, please use dropout instead. Note that {name} exists to provide "
        f"channel-wise dropout on inputs with {spatial} spatial dimensions, a channel dimension, and an optional batch "
        f"dimension (i.e. {low}D or {high}D inputs).",
        stacklevel=5,
    )


@overridable
def dropout1d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of (N, C, L) or (C, L)."""
    _check_probability(p)
    ndim = input.dim()
    if ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {ndim}D input. Note that dropout1d exists to provide "
            "channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch dimension "
            "(i.e. 2D or 3D inputs)."
        )
    return _feature_dropout(input, p, training, inplace, 3)


@overridable
def dropout2d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of (N, C, H, W) or (N, C, L)."""
    _check_probability(p)
    ndim = input.dim()
    if ndim not in (3, 4):
        _warn_odd_rank("dropout2d", ndim, 2, 3, 4)
    if ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired - "
            "input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a future "
            "release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain the 1D "
            "channel-wise dropout behavior, please switch to using dropout1d instead.",
            stacklevel=4,
        )
    return _C.feature_dropout_(input, p, training) if inplace else _C.feature_dropout(input, p, training)


@overridable
def dropout3d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    _check_probability(p)
    ndim = input.dim()
    if ndim not in (4, 5):
        _warn_odd_rank("dropout3d", ndim, 3, 4, 5)
    return _feature_dropout(input, p, training, inplace, 5)


@overridable
def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Alpha dropout of whole channels."""
    _check_probability(p)
    return (_C.feature_alpha_dropout_ if inplace else _C.feature_alpha_dropout)(input, p, training)
