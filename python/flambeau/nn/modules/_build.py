"""How layers keep their options and make their tensors."""
import math
import operator

from ... import _C
from .. import init
from ..parameter import Parameter


def keep(module, **options):
    """Set the options of a layer as its attributes."""
    for name, value in options.items():
        setattr(module, name, value)


def make(module, like, **shapes):
    """An uninitialized parameter of each shape; where that is None, the name without a parameter."""
    for name, shape in shapes.items():
        module.register_parameter(name, None if shape is None else Parameter(_C.empty(shape, **like)))


# What layers read of themselves in every call is asked for where it is: before Python asks `__getattr__`, it makes an
# exception, which until Python 3.12 takes as long as a small operator.

_WEIGHT_AND_BIAS = operator.itemgetter("weight", "bias")
_STATISTICS = operator.itemgetter("running_mean", "running_var", "num_batches_tracked")


def weight_of(module):
    """The weight."""
    try:
        return module._parameters["weight"]
    except KeyError:  # something in its place: a computed one
        return module.weight


def weight_and_bias(module):
    """The weight and the bias, either of which may be None."""
    try:
        return _WEIGHT_AND_BIAS(module._parameters)
    except KeyError:
        return module.weight, module.bias


def statistics_of(module):
    """A norm's running mean, running variance and number of batches, or None for each."""
    try:
        return _STATISTICS(module._buffers)
    except KeyError:
        return module.running_mean, module.running_var, module.num_batches_tracked


def affine_shapes(shape, affine, bias):
    """The shapes of an optional weight and of a bias that it may have."""
    return {"weight": shape if affine else None, "bias": shape if affine and bias else None}


def within_fan_in(module):
    """Weight and bias even between bounds that shrink with the number of inputs, ±1/√n."""
    init.kaiming_uniform_(module.weight, a=math.sqrt(5))
    if module.bias is not None:
        inputs, _ = init._calculate_fan_in_and_fan_out(module.weight)
        if inputs or module.weight.dim() == 2:
            bound = 1 / math.sqrt(inputs) if inputs else 0
            init.uniform_(module.bias, -bound, bound)


def neutral(module):
    """Weight 1, bias 0, so far as there are any."""
    for name, fill in (("weight", init.ones_), ("bias", init.zeros_)):
        tensor = getattr(module, name, None)
        if tensor is not None:
            fill(tensor)


def listed(module, *names):
    """Options for a repr: `a=1, b=2`."""
    return ", ".join(f"{name}={getattr(module, name)}" for name in names)
