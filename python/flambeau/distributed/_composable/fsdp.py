"""The older place of `fully_shard`."""
from ..fsdp import FSDPModule, fully_shard

__all__ = ["FSDPModule", "fully_shard"]
