"""`torch.amp`'s blocks for CUDA."""
import flambeau as _fl

from ...amp._by_device import autocast_of, custom_bwd, custom_fwd

__all__ = ["autocast", "custom_fwd", "custom_bwd"]

autocast = autocast_of("cuda", _fl.float16, __name__)
