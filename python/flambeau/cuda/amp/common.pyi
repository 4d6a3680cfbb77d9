# Made by scripts/stubs.

from ...amp._by_device import amp_definitely_not_available as amp_definitely_not_available
