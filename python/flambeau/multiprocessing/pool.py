"""Pools of processes, whose arguments and results may be tensors."""
from multiprocessing.pool import Pool

__all__ = ["Pool"]
