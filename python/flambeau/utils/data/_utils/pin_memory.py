"""Page-locked memory for samples: without an accelerator there is nothing to lock."""
from __future__ import annotations


def pin_memory(data, device=None):
    """The data, through its own ``pin_memory()`` where an object (not a tensor) defines one."""
    import flambeau as _fl

    if isinstance(data, (_fl.Tensor, str, bytes)):
        return data
    if isinstance(data, dict):
        return {k: pin_memory(v, device) for k, v in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_memory(v, device) for v in data))
    if isinstance(data, (list, tuple)):
        return type(data)(pin_memory(v, device) for v in data)
    return data.pin_memory() if hasattr(data, "pin_memory") else data
