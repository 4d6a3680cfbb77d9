"""Pruning: masks over parameters, chosen by rule."""
import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable

from ... import _C
from ..parameter import Parameter


def _validate_pruning_amount_init(amount):
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if (isinstance(amount, numbers.Integral) and amount < 0) or (
        not isinstance(amount, numbers.Integral) and not 0.0 <= float(amount) <= 1.0
    ):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _validate_pruning_amount(amount, tensor_size):
    if isinstance(amount, numbers.Integral) and amount > tensor_size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def _validate_structured_pruning(t):
    if len(t.shape) <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
            f"{t.shape} with {len(t.shape)} dims"
        )


def _compute_nparams_toprune(amount, tensor_size):
    return amount if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _validate_pruning_dim(t, dim):
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _compute_norm(t, n, dim):
    """The n-norm of each slice along `dim`."""
    return _C.norm(t, p=n, dim=[d for d in range(t.dim()) if d != (dim if dim >= 0 else dim + t.dim())])


def _scores_of(tensor, scores, what):
    """What elements are ranked by: the given scores, or the tensor itself."""
    if scores is None:
        return tensor
    if scores.shape != tensor.shape:
        raise AssertionError(
            f"importance_scores should have the same shape as {what}, got {scores.shape} vs {tensor.shape}"
        )
    return scores


class BasePruningMethod(ABC):
    """A rule for masks, and the forward pre-hook that multiplies them in."""

    _tensor_name: str

    def __call__(self, module, inputs):
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t, default_mask):
        """The mask for `t`, within `default_mask`."""

    def apply_mask(self, module):
        """Original times mask."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask = getattr(module, self._tensor_name + "_mask")
        original = getattr(module, self._tensor_name + "_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prune parameter `name` by a new method of this class, on top of what pruned it before."""
        keys = _hook_keys(module, name)
        if len(keys) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a PruningContainer."
            )
        old = module._forward_pre_hooks.pop(keys[0]) if keys else None
        method = cls(*args, **kwargs)
        method._tensor_name = name
        if old is not None:
            chain = old if isinstance(old, PruningContainer) else PruningContainer(old)
            chain.add_pruning_method(method)
            method = chain
        original = getattr(module, name)
        scores = _scores_of(original, importance_scores, f"parameter {name} of {module}")
        if old is None:
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
            default_mask = _C.ones_like(original)
        else:
            default_mask = getattr(module, name + "_mask").detach().clone(memory_format=_C.contiguous_format)
        try:
            module.register_buffer(name + "_mask", method.compute_mask(scores, default_mask=default_mask))
            method(module, None)
        except Exception:
            if old is None:  # as if nothing had happened
                module.register_parameter(name, module._parameters.pop(name + "_orig"))
            raise
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t, default_mask=None, importance_scores=None):
        """A pruned copy of `t`."""
        scores = _scores_of(t, importance_scores, "tensor t")
        return t * self.compute_mask(scores, default_mask=_C.ones_like(t) if default_mask is None else default_mask)

    def remove(self, module):
        """Make the pruned tensor the parameter."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        pruned = self.apply_mask(module).data
        module.__dict__.pop(name, None)
        parameter = module._parameters.pop(name + "_orig")
        del module._buffers[name + "_mask"]
        parameter.data = pruned
        setattr(module, name, parameter)


def _hook_keys(module, name):
    """The keys of the hooks that prune a tensor."""
    hooks = module._forward_pre_hooks.items()
    return [key for key, hook in hooks if isinstance(hook, BasePruningMethod) and hook._tensor_name == name]


class PruningContainer(BasePruningMethod):
    """Several methods on one tensor, each working on what the ones before left."""

    def __init__(self, *args):
        self._pruning_methods = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method):
        """Add one more method."""
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if getattr(method, "_tensor_name", None) != self._tensor_name and method is not None:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, idx):
        return self._pruning_methods[idx]

    def compute_mask(self, t, default_mask):
        """The mask for `t`, within `default_mask`."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            where = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim if method.dim >= 0 else method.dim + t.dim()
            kept = mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0
            where = [slice(None)] * t.dim()
            where[dim] = kept
            where = tuple(where)
        elif method.PRUNING_TYPE == "global":
            where = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        combined = mask.clone()
        combined[where] = method.compute_mask(t[where], default_mask=mask[where]).to(dtype=mask.dtype)
        return combined


