"""Where PyTorch keeps its function transforms; here they live in `flambeau.func`."""
import importlib as _importlib

_MODULES = frozenset("apis eager_transforms functional_call make_functional vmap".split())


def __getattr__(name):
    if name in _MODULES:
        return _importlib.import_module("." + name, __name__)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
