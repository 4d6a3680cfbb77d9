# Made by scripts/stubs.

from . import autocast_mode as autocast_mode, grad_scaler as grad_scaler
from .autocast_mode import autocast as autocast
from .grad_scaler import GradScaler as GradScaler
