"""Tools that are not part of another package. Sub-modules are imported when first used."""
import importlib as _importlib

_LAZY = frozenset(
    "_pytree backcompat checkpoint collect_env cpp_extension data dlpack hooks mobile_optimizer model_zoo tensorboard".split()
)


def __getattr__(name):
    if name in _LAZY:
        try:
            return _importlib.import_module("." + name, __name__)
        except ModuleNotFoundError as e:
            if e.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
