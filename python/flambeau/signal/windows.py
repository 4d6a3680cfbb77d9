"""Window functions of length M; symmetric ones for filters (`sym=True`), periodic ones for spectra."""
import math

from .. import _C

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming",
           "hann", "kaiser", "nuttall"]  # fmt: skip


def _check(name, M, dtype, layout):
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not _C.strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if dtype not in (_C.float32, _C.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")


def _window(name, M, make, sym, dtype, layout, device, requires_grad):
    """Checks the arguments and gives `make(n, options)`, or the empty window; n is the window's period."""
    dtype = dtype if dtype is not None else _C.get_default_dtype()
    _check(name, M, dtype, layout)
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    if M == 0:
        return _C.empty((0,), **options)
    return make(M if not sym and M > 1 else M - 1, options)


def exponential(M, *, center=None, tau=1.0, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """exp(-|n - center| / tau)"""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")

    def make(n, options):
        middle = n / 2.0 if center is None else center
        constant = 1 / tau
        k = _C.linspace(-middle * constant, (-middle + (M - 1)) * constant, M, **options)
        return _C.exp(-_C.abs(k))

    return _window("exponential", M, make, sym, dtype, layout, device, requires_grad)


def cosine(M, *, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """sin(pi (n + 1/2) / M)"""

    def make(n, options):
        start, constant = 0.5, math.pi / (M + 1 if not sym and M > 1 else M)
        k = _C.linspace(start * constant, (start + (M - 1)) * constant, M, **options)
        return _C.sin(k)

    return _window("cosine", M, make, sym, dtype, layout, device, requires_grad)


def gaussian(M, *, std=1.0, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """exp(-(n / std)^2 / 2), centred"""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")

    def make(n, options):
        constant = 1 / (std * math.sqrt(2))
        start = -n / 2.0
        k = _C.linspace(start * constant, (start + (M - 1)) * constant, M, **options)
        return _C.exp(-(k**2))

    return _window("gaussian", M, make, sym, dtype, layout, device, requires_grad)


def kaiser(M, *, beta=12.0, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """I0(beta sqrt(1 - x^2)) / I0(beta)"""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def make(n, options):
        if M == 1:
            return _C.ones((1,), **options)
        beta_t = _C.tensor(beta, dtype=options["dtype"], device=device)
        start = -beta_t
        constant = 2.0 * beta_t / n
        end = _C.minimum(beta_t, start + (M - 1) * constant)
        k = _C.linspace(start, end, M, **options)
        return _C.i0(_C.sqrt(beta_t * beta_t - _C.pow(k, 2))) / _C.i0(beta_t)

    return _window("kaiser", M, make, sym, dtype, layout, device, requires_grad)


def general_cosine(M, *, a, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """sum_i (-1)^i a_i cos(2 pi i n / N)"""
    if not hasattr(a, "__iter__"):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")

    def make(n, options):
        if M == 1:
            return _C.ones((1,), **options)
        constant = 2 * math.pi / n
        k = _C.linspace(0, (M - 1) * constant, M, **options)
        weights = _C.tensor([(-1) ** i * w for i, w in enumerate(a)], dtype=options["dtype"], device=device)
        i = _C.arange(weights.shape[0], dtype=weights.dtype, device=device)
        return (weights.unsqueeze(-1) * _C.cos(i.unsqueeze(-1) * k)).sum(0)

    return _window("general_cosine", M, make, sym, dtype, layout, device, requires_grad)


def general_hamming(M, *, alpha=0.54, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """alpha - (1 - alpha) cos(2 pi n / N)"""
    like = dict(dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **like)


def hamming(M, *, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """The general Hamming window with alpha 0.54."""
    like = dict(dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)
    return general_hamming(M, sym=sym, **like)


def hann(M, *, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """The general Hamming window with alpha 0.5."""
    like = dict(dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)
    return general_hamming(M, alpha=0.5, sym=sym, **like)


def blackman(M, *, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """The cosine window with coefficients 0.42, 0.5, 0.08."""
    dtype = dtype if dtype is not None else _C.get_default_dtype()
    _check("blackman", M, dtype, layout)
    like = dict(dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **like)


def nuttall(M, *, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """The four-term cosine window of Nuttall with the lowest side lobes."""
    like = dict(dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **like)


def bartlett(M, *, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """A triangle."""

    def make(n, options):
        if M == 1:
            return _C.ones((1,), **options)
        constant = 2 / n
        k = _C.linspace(-1, -1 + (M - 1) * constant, M, **options)
        return 1 - _C.abs(k)

    return _window("bartlett", M, make, sym, dtype, layout, device, requires_grad)
