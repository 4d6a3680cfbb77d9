"""Modules as functions of their parameters."""
from .. import _C


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """`module(*args, **kwargs)` with some of its parameters and buffers replaced for this call."""
    given = parameter_and_buffer_dicts
    if isinstance(given, (list, tuple)):
        for d in given:
            if not isinstance(d, dict):
                raise ValueError(
                    "Expected all elements of parameter_and_buffer_dicts to be dictionaries"
                )
        names = [k for d in given for k in d]
        repeated = sorted({k for k in names if names.count(k) > 1})
        if repeated:
            raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        given = {k: v for d in given for k, v in d.items()}
    elif not isinstance(given, dict):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(given)}"
        )
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _swapped(module, given, tie_weights, strict):
        return module(*args, **(kwargs or {}))


class _swapped:
    """Puts tensors into a module for the duration of a block."""

    def __init__(self, module, given, tie_weights, strict):
        known = dict(module.named_parameters(remove_duplicate=False))
        known.update(module.named_buffers(remove_duplicate=False))
        given = dict(given)
        if tie_weights:
            groups = {}
            for name, tensor in known.items():
                groups.setdefault(id(tensor), []).append(name)
            for names in groups.values():
                values = [given[n] for n in names if n in given]
                if values and any(v is not values[0] for v in values):
                    raise ValueError(
                        f"functional_call got multiple values for keys {sorted(n for n in names if n in given)}, which "
                        "are tied. Consider using tie_weights=False"
                    )
                if values:
                    given.update((n, values[0]) for n in names)
        if strict:
            unexpected, missing = given.keys() - known.keys(), known.keys() - given.keys()
            if unexpected or missing:
                quoted = lambda names: ", ".join(repr(n) for n in sorted(names))  # noqa: E731
                lines = [f"Unexpected key(s): {quoted(unexpected)}."] if unexpected else []
                lines += [f"Missing key(s): {quoted(missing)}."] if missing else []
                raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(lines))
        self.places = []
        for name, value in given.items():
            if name in known:
                path, _, last = name.rpartition(".")
                self.places.append((module.get_submodule(path), last, value))

    def __enter__(self):
        self.before = []
        for owner, name, value in self.places:
            table = owner._parameters if name in owner._parameters else owner._buffers
            self.before.append((table, name, table[name]))
            table[name] = value

    def __exit__(self, *exc):
        for table, name, value in reversed(self.before):
            table[name] = value


def _check_alike(name, models):
    """Refuses models that cannot stand for one with stacked parameters."""
    complaint = None
    if not models:
        complaint = "at least one model, got 0."
    elif len({bool(model.training) for model in models}) > 1:
        complaint = "all models to have the same training/eval mode."
    elif len({type(model) for model in models}) > 1:
        complaint = "all models to be of the same class."
    if complaint is not None:
        raise RuntimeError(f"{name}: Expected {complaint}")


def stack_module_state(models):
    """The parameters and buffers of several equal models, stacked along a new first dimension."""
    _check_alike("stack_module_state", models)

    def stacked(tables):
        return {name: _stack_leaf([table[name] for table in tables]) for name in tables[0]}

    parameters = stacked([dict(model.named_parameters()) for model in models])
    return parameters, stacked([dict(model.named_buffers()) for model in models])


def _stack_leaf(tensors):
    wants = [t.requires_grad for t in tensors]
    if any(w != wants[0] for w in wants):
        raise RuntimeError(
            "Expected all parameters to have the same requires_grad setting"
        )
    return _C.stack([t.detach() for t in tensors]).requires_grad_(wants[0])


def replace_all_batch_norm_modules_(root):
    """Makes every batch norm under a module use the statistics of its batch, without running ones; in place."""
    from ..nn.modules.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