class Identity(BasePruningMethod):
    """Prunes nothing."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        """The mask for `t`, within `default_mask`."""
        return default_mask

    @classmethod
    def apply(cls, module, name):
        """Prune a parameter of a module by this method."""
        return super().apply(module, name)


class _ByAmount(BasePruningMethod):
    def __init__(self, amount):
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _count(self, size):
        n = _compute_nparams_toprune(self.amount, size)
        _validate_pruning_amount(n, size)
        return n


class RandomUnstructured(_ByAmount):
    """Elements by chance."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        """The mask for `t`, within `default_mask`."""
        n = self._count(t.nelement())
        mask = default_mask.clone(memory_format=_C.contiguous_format)
        if n != 0:
            mask.view(-1)[_C.topk(_C.rand_like(t).view(-1), k=n).indices] = 0
        return mask

    @classmethod
    def apply(cls, module, name, amount):
        """Prune a parameter of a module by this method."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(_ByAmount):
    """The elements of least absolute value."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        """The mask for `t`, within `default_mask`."""
        n = self._count(t.nelement())
        mask = default_mask.clone(memory_format=_C.contiguous_format)
        if n != 0:
            mask.view(-1)[_C.topk(_C.abs(t).view(-1), k=n, largest=False).indices] = 0
        return mask

    @classmethod
    def apply(cls, module, name, amount, importance_scores=None):
        """Prune a parameter of a module by this method."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


def _slices_mask(t, dim, kept):
    mask = _C.zeros_like(t)
    where = [slice(None)] * t.dim()
    where[dim] = kept
    mask[tuple(where)] = 1
    return mask


class RandomStructured(_ByAmount):
    """Slices along `dim` by chance."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim=-1):
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t, default_mask):
        """The mask for `t`, within `default_mask`."""
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        size = t.shape[self.dim]
        n = self._count(size)
        if n == 0:
            return default_mask
        chance = _C.rand(size)
        mask = _slices_mask(t, self.dim, chance >= _C.kthvalue(chance, k=n + 1).values if n < size else chance > 2)
        mask *= default_mask.to(dtype=mask.dtype)
        return mask

    @classmethod
    def apply(cls, module, name, amount, dim=-1):
        """Prune a parameter of a module by this method."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_ByAmount):
    """The slices along `dim` of least n-norm."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, n, dim=-1):
        super().__init__(amount)
        self.n = n
        self.dim = dim

    def compute_mask(self, t, default_mask):
        """The mask for `t`, within `default_mask`."""
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        size = t.shape[self.dim]
        n = self._count(size)
        if n == 0:
            return default_mask
        kept = _C.topk(_compute_norm(t, self.n, self.dim), k=size - n, largest=True).indices
        mask = _slices_mask(t, self.dim, kept)
        mask *= default_mask.to(dtype=mask.dtype)
        return mask

    @classmethod
    def apply(cls, module, name, amount, n, dim, importance_scores=None):
        """Prune a parameter of a module by this method."""
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """A mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        """The mask for `t`, within `default_mask`."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError("mask shape must match default_mask shape")
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module, name, mask):
        """Prune a parameter of a module by this method."""
        return super().apply(module, name, mask=mask)


def identity(module, name):
    """Prune nothing, but in the form of pruning."""
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    """Prune elements by chance."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    """Prune the elements of least absolute value."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    """Prune slices along `dim` by chance."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Prune the slices along `dim` of least n-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prune elements over several (module, name) pairs at once."""
    for what, value, kind, text in (
        ("parameters", parameters, Iterable, "is not an Iterable"),
        ("importance_scores", importance_scores or {}, dict, "must be of type dict"),
    ):
        if not isinstance(value, kind):
            raise TypeError(f"global_unstructured(): {what} {text}")
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    places = [(module, name, getattr(module, name)) for module, name in parameters]
    scores = [(importance_scores or {}).get((module, name), tensor) for module, name, tensor in places]
    masks = [getattr(module, name + "_mask", None) for module, name, _ in places]
    masks = [_C.ones_like(place[2]) if mask is None else mask for place, mask in zip(places, masks)]
    # A container leaves out what is masked already.
    method._tensor_name = "all"
    flat_scores, flat_masks = (_C.cat([tensor.flatten() for tensor in tensors]) for tensors in (scores, masks))
    merged = PruningContainer(method).compute_mask(flat_scores, flat_masks)
    for (module, name, tensor), mask in zip(places, merged.split([place[2].numel() for place in places])):
        custom_from_mask(module, name, mask=mask.view_as(tensor))


def custom_from_mask(module, name, mask):
    """Prune by a given mask."""
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module, name):
    """Make pruning permanent."""
    keys = _hook_keys(module, name)
    if not keys:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    module._forward_pre_hooks.pop(keys[0]).remove(module)
    return module


def is_pruned(module):
    """Whether anything below `module` is pruned."""
    return any(
        isinstance(hook, BasePruningMethod) for _, m in module.named_modules() for hook in m._forward_pre_hooks.values()
    )
