"""The older place of `distributed.tensor`."""
from ..tensor import DTensor

__all__ = ["DTensor"]
