"""A mode that `vmap` of indexing needs in PyTorch."""
from ..overrides import BaseTorchFunctionMode

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(BaseTorchFunctionMode):
    """Tensors without dimensions stay tensors as indices, also under `vmap`: so they do here in any case."""
