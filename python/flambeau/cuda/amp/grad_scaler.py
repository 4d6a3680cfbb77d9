"""`torch.amp`'s scaler for CUDA."""
from ...amp._by_device import scaler_of
from ...amp.grad_scaler import OptState  # noqa: F401

__all__ = ["GradScaler"]

GradScaler = scaler_of("cuda", __name__)
