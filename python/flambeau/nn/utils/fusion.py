"""A batch norm folded into the layer before it."""
import copy

from ... import _C
from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _fused(layer, bn, fuse, *options, check=None):
    """A copy of a layer with the weights that `fuse` makes of it and of a batch norm, both in evaluation mode."""
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused = copy.deepcopy(layer)
    if check is not None:
        check()
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    stats = bn.running_mean, bn.running_var, bn.eps
    fused.weight, fused.bias = fuse(fused.weight, fused.bias, *stats, bn.weight, bn.bias, *options)
    return fused


def _fold(weight, bias, mean, scale, shift, spread):
    """The map's own weight and bias, scaled and shifted as the norm would do to the result."""
    like = weight if bias is None else bias
    own = _C.zeros_like(mean) if bias is None else bias
    new_bias = ((own - mean) * scale + shift).to(dtype=like.dtype)
    return Parameter(spread(weight, scale), weight.requires_grad), Parameter(new_bias, own.requires_grad)


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """One convolution that computes bn(conv(x)), both in evaluation mode."""
    return _fused(conv, bn, fuse_conv_bn_weights, transpose)


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """Weight and bias of the fused convolution."""
    scale = _C.rsqrt(bn_rv + bn_eps)
    if bn_w is not None:
        scale = bn_w * scale
    channels = 1 if transpose else 0

    def spread(weight, scale):
        shape = [-1 if dim == channels else 1 for dim in range(weight.dim())]
        return (weight * scale.reshape(shape)).to(dtype=weight.dtype)

    return _fold(conv_w, conv_b, bn_rm, scale, _C.zeros_like(bn_rm) if bn_b is None else bn_b, spread)


def fuse_linear_bn_eval(linear, bn):
    """One linear map that computes bn(linear(x)), both in evaluation mode."""

    def check():
        if bn.num_features not in (1, linear.out_features):
            raise AssertionError(
                "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
                f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
            )

    return _fused(linear, bn, fuse_linear_bn_weights, check=check)


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """Weight and bias of the fused linear map."""
    scale = bn_w * _C.rsqrt(bn_rv + bn_eps)
    return _fold(linear_w, linear_b, bn_rm, scale, bn_b, lambda w, s: w * s.unsqueeze(-1).to(dtype=w.dtype))
