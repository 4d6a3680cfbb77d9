"""Pooling of all kinds."""
from ... import _C
from ..._names import overridable
from .._tuples import _list_with_default, _ntuple, _pair, _single, _triple

aten = _C.ops.aten
avg_pool1d = _C.avg_pool1d
adaptive_avg_pool1d = _C.adaptive_avg_pool1d


def avg_pool2d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None, *,
               out=None):  # fmt: skip
    """Mean over windows of (N, C, H, W)."""
    stride = [] if stride is None else stride
    written = {} if out is None else {"out": out}
    return aten.avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, **written)


def avg_pool3d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None, *,
               out=None):  # fmt: skip
    """Mean over windows of (N, C, D, H, W)."""
    stride = [] if stride is None else stride
    written = {} if out is None else {"out": out}
    return aten.avg_pool3d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, **written)


def _max_pool(n, plain, indexed):
    def with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        return indexed(input, kernel_size, [] if stride is None else stride, padding, dilation, ceil_mode)

    def max_pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        stride = [] if stride is None else stride
        return (indexed if return_indices else plain)(input, kernel_size, stride, padding, dilation, ceil_mode)

    with_indices.__name__ = with_indices.__qualname__ = f"max_pool{n}d_with_indices"
    with_indices.__doc__ = f"Maximum over windows in {n}D, and where it was."
    max_pool.__name__ = max_pool.__qualname__ = f"max_pool{n}d"
    max_pool.__doc__ = f"Maximum over windows in {n}D; with `return_indices`, also where it was."
    return overridable(with_indices), overridable(max_pool)


max_pool1d_with_indices, max_pool1d = _max_pool(1, _C.max_pool1d, _C.max_pool1d_with_indices)
max_pool2d_with_indices, max_pool2d = _max_pool(2, _C.max_pool2d, aten.max_pool2d_with_indices)
max_pool3d_with_indices, max_pool3d = _max_pool(3, _C.max_pool3d, aten.max_pool3d_with_indices)


def _adaptive_max_pool(n, indexed, complete):
    spread = _ntuple(n)

    def size(input, output_size):
        return spread(_list_with_default(output_size, input.size())) if complete else output_size

    def with_indices(input, output_size, return_indices=False):
        return indexed(input, size(input, output_size))

    def adaptive_max_pool(input, output_size, return_indices=False):
        pair = indexed(input, size(input, output_size))
        return pair if return_indices else pair[0]

    with_indices.__name__ = with_indices.__qualname__ = f"adaptive_max_pool{n}d_with_indices"
    with_indices.__doc__ = f"Maximum over windows in {n}D chosen for an output size, and where it was."
    adaptive_max_pool.__name__ = adaptive_max_pool.__qualname__ = f"adaptive_max_pool{n}d"
    adaptive_max_pool.__doc__ = f"Maximum over windows in {n}D chosen for an output size (None: as the input)."
    return overridable(with_indices), overridable(adaptive_max_pool)


adaptive_max_pool1d_with_indices, adaptive_max_pool1d = _adaptive_max_pool(1, _C.adaptive_max_pool1d, False)
adaptive_max_pool2d_with_indices, adaptive_max_pool2d = _adaptive_max_pool(2, aten.adaptive_max_pool2d, True)
adaptive_max_pool3d_with_indices, adaptive_max_pool3d = _adaptive_max_pool(3, aten.adaptive_max_pool3d, True)


@overridable
def adaptive_avg_pool2d(input, output_size):
    """Mean over windows chosen for an output size (H, W); None keeps the input's."""
    return aten.adaptive_avg_pool2d(input, _pair(_list_with_default(output_size, input.size())))


@overridable
def adaptive_avg_pool3d(input, output_size):
    """Mean over windows chosen for an output size (D, H, W); None keeps the input's."""
    return aten.adaptive_avg_pool3d(input, _triple(_list_with_default(output_size, input.size())))


