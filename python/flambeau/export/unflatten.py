"""Exported programs as modules with the structure of the original."""
import abc

from ..nn import Module

__all__ = ["FlatArgsAdapter", "UnflattenedModule", "unflatten"]


class FlatArgsAdapter(abc.ABC):
    """Fits a call's flat arguments to the structure that a program was exported with."""

    @abc.abstractmethod
    def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
        """The arguments in the order of `target_spec`."""


class UnflattenedModule(Module):
    """A module made of an exported program; there are no exported programs."""

    def __init__(self, export_module, flat_args_adapter=None):
        raise NotImplementedError("torch.export.UnflattenedModule: Flambeau does not trace programs to graphs of operators")


def unflatten(module, flat_args_adapter=None):
    """The module of an exported program."""
    return UnflattenedModule(module, flat_args_adapter)
