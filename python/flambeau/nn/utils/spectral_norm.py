"""Weights divided by their largest singular value (the old form, by hooks)."""
from ... import _C
from ...autograd.grad_mode import no_grad
from ..functional import normalize
from ..modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..parameter import Parameter, UninitializedParameter
from .weight_norm import find_hook

__all__ = [
    "SpectralNorm", "SpectralNormLoadStateDictPreHook", "SpectralNormStateDictHook", "spectral_norm", "remove_spectral_norm",
]


class SpectralNorm:
    """The forward pre-hook that computes the weight; u and v are the singular vectors so far."""

    _version = 1

    def __init__(self, name="weight", n_power_iterations=1, dim=0, eps=1e-12):
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name, self.dim, self.eps = name, dim, eps
        self.n_power_iterations = n_power_iterations

    def reshape_weight_to_matrix(self, weight):
        """`dim` as rows, everything else as columns."""
        rows_first = weight.movedim(self.dim, 0)
        return rows_first.reshape(len(rows_first), -1)

    def _unit(self, vector, out=None):
        return normalize(vector, dim=0, eps=self.eps, out=out)

    def compute_weight(self, module, do_power_iteration):
        """The weight over its spectral norm, after an update of u and v if asked."""
        weight, left, right = (getattr(module, self.name + end) for end in ("_orig", "_u", "_v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            left, right = self._improve(matrix, left, right)
        return weight / left.dot(matrix.mv(right))

    @no_grad()
    def _improve(self, matrix, left, right):
        """Steps of power iteration in place; returns copies, since backward needs what the next call overwrites."""
        for _ in range(self.n_power_iterations):
            right = self._unit(matrix.t().mv(left), out=right)
            left = self._unit(matrix.mv(right), out=left)
        return tuple(vector.clone(memory_format=_C.contiguous_format) for vector in (left, right))

    def remove(self, module):
        """Make the weight a parameter again."""
        plain = Parameter(self.compute_weight(module, do_power_iteration=False).detach())
        for end in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + end)
        module.register_parameter(self.name, plain)

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    def _solve_v_and_rescale(self, matrix, u, target_sigma):
        columns = matrix.t()
        v = _C.linalg.multi_dot([columns.mm(matrix).pinverse(), columns, u])
        return v * (target_sigma / u.dot(matrix.mv(v)))

    @staticmethod
    def apply(module, name, n_power_iterations, dim, eps):
        """Rename the parameter, add u and v, register the hooks."""
        if find_hook(module, SpectralNorm, name) is not None:
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        fn = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to run the dummy forward "
                "before applying spectral normalization"
            )
        with _C.no_grad():
            sizes = fn.reshape_weight_to_matrix(weight).shape
            left, right = (fn._unit(weight.new_empty(size).normal_(0, 1)) for size in sizes)
        module.register_parameter(name + "_orig", module._parameters.pop(name))
        setattr(module, name, weight.data)  # not a parameter: hooks replace it
        for end, vector in (("_u", left), ("_v", right)):
            module.register_buffer(name + end, vector)
        module.register_forward_pre_hook(fn)
        module._register_state_dict_hook(SpectralNormStateDictHook(fn))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(fn))
        return fn


class SpectralNormLoadStateDictPreHook:
    """Brings files of the first version, which had no v, up to date."""

    def __init__(self, fn):
        self.fn = fn

    def __call__(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        fn = self.fn
        version = local_metadata.get("spectral_norm", {}).get(fn.name + ".version", None)
        if version is not None and version >= 1:
            return
        key = prefix + fn.name
        if version is None and all(key + s in state_dict for s in ("_orig", "_u", "_v")) and key not in state_dict:
            return
        if any(key + s not in state_dict for s in ("_orig", "", "_u")):
            if strict:
                missing_keys.extend(key + s for s in ("_orig", "", "_u") if key + s not in state_dict)
            return
        with _C.no_grad():
            original, weight = state_dict[key + "_orig"], state_dict.pop(key)
            sigma = (original / weight).mean()
            matrix = fn.reshape_weight_to_matrix(original)
            state_dict[key + "_v"] = fn._solve_v_and_rescale(matrix, state_dict[key + "_u"], sigma)


class SpectralNormStateDictHook:
    """Notes the version in the metadata of a state_dict."""

    def __init__(self, fn):
        self.fn = fn

    def __call__(self, module, state_dict, prefix, local_metadata):
        versions = local_metadata.setdefault("spectral_norm", {})
        key = self.fn.name + ".version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divide a weight by its spectral norm, estimated by power iteration."""
    if dim is None:
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module, name="weight"):
    """Undo `spectral_norm`."""
    key = find_hook(module, SpectralNorm, name)
    if key is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    module._forward_pre_hooks.pop(key).remove(module)
    for table, kind in (
        (module._state_dict_hooks, SpectralNormStateDictHook),
        (module._load_state_dict_pre_hooks, SpectralNormLoadStateDictPreHook),
    ):
        for key, hook in table.items():
            inner = getattr(hook, "hook", hook)
            if isinstance(inner, kind) and inner.fn.name == name:
                del table[key]
                break
    return module
