"""Optimisers that share their state among processes. None can be made: processes that train together do not exist."""
from ...optim import Optimizer
from .. import init_process_group

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer):
    """Its state in parts on several processes."""

    def __init__(self, *args, **kwargs):
        init_process_group()


class PostLocalSGDOptimizer(Optimizer):
    """Averages the parameters of several processes now and then."""

    def __init__(self, *args, **kwargs):
        init_process_group()


class DistributedOptimizer:
    """Steps where the parameters are."""

    def __init__(self, *args, **kwargs):
        init_process_group()
