"""`torch.amp`'s scaler for the processor."""
from ...amp._by_device import scaler_of

__all__ = ["GradScaler"]

GradScaler = scaler_of("cpu", __name__)
