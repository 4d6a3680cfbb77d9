# Made by scripts/stubs.

from ._C import (
    Tensor as Tensor, fft_fft as fft, fft_fft2 as fft2, fft_fftfreq as fftfreq, fft_fftn as fftn,
    fft_fftshift as fftshift, fft_hfft as hfft, fft_hfft2 as hfft2, fft_hfftn as hfftn, fft_ifft as ifft,
    fft_ifft2 as ifft2, fft_ifftn as ifftn, fft_ifftshift as ifftshift, fft_ihfft as ihfft, fft_ihfft2 as ihfft2,
    fft_ihfftn as ihfftn, fft_irfft as irfft, fft_irfft2 as irfft2, fft_irfftn as irfftn, fft_rfft as rfft,
    fft_rfft2 as rfft2, fft_rfftfreq as rfftfreq, fft_rfftn as rfftn,
)
