"""Losses."""
import math
import warnings

from ... import _C
from ..._names import overridable
from .. import _reduction
from .norm import linear, pairwise_distance

aten = _C.ops.aten


def _code(reduction, size_average=None, reduce=None):
    if size_average is not None or reduce is not None:
        reduction = _reduction.legacy_get_string(size_average, reduce)
    code = _reduction._CODES.get(reduction)
    return _reduction.get_enum(reduction) if code is None else code


def _name(reduction, size_average=None, reduce=None):
    if size_average is not None or reduce is not None:
        return _reduction.legacy_get_string(size_average, reduce)
    return reduction


def _reduce(loss, reduction, message="{} is not valid"):
    if reduction == "none":
        return loss
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    raise ValueError(message.format(reduction))


def _warn_sizes(input, target):
    if target.size() != input.size():
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will likely "
            "lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=4,
        )


@overridable
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """Connectionist temporal classification. log_probs: (T, N, C)."""
    return _C.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, _reduction.get_enum(reduction), zero_infinity
    )


@overridable
def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """Minus the log-probability of the target class. input: (N, C, ...), target: (N, ...)."""
    return aten.nll_loss_nd(input, target, weight, _code(reduction, size_average, reduce), ignore_index)


@overridable
def poisson_nll_loss(
    input, target, log_input=True, full=False, size_average=None, eps=1e-08, reduce=None, reduction="mean"
):
    """Negative log-likelihood of Poisson counts."""
    code = _code(reduction, size_average, reduce)
    return _C.poisson_nll_loss(input, target, log_input, full, eps, code)


