"""Sizes and types of every value, by running a graph once."""
from typing import Any, NamedTuple

from ... import _C
from ..interpreter import Interpreter
from ..node import map_aggregate

__all__ = ["TensorMetadata", "ShapeProp"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor besides its numbers."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple
    memory_format: Any
    is_quantized: bool
    qparams: dict


def _extract_tensor_metadata(result, include_contiguity=True):
    """The metadata of a tensor."""
    memory_format = None
    if include_contiguity:
        formats = (_C.contiguous_format, _C.channels_last, _C.channels_last_3d)
        memory_format = next((f for f in formats if result.is_contiguous(memory_format=f)), None)
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(), memory_format, False, {})


class ShapeProp(Interpreter):
    """Runs a graph module and leaves in each node's meta `type` and, for tensors, `tensor_meta`."""

    def __init__(self, gm, fake_mode=None):
        super().__init__(gm)
        if fake_mode is not None:
            raise NotImplementedError("tensors that only pretend do not exist: use tensors of device 'meta'")

    def run_node(self, n):
        """The node's value; its meta is set."""
        result = super().run_node(n)
        seen = []

        def describe(value):
            if not isinstance(value, _C.Tensor):
                return value
            seen.append(value)
            return _extract_tensor_metadata(value)

        meta = map_aggregate(result, describe)
        if seen:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args):
        """Runs the module on these inputs."""
        return super().run(*args)
