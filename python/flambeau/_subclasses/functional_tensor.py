"""Tensors whose writes are turned into functions: none exist."""
from .. import Tensor

__all__ = ["FunctionalTensor"]


class FunctionalTensor(Tensor):
    """A tensor inside a trace below autograd. None can be made."""

    def __new__(cls, *args, **kwargs):
        raise NotImplementedError("FunctionalTensor: Flambeau does not trace below autograd")


def mb_unwrap_functional_tensor(tensor):
    """The tensor inside, if it is one; here it is what it is."""
    return tensor
