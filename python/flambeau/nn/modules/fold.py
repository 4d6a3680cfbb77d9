"""Sliding patches."""
from .. import functional as F
from ._build import keep, listed
from .module import Module

__all__ = ["Fold", "Unfold"]


class Fold(Module):
    """Sum columns of patches into images: (N, C·k, L) to (N, C, H, W)."""

    __constants__ = ["output_size", "kernel_size", "dilation", "padding", "stride"]

    def __init__(self, output_size, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        keep(self, output_size=output_size, kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)

    def forward(self, input):
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self):
        return listed(self, *self.__constants__)


class Unfold(Module):
    """Patches of images as columns: (N, C, H, W) to (N, C·k, L)."""

    __constants__ = ["kernel_size", "dilation", "padding", "stride"]

    def __init__(self, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        keep(self, kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)

    def forward(self, input):
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self):
        return listed(self, *self.__constants__)
