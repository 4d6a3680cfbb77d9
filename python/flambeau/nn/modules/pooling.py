"""Pooling layers."""
from .. import functional as F
from ._build import keep, listed
from .module import Module
from .utils import _ntuple

__all__ = [
    "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "AvgPool1d", "AvgPool2d",
    "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d",
]


class _MaxPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]
    _pool = None

    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False):
        super().__init__()
        stride = kernel_size if stride is None else stride
        keep(
            self, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation,
            return_indices=return_indices, ceil_mode=ceil_mode,
        )

    def forward(self, input):
        window = self.kernel_size, self.stride, self.padding, self.dilation
        return type(self)._pool(input, *window, return_indices=self.return_indices, ceil_mode=self.ceil_mode)

    def extra_repr(self):
        return listed(self, "kernel_size", "stride", "padding", "dilation", "ceil_mode")


class MaxPool1d(_MaxPoolNd):
    """Maximum over windows of (N, C, L)."""

    _pool = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """Maximum over windows of (N, C, H, W)."""

    _pool = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """Maximum over windows of (N, C, D, H, W)."""

    _pool = staticmethod(F.max_pool3d)


class _MaxUnpoolNd(Module):
    _n = 0
    _unpool = None

    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        spread = _ntuple(self._n)
        self.kernel_size = spread(kernel_size)
        self.stride = spread(stride if stride is not None else kernel_size)
        self.padding = spread(padding)

    def forward(self, input, indices, output_size=None):
        return type(self)._unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self):
        return listed(self, "kernel_size", "stride", "padding")


class MaxUnpool1d(_MaxUnpoolNd):
    """Undo `MaxPool1d`, with zeros for what was not the maximum."""

    _n = 1
    _unpool = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """Undo `MaxPool2d`, with zeros for what was not the maximum."""

    _n = 2
    _unpool = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """Undo `MaxPool3d`, with zeros for what was not the maximum."""

    _n = 3
    _unpool = staticmethod(F.max_unpool3d)


class _AvgPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def extra_repr(self):
        return listed(self, "kernel_size", "stride", "padding")


class AvgPool1d(_AvgPoolNd):
    """Mean over windows of (N, C, L)."""

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
        super().__init__()
        spread = _ntuple(1)
        self.kernel_size = spread(kernel_size)
        self.stride = spread(stride if stride is not None else kernel_size)
        self.padding = spread(padding)
        keep(self, ceil_mode=ceil_mode, count_include_pad=count_include_pad)

    def forward(self, input):
        window = self.kernel_size, self.stride, self.padding
        return F.avg_pool1d(input, *window, self.ceil_mode, self.count_include_pad)


class _AvgPool(_AvgPoolNd):
    _pool = None

    def __init__(
        self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
    ):
        super().__init__()
        stride = kernel_size if stride is None else stride
        keep(
            self, kernel_size=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode,
            count_include_pad=count_include_pad, divisor_override=divisor_override,
        )

    def forward(self, input):
        window = self.kernel_size, self.stride, self.padding
        return type(self)._pool(input, *window, self.ceil_mode, self.count_include_pad, self.divisor_override)


class AvgPool2d(_AvgPool):
    """Mean over windows of (N, C, H, W)."""

    _pool = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    """Mean over windows of (N, C, D, H, W)."""

    _pool = staticmethod(F.avg_pool3d)


class _FractionalMaxPool(Module):
    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    _n = 0
    _pool = None

    def __init__(self, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        super().__init__()
        spread = _ntuple(self._n)
        if self._n == 3 and not all(k > 0 for k in spread(kernel_size)):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        self.register_buffer("_random_samples", _random_samples)
        size, ratio = (None if given is None else spread(given) for given in (output_size, output_ratio))
        keep(self, kernel_size=spread(kernel_size), return_indices=return_indices, output_size=size, output_ratio=ratio)
        if size is None and ratio is None:
            raise ValueError(
                f"{type(self).__name__} requires specifying either an output size, or a pooling ratio"
            )
        if size is not None and ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if not all(0 < r < 1 for r in ratio or ()):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input):
        sizes = self.kernel_size, self.output_size, self.output_ratio
        return type(self)._pool(input, *sizes, self.return_indices, _random_samples=self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPool):
    """Maximum over windows of random placement in 2D."""

    _n = 2
    _pool = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    """Maximum over windows of random placement in 3D."""

    _n = 3
    _pool = staticmethod(F.fractional_max_pool3d)


class _LPPoolNd(Module):
    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]
    _pool = None

    def __init__(self, norm_type, kernel_size, stride=None, ceil_mode=False):
        super().__init__()
        keep(self, norm_type=norm_type, kernel_size=kernel_size, stride=stride, ceil_mode=ceil_mode)

    def forward(self, input):
        return type(self)._pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self):
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """The p-norm of windows of (N, C, L)."""

    _pool = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """The p-norm of windows of (N, C, H, W)."""

    _pool = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """The p-norm of windows of (N, C, D, H, W)."""

    _pool = staticmethod(F.lp_pool3d)


class _AdaptiveMaxPoolNd(Module):
    __constants__ = ["output_size", "return_indices"]
    _pool = None

    def __init__(self, output_size, return_indices=False):
        super().__init__()
        keep(self, output_size=output_size, return_indices=return_indices)

    def forward(self, input):
        return type(self)._pool(input, self.output_size, self.return_indices)

    def extra_repr(self):
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maximum over as many windows as the output shall have."""

    _pool = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maximum over as many windows as the output shall have, (H, W)."""

    _pool = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maximum over as many windows as the output shall have, (D, H, W)."""

    _pool = staticmethod(F.adaptive_max_pool3d)


class _AdaptiveAvgPoolNd(Module):
    __constants__ = ["output_size"]
    _pool = None

    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def forward(self, input):
        return type(self)._pool(input, self.output_size)

    def extra_repr(self):
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Mean over as many windows as the output shall have."""

    _pool = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Mean over as many windows as the output shall have, (H, W)."""

    _pool = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Mean over as many windows as the output shall have, (D, H, W)."""

    _pool = staticmethod(F.adaptive_avg_pool3d)
