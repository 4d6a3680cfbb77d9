"""Images: resizing, sampling, padding, patches."""
import math
import warnings
from numbers import Integral

from ... import _C
from ..._names import overridable
from .._tuples import _pair

aten = _C.ops.aten
pixel_shuffle = _C.pixel_shuffle
pixel_unshuffle = _C.pixel_unshuffle
channel_shuffle = _C.channel_shuffle
native_channel_shuffle = _C.native_channel_shuffle

_ALIGNABLE = ("linear", "bilinear", "bicubic", "trilinear")
_ADAPTIVE = {3: "adaptive_avg_pool1d", 4: "adaptive_avg_pool2d", 5: "adaptive_avg_pool3d"}
_NEEDS = {"linear": 3, "bilinear": 4, "trilinear": 5}
_UPSAMPLE = {(3, "linear"): "upsample_linear1d", (4, "bilinear"): "upsample_bilinear2d",
             (4, "bicubic"): "upsample_bicubic2d", (5, "trilinear"): "upsample_trilinear3d"}


def _is_integer(n):
    """Is it one of Python's or NumPy's integers, or a tensor of integers?"""
    return not n.is_floating_point() if isinstance(n, _C.Tensor) else isinstance(n, Integral)


def _sizes_and_scales(input, size, scale_factor, recompute):
    """The output size, or the factors: whichever is to be handed to the operator."""
    dim = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    spatial = list(input.shape[2:])
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        if isinstance(size, (list, tuple)):
            if len(size) != dim:
                raise ValueError(
                    "Input and output must have the same number of spatial dimensions, but got input with spatial dimensions "
                    f"of {spatial} and output size of {size}. Please provide input tensor in (N, C, d1, d2, ...,dK) format "
                    "and output size in (o1, o2, ...,oK) format."
                )
            if not all(map(_is_integer, size)):
                raise TypeError(
                    "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got size "
                    f"with types {[type(n) for n in size]}"
                )
            return list(size), None
        return [size] * dim, None
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if isinstance(scale_factor, (list, tuple)):
        if len(scale_factor) != dim:
            raise ValueError(
                "Input and scale_factor must have the same number of spatial dimensions, but got input with spatial "
                f"dimensions of {spatial} and scale_factor of shape {scale_factor}. Please provide input tensor in "
                "(N, C, d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) format."
            )
        scales = list(scale_factor)
    else:
        scales = [scale_factor] * dim
    if recompute:
        return [math.floor(float(n) * s) for n, s in zip(spatial, scales)], None
    return None, scales


@overridable
def interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    """Resize the spatial dims of (N, C, ...) to `size` or by `scale_factor`."""
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
            )
    elif mode == "lanczos" and align_corners:
        raise ValueError("Lanczos mode does not support align_corners=True")
    else:
        align_corners = bool(align_corners)
    ndim = input.dim()
    if mode == "area" and size is None:
        recompute_scale_factor = True
    size, scales = _sizes_and_scales(input, size, scale_factor, recompute_scale_factor)
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and ndim == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    if 3 <= ndim <= 5:
        if mode in ("nearest", "nearest-exact"):
            name = "upsample_nearest" if mode == "nearest" else "_upsample_nearest_exact"
            return getattr(aten, f"{name}{ndim - 2}d").vec(input, size, scales)
        if mode == "area":
            return getattr(aten, _ADAPTIVE[ndim])(input, size)
        if mode == "lanczos" and ndim == 4:
            if not antialias:
                raise ValueError("Lanczos mode requires antialias=True")
            return aten._upsample_lanczos2d_aa.vec(input, size, bool(align_corners), scales)
        if antialias:
            return getattr(aten, f"_upsample_{mode}2d_aa").vec(input, size, align_corners, scales)
        if (ndim, mode) in _UPSAMPLE:
            return getattr(aten, _UPSAMPLE[ndim, mode]).vec(input, size, align_corners, scales)
        if mode in _NEEDS:
            raise NotImplementedError(f"Got {ndim}D input, but {mode} mode needs {_NEEDS[mode]}D input")
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {ndim}D) for the modes: nearest | linear | bilinear | "
        f"bicubic | trilinear | lanczos | area | nearest-exact (got {mode})"
    )


def _deprecated(name):
    warnings.warn(f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=3)


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """Deprecated: `interpolate`."""
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """Deprecated: `interpolate(mode="nearest")`."""
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """Deprecated: `interpolate(mode="bilinear", align_corners=True)`."""
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


_SAMPLE_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_SAMPLE_PADDING = {"zeros": 0, "border": 1, "reflection": 2}
_ALIGN_CHANGED = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify "
    "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details."
)


@overridable
def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Values of `input` at the places in `grid`, given in [-1, 1]. grid: (N, H, W, 2) or (N, D, H, W, 3)."""
    if mode not in _SAMPLE_MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in _SAMPLE_PADDING:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    if align_corners is None:
        warnings.warn(_ALIGN_CHANGED, stacklevel=3)
        align_corners = False
    return _C.grid_sampler(input, grid, _SAMPLE_MODES[mode], _SAMPLE_PADDING[padding_mode], align_corners)


@overridable
def affine_grid(theta, size, align_corners=None):
    """The sampling grid of an affine map. theta: (N, 2, 3) or (N, 3, 4)."""
    if align_corners is None:
        warnings.warn(_ALIGN_CHANGED, stacklevel=3)
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {size}."
        )
    n = len(size) - 2
    if theta.dim() != 3 or theta.shape[-2:] != (n, n + 1):
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {size}. Got {theta.shape}."
        )
    if align_corners and min(size[2:]) == 1:
        warnings.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when align_corners=True. This is not "
            "an intended use case of affine_grid. See the documentation of affine_grid for details.",
            stacklevel=3,
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return _C.affine_grid_generator(theta, size, align_corners)


@overridable
def pad(input, pad, mode="constant", value=None):
    """Pad the last dims: (left, right, top, bottom, front, back). Modes: constant, reflect, replicate, circular."""
    return aten.pad(input, pad, mode, value)


@overridable
def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """Sliding patches as columns: (N, C, H, W) to (N, C·k, L)."""
    return aten.im2col(input, _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride))


@overridable
def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Sum columns of patches back into images: (N, C·k, L) to (N, C, H, W)."""
    return aten.col2im(
        input, _pair(output_size), _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride)
    )
