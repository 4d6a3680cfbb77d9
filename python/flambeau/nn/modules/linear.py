"""Linear maps."""
from ... import _C
from ..._names import factory_kwargs
from .. import functional as F
from .. import init
from ..parameter import UninitializedParameter
from ._build import keep, listed, make, weight_and_bias, within_fan_in
from .lazy import LazyModuleMixin
from .module import Module

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Returns its input; takes and ignores any arguments."""

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input):
        return input


class Linear(Module):
    """x Wᵀ + b: (*, in_features) to (*, out_features)."""

    __constants__ = ["in_features", "out_features"]

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        like = factory_kwargs(device, dtype)
        keep(self, in_features=in_features, out_features=out_features)
        make(self, like, weight=(out_features, in_features), bias=out_features if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draw new initial values."""
        within_fan_in(self)

    def forward(self, input):
        return F.linear(input, *weight_and_bias(self))

    def extra_repr(self):
        return f"{listed(self, *self.__constants__)}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """The output map of attention."""


class Bilinear(Module):
    """x1ᵀ A x2 + b: (*, in1), (*, in2) to (*, out)."""

    __constants__ = ["in1_features", "in2_features", "out_features"]

    def __init__(self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        like = factory_kwargs(device, dtype)
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got ({in1_features=})")
        keep(self, in1_features=in1_features, in2_features=in2_features, out_features=out_features)
        make(self, like, weight=(out_features, in1_features, in2_features), bias=out_features if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draw new initial values."""
        bound = self.weight.size(1) ** -0.5
        for tensor in (self.weight, self.bias):
            if tensor is not None:
                init.uniform_(tensor, -bound, bound)

    def forward(self, input1, input2):
        return F.bilinear(input1, input2, *weight_and_bias(self))

    def extra_repr(self):
        return f"{listed(self, *self.__constants__)}, bias={self.bias is not None}"


class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` that learns `in_features` from its first input."""

    cls_to_become = Linear

    def __init__(self, out_features, bias=True, device=None, dtype=None):
        like = factory_kwargs(device, dtype)
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(**like)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(**like)

    def reset_parameters(self):
        """Draw new initial values, once there is a shape."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input):
        """Take the shape from the first input."""
        width = input.shape[-1]
        if self.has_uninitialized_params():
            self.in_features = width
            with _C.no_grad():
                self.weight.materialize((self.out_features, width))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        elif self.in_features == 0:  # the shapes came from a state_dict
            if self.weight.shape[-1] != width:
                raise AssertionError(
                    f"The in_features inferred from input: {width} is not equal to in_features from self.weight: "
                    f"{self.weight.shape[-1]}"
                )
            self.in_features = width
