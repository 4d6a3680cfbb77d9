"""Modules without initial values."""
from ..modules.module import Module


def skip_init(module_cls, *args, **kwargs):
    """Build a module with uninitialized parameters: on the meta device first, then memory on the wanted one."""
    import inspect

    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    wanted = kwargs.get("device", "cpu")
    shapes_only = module_cls(*args, **{**kwargs, "device": "meta"})
    return shapes_only.to_empty(device=wanted)