@overridable
def gaussian_nll_loss(input, target, var, full=False, eps=1e-06, reduction="mean"):
    """Negative log-likelihood of normal targets with the given variance."""
    if not isinstance(var, _C.Tensor):
        var = _C.full_like(input, var) if var >= 0 else _C.tensor(-1.0)
    if (var < 0).any():
        raise ValueError("var has negative entry/entries")
    var = _like_input(var, input.shape)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    spread = var.clone()
    with _C.no_grad():  # the gradient passes by the floor
        spread.clamp_(min=eps)
    loss = 0.5 * (spread.log() + (input - target).square() / spread)
    return _reduce(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


def _like_input(var, shape):
    """A variance that broadcasts over the input: of its shape, without its last dim, or with one dim of size 1."""
    if var.shape == shape:
        return var
    if var.shape == shape[:-1]:
        return var.unsqueeze(-1)
    differing = [size for size, own in zip(var.shape, shape) if size != own]
    if var.dim() != len(shape) or sum(differing) != 1:
        raise ValueError("var is of incorrect size")
    return var


@overridable
def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """target · (log target - input); the mean is over all elements, "batchmean" over samples."""
    if size_average is not None or reduce is not None:
        code = _code(reduction, size_average, reduce)
    else:
        if reduction == "mean":
            warnings.warn(
                "reduction: 'mean' divides the total loss by both the batch size and the support size."
                "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
                "'mean' will be changed to behave the same as 'batchmean' in the next major release.",
                stacklevel=3,
            )
        code = 2 if reduction == "batchmean" else _reduction.get_enum(reduction)
    loss = _C.kl_div(input, target, code, log_target=log_target)
    return loss / input.size()[0] if reduction == "batchmean" and input.dim() != 0 else loss


@overridable
def cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    """Softmax and negative log-likelihood. input: (N, C, ...); target: class indices (N, ...) or probabilities."""
    code = _code(reduction, size_average, reduce)
    return aten.cross_entropy_loss(input, target, weight, code, ignore_index, label_smoothing)


@overridable
def linear_cross_entropy(
    input,
    linear_weight,
    target,
    *,
    linear_bias=None,
    weight=None,
    reduction="mean",
    ignore_index=None,
    label_smoothing=0.0,
    options=None,
):
    """`cross_entropy` of a linear map of `input`; `options` steer memory use only."""
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    shape, features = linear_weight.shape[:-1], input.shape[-1]
    if not shape:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}")
    if features != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{features} and {linear_weight.shape[-1]}, respectively"
        )
    if len(shape) > 1 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"(N, {features}), got unbatched input with shape {tuple(input.shape)}"
        )
    if linear_bias is not None and linear_bias.shape != shape:
        raise RuntimeError(f"expected linear_bias shape {tuple(shape)}, got {tuple(linear_bias.shape)}")
    if ignore_index is not None and target.is_floating_point():
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    logits = linear(
        input, linear_weight.flatten(0, -2), None if linear_bias is None else linear_bias.flatten()
    )
    if len(shape) > 1:
        logits = logits.unflatten(-1, shape)
    return cross_entropy(
        logits,
        target,
        weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


@overridable
def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Cross entropy of probabilities with targets in [0, 1]."""
    code = _code(reduction, size_average, reduce)
    if input.shape != target.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. "
            "Please ensure they have the same size."
        )
    shared = None if weight is None else weight.expand(_C.broadcast_shapes(target.shape, weight.shape))
    return aten.binary_cross_entropy(input, target, shared, code)


@overridable
def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    """Cross entropy of sigmoid(input) with targets in [0, 1]."""
    code = _code(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    return _C.binary_cross_entropy_with_logits(input, target, weight, pos_weight, code)


def _check_weight(weight, input):
    if weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")


def _weighted(loss, weight, reduction):
    """Weighted elements; the mean is over the weights."""
    loss = loss * weight
    if reduction == "none":
        return loss
    if reduction == "sum":
        return _C.sum(loss)
    if reduction == "mean":
        return _C.sum(loss) / _C.sum(weight)
    raise ValueError(f"Invalid reduction mode: {reduction}. Expected one of 'none', 'mean', 'sum'.")


@overridable
def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """Squared error below `beta`, absolute error above."""
    _warn_sizes(input, target)
    code = _code(reduction, size_average, reduce)
    input, target = _C.broadcast_tensors(input, target)
    if beta == 0.0:
        return aten.l1_loss(input, target, code)
    return aten.smooth_l1_loss(input, target, code, beta)


@overridable
def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Squared error below `delta`, `delta` times absolute error above."""
    _warn_sizes(input, target)
    input, target = _C.broadcast_tensors(input, target)
    if weight is None:
        return aten.huber_loss(input, target, _reduction.get_enum(reduction), delta)
    _check_weight(weight, input)
    loss = aten.huber_loss(input, target, 0, delta) * weight
    return _reduce(loss, reduction, "Invalid reduction mode: {}. Expected one of 'none', 'mean', 'sum'.")


@overridable
def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Absolute error."""
    _warn_sizes(input, target)
    reduction = _name(reduction, size_average, reduce)
    input, target = _C.broadcast_tensors(input, target)
    if weight is None:
        return aten.l1_loss(input, target, _reduction.get_enum(reduction))
    _check_weight(weight, input)
    return _weighted(_C.abs(input - target), weight, reduction)


@overridable
def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Squared error."""
    _warn_sizes(input, target)
    reduction = _name(reduction, size_average, reduce)
    input, target = _C.broadcast_tensors(input, target)
    if weight is None:
        return aten.mse_loss(input, target, _reduction.get_enum(reduction))
    _check_weight(weight, input)
    return _weighted(_C.pow(input - target, 2), weight, reduction)


@overridable
def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """max(0, -target (input1 - input2) + margin)."""
    code = _code(reduction, size_average, reduce)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _C.margin_ranking_loss(input1, input2, target, margin, code)


@overridable
def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """input where target is 1, max(0, margin - input) where it is -1."""
    return _C.hinge_embedding_loss(input, target, margin, _code(reduction, size_average, reduce))


@overridable
def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """Margin loss of several classes per sample."""
    return aten.multilabel_margin_loss(input, target, _code(reduction, size_average, reduce))


@overridable
def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-target · input))."""
    return aten.soft_margin_loss(input, target, _code(reduction, size_average, reduce))


@overridable
def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Mean over classes of the binary cross entropy with logits."""
    reduction = _name(reduction, size_average, reduce)
    loss = -(target * aten.log_sigmoid(input) + (1 - target) * aten.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    dim = input.dim() - 1
    return _reduce(loss.sum(dim=dim) / input.size(dim), reduction)


@overridable
def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """1 - cos for target 1, max(0, cos - margin) for -1."""
    return _C.cosine_embedding_loss(input1, input2, target, margin, _code(reduction, size_average, reduce))


@overridable
def multi_margin_loss(
    input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """Margin loss of the right class against all others."""
    code = _code(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return aten.multi_margin_loss(input, target, p, margin, weight, code)


@overridable
def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2, eps=1e-06, swap=False, size_average=None, reduce=None, reduction="mean"
):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin)."""
    code = _code(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return _C.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, code)


@overridable
def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    """Triplet loss with any distance."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = pairwise_distance if distance_function is None else distance_function
    dims = {"anchor": anchor.ndim, "positive": positive.ndim, "negative": negative.ndim}
    if len(set(dims.values())) > 1:
        found = ["{} {}D".format(*item) for item in dims.items()]
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"{found[0]}, {found[1]}, and {found[2]} inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _C.minimum(far, distance(positive, negative))
    return _reduce(_C.clamp_min(margin + near - far, 0), reduction)
