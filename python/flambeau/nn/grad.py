"""Gradients of convolutions by themselves."""
from .. import _C
from ._tuples import _ntuple

_NEEDS_INPUT, _NEEDS_WEIGHT = [True, False, False], [False, True, False]


def _backward(n, grad_output, input, weight, stride, padding, dilation, groups, mask):
    spread = _ntuple(n)
    return _C.ops.aten.convolution_backward(
        grad_output, input, weight, None, spread(stride), spread(padding), spread(dilation), False, [0], groups, mask
    )


def _input(n, input_size, weight, grad_output, stride, padding, dilation, groups):
    like = grad_output.new_empty(1).expand(input_size)
    return _backward(n, grad_output, like, weight, stride, padding, dilation, groups, _NEEDS_INPUT)[0]


def _weight(n, input, weight_size, grad_output, stride, padding, dilation, groups):
    like = grad_output.new_empty(1).expand(weight_size)
    return _backward(n, grad_output, input, like, stride, padding, dilation, groups, _NEEDS_WEIGHT)[1]


def conv1d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of `conv1d` with respect to its input."""
    return _input(1, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of `conv1d` with respect to its weight."""
    return _weight(1, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of `conv2d` with respect to its input."""
    return _input(2, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of `conv2d` with respect to its weight."""
    return _weight(2, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of `conv3d` with respect to its input."""
    return _input(3, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of `conv3d` with respect to its weight."""
    return _weight(3, input, weight_size, grad_output, stride, padding, dilation, groups)
