"""Weights as magnitude times direction (the old form, by hooks)."""
import warnings

from ... import _C
from ..parameter import Parameter, UninitializedParameter

__all__ = ["WeightNorm", "weight_norm", "remove_weight_norm"]


def find_hook(module, kind, name):
    """The key of the forward pre-hook of a kind for a tensor, or None."""
    hooks = module._forward_pre_hooks.items()
    return next((key for key, hook in hooks if isinstance(hook, kind) and hook.name == name), None)


class WeightNorm:
    """The forward pre-hook that computes the weight."""

    def __init__(self, name, dim):
        self.name, self.dim = name, -1 if dim is None else dim

    def _names(self):
        """The names of magnitude and direction."""
        return [f"{self.name}_{part}" for part in "gv"]

    def compute_weight(self, module):
        """g · v / ‖v‖."""
        magnitude, direction = (getattr(module, name) for name in self._names())
        return _C.ops.aten._weight_norm(direction, magnitude, self.dim)

    @staticmethod
    def apply(module, name, dim):
        """Split the parameter and register the hook."""
        if find_hook(module, WeightNorm, name) is not None:
            raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        fn = WeightNorm(name, dim)
        weight = getattr(module, name)
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure to run the dummy forward "
                "before applying weight normalization"
            )
        del module._parameters[name]
        for part, value in zip(fn._names(), (_C.norm_except_dim(weight, 2, fn.dim), weight)):
            module.register_parameter(part, Parameter(value.data))
        fn(module, None)
        module.register_forward_pre_hook(fn)
        return fn

    def remove(self, module):
        """Make the weight a parameter again."""
        whole = Parameter(self.compute_weight(module).data)
        for name in (self.name, *self._names()):
            delattr(module, name)
        setattr(module, self.name, whole)

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module, name="weight", dim=0):
    """Deprecated: use `parametrizations.weight_norm`."""
    warnings.warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module, name="weight"):
    """Undo `weight_norm`."""
    key = find_hook(module, WeightNorm, name)
    if key is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    module._forward_pre_hooks.pop(key).remove(module)
    return module
