# Made by scripts/stubs.

from . import autocast_mode as autocast_mode, common as common, grad_scaler as grad_scaler
from ...amp._by_device import (
    amp_definitely_not_available as amp_definitely_not_available, custom_bwd as custom_bwd, custom_fwd as custom_fwd,
)
from .autocast_mode import autocast as autocast
from .grad_scaler import GradScaler as GradScaler
