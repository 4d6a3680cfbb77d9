"""Tools for modules and their parameters."""
import importlib as _importlib

# These two submodules share their names with functions, which must win: hence not lazily.
from .spectral_norm import remove_spectral_norm, spectral_norm
from .weight_norm import remove_weight_norm, weight_norm

_MODULES = frozenset(
    "clip_grad convert_parameters fusion init memory_format parametrizations parametrize prune rnn stateless".split()
)
_NAMES = {
    "clip_grad_norm": ("clip_grad", "clip_grad_norm"),
    "clip_grad_norm_": ("clip_grad", "clip_grad_norm_"),
    "clip_grad_value_": ("clip_grad", "clip_grad_value_"),
    "clip_grads_with_norm_": ("clip_grad", "_clip_grads_with_norm_"),
    "get_total_norm": ("clip_grad", "_get_total_norm"),
    "parameters_to_vector": ("convert_parameters", "parameters_to_vector"),
    "vector_to_parameters": ("convert_parameters", "vector_to_parameters"),
    "fuse_conv_bn_eval": ("fusion", "fuse_conv_bn_eval"),
    "fuse_conv_bn_weights": ("fusion", "fuse_conv_bn_weights"),
    "fuse_linear_bn_eval": ("fusion", "fuse_linear_bn_eval"),
    "fuse_linear_bn_weights": ("fusion", "fuse_linear_bn_weights"),
    "skip_init": ("init", "skip_init"),
    "convert_conv2d_weight_memory_format": ("memory_format", "convert_conv2d_weight_memory_format"),
    "convert_conv3d_weight_memory_format": ("memory_format", "convert_conv3d_weight_memory_format"),
}

__all__ = [
    *_NAMES, "parametrizations", "rnn", "stateless", "spectral_norm", "remove_spectral_norm", "weight_norm",
    "remove_weight_norm",
]


def __getattr__(name):
    if name in _MODULES:
        return _importlib.import_module("." + name, __name__)
    if name in _NAMES:
        module, attribute = _NAMES[name]
        value = getattr(_importlib.import_module("." + module, __name__), attribute)
        globals()[name] = value
        return value
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_MODULES, *_NAMES})
