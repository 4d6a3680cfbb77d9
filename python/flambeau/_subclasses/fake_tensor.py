"""Tensors without data that say that they are on a device: none exist."""
from .. import Tensor

__all__ = ["FakeTensor", "FakeTensorMode", "is_fake", "unset_fake_temporarily"]


class FakeTensor(Tensor):
    """A tensor without data. None can be made: use tensors of device 'meta'."""

    def __new__(cls, *args, **kwargs):
        raise NotImplementedError("FakeTensor: Flambeau has tensors of device 'meta' instead")


class FakeTensorMode:
    """Makes such tensors. None can be entered: use tensors of device 'meta'."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("FakeTensorMode: Flambeau has tensors of device 'meta' instead")


def is_fake(x):
    """Does a value only pretend to be a tensor? Never."""
    return False


def unset_fake_temporarily():
    """A context without such a mode: every context is."""
    import contextlib

    return contextlib.nullcontext()
