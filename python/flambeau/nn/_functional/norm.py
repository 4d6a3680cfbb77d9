"""Linear maps, normalization, embeddings, distances."""
import warnings

from ... import _C
from ..._names import overridable

aten = _C.ops.aten

conv1d = _C.conv1d
conv2d = _C.conv2d
conv3d = _C.conv3d
conv_transpose1d = _C.conv_transpose1d
conv_transpose2d = _C.conv_transpose2d
conv_transpose3d = _C.conv_transpose3d
conv_tbc = _C.conv_tbc
bilinear = _C.bilinear
pairwise_distance = _C.pairwise_distance
pdist = _C.pdist
cosine_similarity = _C.cosine_similarity


def linear(input, weight, bias=None, *, out=None):
    """x Wᵀ + b. Shapes: (*, in), (out, in), (out)."""
    return aten.linear(input, weight, bias) if out is None else aten.linear(input, weight, bias, out=out)


def one_hot(tensor, num_classes=-1):
    """0/1 vectors along a new last dim from class indices."""
    return aten.one_hot(tensor, num_classes)


def _prod(sizes):
    total = 1
    for n in sizes:
        total *= n
    return total


def _verify_batch_size(size):
    if size[0] * _prod(size[2:]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


def _verify_spatial_size(size):
    if _prod(size[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {size}")


@overridable
def batch_norm(
    input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05
):
    """Normalize each channel over the batch, or by running statistics when not training."""
    if training:
        _verify_batch_size(input.size())
    if training and eps <= 0.0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    if eps < 0.0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return _C.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, False)


@overridable
def instance_norm(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-05
):
    """Normalize each channel of each sample."""
    if use_input_stats:
        _verify_spatial_size(input.size())
    return _C.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False)


@overridable
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    """Normalize over the last dims, those of `normalized_shape`."""
    return _C.layer_norm(input, normalized_shape, weight, bias, eps)


@overridable
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """Divide by the root mean square over the last dims."""
    return _C.rms_norm(input, normalized_shape, weight, eps)


@overridable
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-05):
    """Normalize each group of channels of each sample."""
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    size = input.size()
    if size[0] * size[1] // num_groups * _prod(size[2:]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(size)}")
    return _C.group_norm(input, num_groups, weight, bias, eps)


@overridable
def local_response_norm(input, size, alpha=0.0001, beta=0.75, k=1.0):
    """Divide by (k + alpha · mean of squares over `size` neighbouring channels) ** beta."""
    ndim = input.dim()
    if ndim < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality                          input (got {ndim} dimensions)"
        )
    if input.numel() == 0:
        return input
    squares = input.mul(input)
    if ndim == 3:
        padded = aten.pad(squares.unsqueeze(1), [0, 0, size // 2, (size - 1) // 2])
        mean = aten.avg_pool2d(padded, [size, 1], [1, 1]).squeeze(1)
    else:
        n, c, h = input.shape[:3]
        padded = aten.pad(squares.view(n, 1, c, h, -1), [0, 0, 0, 0, size // 2, (size - 1) // 2])
        mean = aten.avg_pool3d(padded, [size, 1, 1], [1, 1, 1]).squeeze(1).view(input.shape)
    return input / mean.mul(alpha).add(k).pow(beta)


@overridable
def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """`input` over its p-norm along `dim`."""
    norm = input.norm(p, dim, keepdim=True)
    if out is None:
        return input / norm.clamp_min(eps).expand_as(input)
    return _C.div(input, norm.clamp_min_(eps).expand_as(input), out=out)


# ---- embeddings ----


def _renorm(weight, input, max_norm, norm_type):
    with _C.no_grad():
        _C.embedding_renorm_(weight.detach(), input, max_norm, norm_type)


@overridable
def embedding(
    input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
):
    """Rows of `weight` chosen by `input`."""
    if padding_idx is None:
        padding_idx = -1
    else:
        n = weight.size(0)
        if padding_idx > 0:
            if padding_idx >= n:
                raise AssertionError("Padding_idx must be within num_embeddings")
        elif padding_idx < 0:
            if padding_idx < -n:
                raise AssertionError("Padding_idx must be within num_embeddings")
            padding_idx += n
    if max_norm is not None:
        input = input.contiguous()
        _renorm(weight, input, max_norm, norm_type)
    return _C.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


@overridable
def embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """Sum, mean or maximum of bags of rows of `weight`."""
    if weight.dtype == _C.long and input.is_floating_point():
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
            "deprecated, and should now be `embedding_bag(input, weight, ...)`.",
            stacklevel=3,
        )
        weight, input = input, weight
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the same "
            f"shape as the input ({input.shape})"
        )
    ndim = input.dim()
    if ndim == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. "
                f"However, found offsets of type {type(offsets)}"
            )
        end = input.numel() + include_last_offset
        offsets = _C.arange(0, end, input.size(1), dtype=input.dtype, device=input.device)
        input = input.flatten()
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.flatten()
    elif ndim == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {ndim}")
    codes = {"sum": 0, "mean": 1, "max": 2}
    if mode not in codes:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max":
        if scale_grad_by_freq:
            raise ValueError("max mode does not support scaling the gradient by the frequency")
        if sparse:
            raise ValueError("max mode does not support sparse weights")
    if max_norm is not None:
        _renorm(weight, input, max_norm, norm_type)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}'). Please open a feature request on GitHub."
        )
    return _C.embedding_bag(
        weight, input, offsets, scale_grad_by_freq, codes[mode], sparse, per_sample_weights, include_last_offset, padding_idx
    )[0]
