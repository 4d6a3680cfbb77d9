"""Fill tensors in place with the usual initial values, in PyTorch's random order."""
import math
import warnings

from .. import _C

__all__ = [
    "calculate_gain",
    "uniform_",
    "normal_",
    "trunc_normal_",
    "constant_",
    "ones_",
    "zeros_",
    "eye_",
    "dirac_",
    "xavier_uniform_",
    "xavier_normal_",
    "kaiming_uniform_",
    "kaiming_normal_",
    "orthogonal_",
    "sparse_",
    "uniform",
    "normal",
    "constant",
    "eye",
    "dirac",
    "xavier_uniform",
    "xavier_normal",
    "kaiming_uniform",
    "kaiming_normal",
    "orthogonal",
    "sparse",
]

_GAINS = dict.fromkeys(
    "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d sigmoid".split(), 1
)
_GAINS.update(tanh=5.0 / 3, relu=math.sqrt(2.0), selu=3.0 / 4)


def calculate_gain(nonlinearity, param=None):
    """The recommended gain for a nonlinearity."""
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Values drawn evenly from [a, b)."""
    with _C.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Values of the normal distribution."""
    with _C.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Values of the normal distribution cut to [a, b]."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.",
            stacklevel=2,
        )

    def below(x):
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    low, high = (a - mean) / std, (b - mean) / std
    with _C.no_grad():
        if below(high) - below(low) > 0.3:
            return _normal_within(tensor, mean, std, a, b, generator)
        return _uniform_thinned(tensor, mean, std, a, b, generator)


def _normal_within(tensor, mean, std, a, b, generator):
    """Normal values; those outside [a, b] are drawn again."""
    tensor.normal_(mean, std, generator=generator)
    outside = (tensor < a) | (tensor > b)
    while outside.any():
        again = _C.empty_like(tensor).normal_(mean, std, generator=generator)
        tensor.copy_(_C.where(outside, again, tensor))
        outside = (tensor < a) | (tensor > b)
    return tensor


def _uniform_thinned(tensor, mean, std, a, b, generator):
    """Uniform values on [a, b], kept with a probability in proportion to the normal density."""
    nearest = min(max(mean, a), b)
    peak = -0.5 * ((nearest - mean) / std) ** 2
    log_u = _C.empty_like(tensor)
    tensor.uniform_(a, b, generator=generator)
    rejected = None
    while rejected is None or rejected.any():
        if rejected is not None:
            again = _C.empty_like(tensor).uniform_(a, b, generator=generator)
            tensor.copy_(_C.where(rejected, again, tensor))
        density = ((tensor - mean) / std).pow_(2).mul_(-0.5).sub_(peak)
        worse = log_u.uniform_(generator=generator).log_() > density
        rejected = worse if rejected is None else rejected & worse
    return tensor


def constant_(tensor, val):
    """One value everywhere."""
    with _C.no_grad():
        return tensor.fill_(val)


def ones_(tensor):
    """Ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor):
    """Zeros."""
    with _C.no_grad():
        return tensor.zero_()


def eye_(tensor):
    """The identity, for a matrix."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with _C.no_grad():
        _C.eye(*tensor.shape, out=tensor)
    return tensor


def dirac_(tensor, groups=1):
    """Kernels of a convolution that hands its channels through."""
    ndim = tensor.ndimension()
    if ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    size = tensor.size()
    if size[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    out_per_group = size[0] // groups
    centre = tuple(n // 2 for n in size[2:])
    with _C.no_grad():
        tensor.zero_()
        for g in range(groups):
            for d in range(min(out_per_group, size[1])):
                tensor[(g * out_per_group + d, d, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor):
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.size(1) * field, tensor.size(0) * field


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    modes = ["fan_in", "fan_out"]
    if mode not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode)]


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Uniform values that keep the variance through a linear map, forward and backward."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = math.sqrt(3.0) * (gain * math.sqrt(2.0 / float(fan_in + fan_out)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """Normal values that keep the variance through a linear map, forward and backward."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def _kaiming_std(tensor, a, mode, nonlinearity):
    """The standard deviation, or None for an empty tensor."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return None
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Uniform values that keep the variance through a map and its nonlinearity."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Normal values that keep the variance through a map and its nonlinearity."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0, std, generator)


def orthogonal_(tensor, gain=1, generator=None):
    """A (semi-)orthogonal matrix; later dims are flattened into the second."""
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    drawn = tensor.new_empty((len(tensor), tensor.numel() // len(tensor))).normal_(0, 1, generator=generator)
    wide = drawn.size(0) < drawn.size(1)
    q, r = _C.linalg.qr(drawn.t() if wide else drawn)
    q *= r.diagonal().sign()  # makes the distribution uniform
    with _C.no_grad():
        tensor.copy_((q.t() if wide else q).reshape(tensor.shape)).mul_(gain)
    return tensor


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Normal values with a share of zeros in each column."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, cols = tensor.shape
    zeros = int(math.ceil(sparsity * rows))
    with _C.no_grad():
        tensor.normal_(0, std, generator=generator)
        for col in range(cols):
            tensor[_C.randperm(rows)[:zeros], col] = 0
    return tensor


# What other packages import from here; all of these leave gradients out.
_no_grad_uniform_, _no_grad_normal_, _no_grad_trunc_normal_ = uniform_, normal_, trunc_normal_
_no_grad_fill_, _no_grad_zero_ = constant_, zeros_


def _make_deprecate(fn):
    """The function under its old name, without the underscore."""
    new, old = fn.__name__, fn.__name__.rstrip("_")

    def deprecated(*args, **kwargs):
        warnings.warn(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning, stacklevel=2)
        return fn(*args, **kwargs)

    deprecated.__name__, deprecated.__doc__ = old, f"Deprecated: use `{new}`."
    return deprecated


for _fn in (
    uniform_, normal_, constant_, eye_, dirac_, xavier_uniform_, xavier_normal_, kaiming_uniform_, kaiming_normal_,
    orthogonal_, sparse_,
):
    globals()[_fn.__name__[:-1]] = _make_deprecate(_fn)
del _fn