def _fractional(n, op):
    name = f"fractional_max_pool{n}d"

    def pool(input, kernel_size, output_size, output_ratio, samples):
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        if output_size is None:
            if len(output_ratio) > n:
                raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
            output_size = [int(s * r) for s, r in zip(input.size()[-n:], output_ratio)]
        if samples is None:
            batch = 1 if input.dim() == n + 1 else input.size(0)
            samples = _C.rand(batch, input.size(-n - 1), n, dtype=input.dtype, device=input.device)
        return op(input, kernel_size, output_size, samples)

    def with_indices(
        input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
    ):
        return pool(input, kernel_size, output_size, output_ratio, _random_samples)

    def fractional(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        pair = pool(input, kernel_size, output_size, output_ratio, _random_samples)
        return pair if return_indices else pair[0]

    with_indices.__name__ = with_indices.__qualname__ = name + "_with_indices"
    fractional.__name__ = fractional.__qualname__ = name
    with_indices.__doc__ = fractional.__doc__ = f"Maximum over {n}D windows of random placement."
    return overridable(with_indices), overridable(fractional)


fractional_max_pool2d_with_indices, fractional_max_pool2d = _fractional(2, aten.fractional_max_pool2d)
fractional_max_pool3d_with_indices, fractional_max_pool3d = _fractional(3, aten.fractional_max_pool3d)


def _unpool_output_size(input, kernel_size, stride, padding, output_size):
    spatial = input.size()[-len(kernel_size):]
    default = [(n - 1) * s + k - 2 * p for n, s, k, p in zip(spatial, stride, kernel_size, padding)]
    if output_size is None:
        return default
    n = len(kernel_size)
    if len(output_size) == n + 2:
        output_size = output_size[2:]
    if len(output_size) != n:
        raise ValueError(
            f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a length of "
            f"'{len(output_size)}'"
        )
    for d in range(n):
        low, high = default[d] - stride[d], default[d] + stride[d]
        if not low < output_size[d] < high:
            raise ValueError(f'invalid output_size "{output_size}" (dim {d} must be between {low} and {high})')
    return output_size


def _unpool_args(spread, input, kernel_size, stride, padding, output_size):
    kernel_size = spread(kernel_size)
    stride = spread(stride) if stride is not None else kernel_size
    padding = spread(padding)
    return list(_unpool_output_size(input, kernel_size, stride, padding, output_size)), stride, padding


@overridable
def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put values back where `max_pool1d` found them; zeros elsewhere."""
    size, _, _ = _unpool_args(_single, input, kernel_size, stride, padding, output_size)
    return aten.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1]).squeeze(-1)


@overridable
def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put values back where `max_pool2d` found them; zeros elsewhere."""
    size, _, _ = _unpool_args(_pair, input, kernel_size, stride, padding, output_size)
    return aten.max_unpool2d(input, indices, size)


@overridable
def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put values back where `max_pool3d` found them; zeros elsewhere."""
    size, stride, padding = _unpool_args(_triple, input, kernel_size, stride, padding, output_size)
    return aten.max_unpool3d(input, indices, size, stride, padding)


def _lp(means, norm_type, count):
    """(count · mean)^(1/p), with the sign kept out of the power."""
    return (_C.sign(means) * _C.relu(_C.abs(means))).mul(count).pow(1.0 / norm_type)


@overridable
def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The p-norm of each window of (N, C, L)."""
    means = avg_pool1d(input.pow(norm_type), kernel_size, [] if stride is None else stride, 0, ceil_mode)
    return _lp(means, norm_type, kernel_size)


@overridable
def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The p-norm of each window of (N, C, H, W)."""
    kh, kw = _pair(kernel_size)
    return _lp(avg_pool2d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode), norm_type, kh * kw)


@overridable
def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The p-norm of each window of (N, C, D, H, W)."""
    kd, kh, kw = _triple(kernel_size)
    return _lp(avg_pool3d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode), norm_type, kd * kh * kw)
