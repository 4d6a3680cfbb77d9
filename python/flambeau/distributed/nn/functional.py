"""The functions of `torch.distributed` with gradients."""
from .. import (all_gather, all_reduce, all_to_all, all_to_all_single, broadcast, gather, reduce, reduce_scatter,
                scatter)  # fmt: skip

__all__ = ["all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter",
           "scatter"]  # fmt: skip
