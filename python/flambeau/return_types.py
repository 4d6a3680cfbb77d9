"""The types of results that have names, as `return_types.max`."""
from . import _C


def __getattr__(name):
    found = None if name.startswith("__") else _C._result_type(name)
    if found is None:
        raise AttributeError(f"module 'flambeau.return_types' has no attribute '{name}'")
    globals()[name] = found
    return found
