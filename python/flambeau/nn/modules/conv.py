"""Convolutions and their transposes in one to three dims."""
from ..._names import factory_kwargs
from .. import functional as F
from ..parameter import UninitializedParameter
from ._build import keep, listed, make, weight_and_bias, within_fan_in
from .lazy import LazyModuleMixin
from .module import Module
from .utils import _ntuple, _pair, _reverse_repeat_tuple, _single, _triple  # noqa: F401

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    __constants__ = [
        "stride", "padding", "dilation", "groups", "padding_mode", "output_padding", "in_channels", "out_channels",
        "kernel_size",
    ]

    def __init__(
        self, in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding, groups, bias,
        padding_mode, device=None, dtype=None,
    ):
        super().__init__()
        like = factory_kwargs(device, dtype)
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name} must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}")
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {{{str(_PADDING_MODES)[1:-1]}}}, but got padding_mode='{padding_mode}'"
            )
        keep(
            self, in_channels=in_channels, out_channels=out_channels, kernel_size=kernel_size, stride=stride,
            padding=padding, dilation=dilation, transposed=transposed, output_padding=output_padding, groups=groups,
            padding_mode=padding_mode,
        )
        self._reversed_padding_repeated_twice = self._padding_around()
        make(self, like, weight=self._weight_shape(), bias=out_channels if bias else None)
        self.reset_parameters()

    def _padding_around(self):
        """Before and after each dim, the last dim first: the order of `F.pad`."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        around = []
        for d, k in zip(reversed(self.dilation), reversed(self.kernel_size)):
            total = d * (k - 1) if self.padding == "same" else 0
            around += [total // 2, total - total // 2]
        return around

    def _weight_shape(self):
        """(from, to per group, *kernel), where a transposed convolution counts from its inputs."""
        ends = [self.out_channels, self.in_channels]
        first, second = reversed(ends) if self.transposed else ends
        return (first, second // self.groups, *self.kernel_size)

    def reset_parameters(self):
        """Draw new initial values."""
        within_fan_in(self)

    def extra_repr(self):
        lengths = {name: len(getattr(self, name)) for name in ("padding", "dilation", "output_padding")}
        usual = {"padding": (0,) * lengths["padding"], "dilation": (1,) * lengths["dilation"],
                 "output_padding": (0,) * lengths["output_padding"], "groups": 1}
        parts = [f"{self.in_channels}, {self.out_channels}", listed(self, "kernel_size", "stride")]
        parts += [listed(self, name) for name, value in usual.items() if getattr(self, name) != value]
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(listed(self, "padding_mode"))
        return ", ".join(parts)

    def __setstate__(self, state):
        super().__setstate__(state)
        if not hasattr(self, "padding_mode"):
            self.padding_mode = "zeros"

    _op = None
    _n = 0

    def _conv_forward(self, input, weight, bias):
        op = type(self)._op
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return op(input, weight, bias, self.stride, (0,) * self._n, self.dilation, self.groups)
        return op(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class _Conv(_ConvNd):
    """What `Conv1d` to `Conv3d` share."""

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
        padding_mode="zeros", device=None, dtype=None,
    ):
        spread = _ntuple(self._n)
        super().__init__(
            in_channels, out_channels, spread(kernel_size), spread(stride),
            padding if isinstance(padding, str) else spread(padding), spread(dilation), False, spread(0), groups, bias,
            padding_mode, device, dtype,
        )

    def forward(self, input):
        return self._conv_forward(input, *weight_and_bias(self))


class Conv1d(_Conv):
    """Convolution of (N, C, L) or (C, L)."""

    _n = 1
    _op = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """Convolution of (N, C, H, W) or (C, H, W)."""

    _n = 2
    _op = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """Convolution of (N, C, D, H, W) or (C, D, H, W)."""

    _n = 3
    _op = staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    """What the transposed convolutions share."""

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1,
        padding_mode="zeros", device=None, dtype=None,
    ):
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        spread = _ntuple(self._n)
        super().__init__(
            in_channels, out_channels, spread(kernel_size), spread(stride), spread(padding), spread(dilation), True,
            spread(output_padding), groups, bias, padding_mode, device, dtype,
        )

    def _output_padding(
        self, input, output_size, stride, padding, kernel_size, num_spatial_dims, dilation=None
    ):
        """The output padding that makes the output as large as `output_size`."""
        if output_size is None:
            return _ntuple(num_spatial_dims)(self.output_padding)
        n = num_spatial_dims
        batched = input.dim() == n + 2
        skip = 2 if batched else 1
        if len(output_size) == skip + n:
            output_size = output_size[skip:]
        if len(output_size) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or {skip + n} elements "
                f"(got {len(output_size)})"
            )
        low = [
            (input.size(d + skip) - 1) * stride[d] - 2 * padding[d]
            + (dilation[d] if dilation is not None else 1) * (kernel_size[d] - 1) + 1
            for d in range(n)
        ]
        high = [m + s - 1 for m, s in zip(low, stride)]
        for size, least, most in zip(output_size, low, high):
            if size < least or size > most:
                raise ValueError(
                    f"requested an output size of {output_size}, but valid sizes range from {low} to {high} "
                    f"(for an input of {input.size()[2:]})"
                )
        return [size - least for size, least in zip(output_size, low)]

    def forward(self, input, output_size=None):
        if self.padding_mode != "zeros":
            raise ValueError(f"Only `zeros` padding mode is supported for {type(self).__name__}")
        extra = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, self._n, self.dilation
        )
        return type(self)._op(
            input, *weight_and_bias(self), self.stride, self.padding, extra, self.groups, self.dilation
        )


class ConvTranspose1d(_ConvTransposeNd):
    """The transpose of `Conv1d`, as a layer."""

    _n = 1
    _op = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """The transpose of `Conv2d`, as a layer."""

    _n = 2
    _op = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """The transpose of `Conv3d`, as a layer."""

    _n = 3
    _op = staticmethod(F.conv_transpose3d)


class _LazyConvXdMixin(LazyModuleMixin):
    """A convolution that learns `in_channels` from its first input."""

    def reset_parameters(self):
        """Draw new initial values, once there is a shape."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input, *args, **kwargs):
        """Take the shape from the first input."""
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        self.weight.materialize(self._weight_shape())
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input):
        n = self._get_num_spatial_dims()
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {type(self).__name__}, but got input of size: "
                f"{input.shape}"
            )
        return input.shape[1] if input.dim() == n + 2 else input.shape[0]

    def _get_num_spatial_dims(self):
        return self._n

    def _become_lazy(self, out_channels, bias, device, dtype):
        like = factory_kwargs(device, dtype)
        self.out_channels = out_channels
        for name in ("weight", "bias") if bias else ("weight",):
            setattr(self, name, UninitializedParameter(**like))


class _LazyConv(_LazyConvXdMixin):
    def __init__(
        self, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros",
        device=None, dtype=None,
    ):
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
        self._become_lazy(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvXdMixin):
    def __init__(
        self, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1,
        padding_mode="zeros", device=None, dtype=None,
    ):
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype
        )
        self._become_lazy(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """A `Conv1d` without `in_channels`."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A `Conv2d` without `in_channels`."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A `Conv3d` without `in_channels`."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A `ConvTranspose1d` without `in_channels`."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A `ConvTranspose2d` without `in_channels`."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A `ConvTranspose3d` without `in_channels`."""

    cls_to_become = ConvTranspose3d


class _ConvTransposeMixin(_ConvTransposeNd):
    """The old name of `_ConvTransposeNd`, for classes that still derive from it."""

    def __init__(self, *args, **kwargs):
        import warnings

        warnings.warn("_ConvTransposeMixin is a deprecated internal class. Please consider using public APIs.",
                      FutureWarning, stacklevel=2)
        super().__init__(*args, **kwargs)
