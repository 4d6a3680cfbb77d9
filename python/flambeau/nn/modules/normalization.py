"""Layer, group, RMS and response normalization."""
import numbers

from ..._names import factory_kwargs
from .. import functional as F
from ._build import affine_shapes, keep, listed, make, neutral, weight_and_bias, weight_of
from .module import Module

__all__ = ["LocalResponseNorm", "CrossMapLRN2d", "LayerNorm", "GroupNorm", "RMSNorm"]


class LocalResponseNorm(Module):
    """Divide by the activity of neighbouring channels."""

    __constants__ = ["size", "alpha", "beta", "k"]

    def __init__(self, size, alpha=0.0001, beta=0.75, k=1.0):
        super().__init__()
        keep(self, size=size, alpha=alpha, beta=beta, k=k)

    def forward(self, input):
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self):
        return f"{self.size}, {listed(self, 'alpha', 'beta', 'k')}"


class CrossMapLRN2d(LocalResponseNorm):
    """`LocalResponseNorm` of images (N, C, H, W)."""

    def __init__(self, size, alpha=0.0001, beta=0.75, k=1):
        super().__init__(size, alpha, beta, k)

    def forward(self, input):
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        half = (self.size - 1) // 2
        squares = input.pow(2)
        window = F.pad(squares, (0, 0, 0, 0, half, half)).unfold(1, 2 * half + 1, 1).sum(-1)
        # As the reference computes it: once inside, the first channel never leaves the running sum.
        first = F.pad(squares[:, :1].expand(-1, max(input.size(1) - half - 1, 0), -1, -1), (0, 0, 0, 0, half + 1, 0))
        total = window + first[:, : input.size(1)]
        return input / total.mul(self.alpha / self.size).add(self.k).pow(self.beta)


def _dims(shape):
    """One size or several, as a tuple."""
    return (shape,) if isinstance(shape, numbers.Integral) else tuple(shape)


class LayerNorm(Module):
    """Normalize over the last dims, those of `normalized_shape`."""

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(self, normalized_shape, eps=1e-05, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__()
        like = factory_kwargs(device, dtype)
        keep(self, normalized_shape=_dims(normalized_shape), eps=eps, elementwise_affine=elementwise_affine)
        make(self, like, **affine_shapes(self.normalized_shape, elementwise_affine, bias))
        self.reset_parameters()

    def reset_parameters(self):
        """Weight 1, bias 0."""
        if self.elementwise_affine:
            neutral(self)

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, *weight_and_bias(self), self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, {listed(self, 'eps', 'elementwise_affine')}, bias={self.bias is not None}"


class GroupNorm(Module):
    """Normalize each group of channels of each sample."""

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]

    def __init__(self, num_groups, num_channels, eps=1e-05, affine=True, device=None, dtype=None, *, bias=True):
        super().__init__()
        like = factory_kwargs(device, dtype)
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        keep(self, num_groups=num_groups, num_channels=num_channels, eps=eps, affine=affine)
        make(self, like, **affine_shapes(num_channels, affine, bias))
        self.reset_parameters()

    def reset_parameters(self):
        """Weight 1, bias 0."""
        if self.affine:
            neutral(self)

    def forward(self, input):
        return F.group_norm(input, self.num_groups, *weight_and_bias(self), self.eps)

    def extra_repr(self):
        sizes = f"{self.num_groups}, {self.num_channels}"
        return f"{sizes}, {listed(self, 'eps', 'affine')}, bias={self.bias is not None}"


class RMSNorm(Module):
    """Divide by the root mean square over the last dims."""

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        keep(self, normalized_shape=_dims(normalized_shape), eps=eps, elementwise_affine=elementwise_affine)
        make(self, factory_kwargs(device, dtype), weight=self.normalized_shape if elementwise_affine else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Weight 1."""
        neutral(self)

    def forward(self, x):
        return F.rms_norm(x, self.normalized_shape, weight_of(self), self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, {listed(self, 'eps', 'elementwise_affine')}"
