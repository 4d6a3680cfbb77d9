"""Discrete Fourier transforms, in one, two or more dimensions."""
from . import _C
from ._namespace import fill

Tensor = _C.Tensor

fill(
    globals(),
    "fft_",
    "fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift "
    "hfft2 ihfft2 hfftn ihfftn",
)
