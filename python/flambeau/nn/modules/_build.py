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
# exception, which until Python 3.12 takes as long as a small operator. What `__getattr__` is not asked for comes first here
# too: attributes of a class (computed weights) or of the module itself.

_MEMBERS = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


class _Plain(dict):
    """Whether classes of modules leave all these names to `__getattr__`."""

    def __missing__(self, cls):
        if len(self) == 4096:  # classes made for a module each
            self.clear()
        self[cls] = plain = not any(name in vars(base) for base in cls.__mro__ for name in _MEMBERS)
        return plain


_PLAIN = _Plain()


def _reader(table, *names):
    """A function that gives the members of a module with these names, one alone or a tuple."""
    held, attributes = operator.itemgetter(*names), operator.attrgetter(*names)

    def read(module):
        fields = module.__dict__
        try:
            if _PLAIN[type(module)] and fields.keys().isdisjoint(names):
                return held(fields[table])
        except KeyError:
            pass
        return attributes(module)

    return read


weight_of = _reader("_parameters", "weight")
weight_and_bias = _reader("_parameters", "weight", "bias")
statistics_of = _reader("_buffers", "running_mean", "running_var", "num_batches_tracked")


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
