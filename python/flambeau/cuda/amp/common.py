"""Whether mixed precision can be had."""
from ...amp._by_device import amp_definitely_not_available

__all__ = ["amp_definitely_not_available"]
