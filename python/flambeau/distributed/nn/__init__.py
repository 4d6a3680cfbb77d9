"""Values of several processes joined with gradients. There are none: whatever needs them raises."""
from ...nn import Module
from .. import init_process_group
from . import functional
from .functional import *  # noqa: F403

__all__ = ["RemoteModule", *functional.__all__]


class RemoteModule(Module):
    """A module that lives in another process. None can be made."""

    def __init__(self, *args, **kwargs):
        init_process_group()
