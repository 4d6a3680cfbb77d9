"""Tensors in parts on several processes."""
from ... import Tensor
from .. import init_process_group

__all__ = ["DTensor"]


class DTensor(Tensor):
    """A tensor in parts. None can be made: processes that train together do not exist."""

    def __new__(cls, *args, **kwargs):
        return init_process_group()
