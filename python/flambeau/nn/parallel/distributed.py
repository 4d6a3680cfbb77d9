"""Training one module in several processes."""
from ..modules.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """A module whose gradients are averaged over processes. None can be made: processes that train together do not exist."""

    def __init__(self, module, *args, **kwargs):
        super().__init__()
        from ...distributed import get_rank

        get_rank()
