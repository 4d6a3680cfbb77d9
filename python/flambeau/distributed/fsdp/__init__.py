"""Models in parts on several processes. None can be made: processes that train together do not exist."""
from ...nn import Module
from .. import init_process_group

__all__ = ["FSDPModule", "FullyShardedDataParallel", "fully_shard"]


class FullyShardedDataParallel(Module):
    """A module in parts."""

    def __init__(self, *args, **kwargs):
        init_process_group()


class FSDPModule:
    """What a module becomes by `fully_shard`."""

    def __new__(cls, *args, **kwargs):
        return init_process_group()


def fully_shard(module, **options):
    """Would take a module apart."""
    init_process_group()
