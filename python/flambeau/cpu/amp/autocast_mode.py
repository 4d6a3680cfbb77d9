"""`torch.amp`'s blocks for the processor."""
import flambeau as _fl

from ...amp._by_device import autocast_of

__all__ = ["autocast"]

autocast = autocast_of("cpu", _fl.bfloat16, __name__)
