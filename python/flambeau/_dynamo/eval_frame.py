"""The class of compiled modules."""
from ..nn import Module

__all__ = ["OptimizedModule"]


class OptimizedModule(Module):
    """What PyTorch makes of a compiled module. `compile` returns the module itself here: this is for type checks."""

    def __init__(self, mod, dynamo_ctx=None):
        super().__init__()
        self._orig_mod = mod

    def forward(self, *args, **kwargs):
        """The module's own result."""
        return self._orig_mod(*args, **kwargs)
