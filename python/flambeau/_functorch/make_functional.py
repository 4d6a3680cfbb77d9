"""Modules taken apart into a function and a tuple of its parameters: what came before `func.functional_call`."""
import copy

from flambeau import nn

from ..func._modules import _check_alike, _stack_leaf

__all__ = ["FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "extract_buffers",
           "extract_weights", "load_buffers", "load_state", "load_weights", "make_functional",
           "make_functional_with_buffers"]  # fmt: skip


def _names_map(found, all_of_them):
    """Of each tensor all names it has in the module, under its first."""
    names = {tensor: name for name, tensor in found}
    together = {name: [] for name, _ in found}
    for name, tensor in all_of_them:
        together[names[tensor]].append(name)
    return together


def _place(module, name):
    path, _, last = name.rpartition(".")
    return module.get_submodule(path), last


def _extracted(module, kind):
    named = getattr(module, f"named_{kind}")
    found = list(named())
    together = _names_map(found, list(named(remove_duplicate=False)))
    for name, tensor in found:
        empty = tensor.detach().to("meta")
        if kind == "parameters":
            empty = nn.Parameter(empty, tensor.requires_grad)
        _load(module, together[name], empty)
    return tuple(t for _, t in found), tuple(n for n, _ in found), together


def _load(module, names, tensor):
    for name in names:
        owner, last = _place(module, name)
        table = owner._parameters if last in owner._parameters else owner._buffers
        table[last] = tensor


def extract_weights(mod):
    """Takes the parameters out of a module: (tensors, names, all names of each)."""
    return _extracted(mod, "parameters")


def extract_buffers(mod):
    """Takes the buffers out of a module: (tensors, names, all names of each)."""
    return _extracted(mod, "buffers")


def load_weights(mod, names, params, as_params=False):
    """Puts parameters back into a module."""
    for name, tensor in zip(names, params):
        _load(mod, [name], nn.Parameter(tensor) if as_params else tensor)


load_buffers = load_weights


def load_state(model, weights, weight_names, buffers=(), buffer_names=()):
    """Puts parameters and buffers back into a module, and returns it."""
    load_weights(model, weight_names, weights)
    load_buffers(model, buffer_names, buffers)
    return model


class _Functional(nn.Module):
    """A module whose tensors come from outside with each call."""

    def _call(self, tensors, names_map, args, kwargs):
        module = self.stateless_model
        groups = list(names_map.values())
        before = [self._current(names[0]) for names in groups]
        try:
            for names, tensor in zip(groups, tensors):
                _load(module, names, tensor)
            return module(*args, **kwargs)
        finally:
            for names, tensor in zip(groups, before):
                _load(module, names, tensor)

    def _current(self, name):
        owner, last = _place(self.stateless_model, name)
        return (owner._parameters if last in owner._parameters else owner._buffers)[last]


class FunctionalModule(_Functional):
    """`f(params, *args)` for a module without buffers."""

    def __init__(self, stateless_model, param_names, names_map):
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = param_names
        self.names_map = names_map

    def forward(self, params, *args, **kwargs):
        return self._call(params, self.names_map, args, kwargs)


class FunctionalModuleWithBuffers(_Functional):
    """`f(params, buffers, *args)`."""

    def __init__(self, stateless_model, param_names, buffer_names, param_names_map, buffer_names_map):
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = param_names
        self.buffer_names = buffer_names
        self.all_names_map = dict(param_names_map) | buffer_names_map

    def forward(self, params, buffers, *args, **kwargs):
        return self._call((*params, *buffers), self.all_names_map, args, kwargs)


def make_functional(model, disable_autograd_tracking=False):
    """(f, params) with `f(params, *args)` for `model(*args)`, over a copy of its parameters."""
    if next(model.buffers(), None) is not None:
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    model = copy.deepcopy(model)
    params, names, together = extract_weights(model)
    if disable_autograd_tracking:
        for param in params:
            param.requires_grad_(False)
    return FunctionalModule(model, names, together), params


def make_functional_with_buffers(model, disable_autograd_tracking=False):
    """(f, params, buffers) with `f(params, buffers, *args)` for `model(*args)`, over a copy of its tensors."""
    model = copy.deepcopy(model)
    params, param_names, params_map = extract_weights(model)
    buffers, buffer_names, buffers_map = extract_buffers(model)
    if disable_autograd_tracking:
        for param in params:
            param.requires_grad_(False)
    return FunctionalModuleWithBuffers(model, param_names, buffer_names, params_map, buffers_map), params, buffers


def combine_state_for_ensemble(models):
    """One function for several equal modules, and their parameters and buffers stacked along a new first dimension."""
    _check_alike("combine_state_for_ensemble", models)
    functions, params, buffers = zip(*(make_functional_with_buffers(model, True) for model in models))
    stacked = [tuple(_stack_leaf(list(column)) for column in zip(*rows)) for rows in (params, buffers)]
    return functions[0], *stacked
