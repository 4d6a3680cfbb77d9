"""Calling a module with other parameters and buffers than its own."""
import contextlib
import warnings

from ... import _C

__all__ = ["functional_call"]


def _owner(module, path):
    """The submodule and the name in it that a dotted path means."""
    prefix, _, name = path.rpartition(".")
    for part in prefix.split(".") if prefix else ():
        child = getattr(module, part, None)
        if child is None:
            raise AttributeError(f"{module._get_name()} has no attribute `{part}`")
        module = child
    return module, name


def _tensors(module):
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _untie_named_tensors_map(module, given):
    """The given tensors under every name that means the same tensor of the module."""
    names = {}
    for name, tensor in _tensors(module):
        names.setdefault(tensor, set()).add(name)
    groups = {name: group for group in names.values() for name in group}
    for group in names.values():
        both = sorted(group & given.keys())
        if len(both) > 1 and len({id(given[k]) for k in both}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {both}, which are tied. Consider using tie_weights=False"
            )
    result = dict(given)
    for name, tensor in given.items():
        for other in groups.get(name, ()):
            result[other] = tensor
    return result


def _swap(module, path, tensor):
    """Put a tensor in a place of the module tree; returns how to put the old one back."""
    owner, name = _owner(module, path)
    for table in (owner._parameters, owner._buffers):
        if name in table:
            old = table[name]
            table[name] = tensor
            return lambda: table.__setitem__(name, old)
    missing = object()
    old = owner.__dict__.get(name, missing)
    if hasattr(type(owner), name):  # a property, as parametrizations have
        raise AttributeError(f"{owner._get_name()} has no settable attribute `{name}`")
    owner.__dict__[name] = tensor
    return lambda: owner.__dict__.pop(name, None) if old is missing else owner.__dict__.__setitem__(name, old)


@contextlib.contextmanager
def _reparametrize_module(module, parameters_and_buffers, *, tie_weights=False, strict=False, stack_weights=False):
    """Within this context the module has the given tensors."""
    given = parameters_and_buffers
    if tie_weights:
        given = _untie_named_tensors_map(module, given)
    if strict:
        have = {name for name, _ in _tensors(module)}
        problems = []
        unexpected = [k for k in given if k not in have]
        missing = [k for k in sorted(have) if k not in given]
        if unexpected:
            problems.append("Unexpected key(s): " + ", ".join(f"'{k}'" for k in unexpected) + ".")
        if missing:
            problems.append("Missing key(s): " + ", ".join(f"'{k}'" for k in missing) + ".")
        if problems:
            raise RuntimeError(
                "Error(s) in reparametrizing for {}:\n\t{}".format(module._get_name(), "\n\t".join(problems))
            )
    undo = []
    try:
        for name, tensor in given.items():
            if not isinstance(tensor, _C.Tensor):
                raise TypeError(f"{tensor} is not an instance of torch.Tensor")
            undo.append((name, _swap(module, name, tensor)))
        yield
    finally:
        for name, back in reversed(undo):
            # What the call itself assigned (running statistics, say) is the caller's.
            owner, last = _owner(module, name)
            for table in (owner._parameters, owner._buffers):
                if last in table and name in parameters_and_buffers:
                    with contextlib.suppress(TypeError):
                        parameters_and_buffers[name] = table[last]
            back()


def _functional_call(
    module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False
):
    places = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights=tie_weights, strict=strict):
        return module(*places, **(kwargs or {}))


def functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """Deprecated: `func.functional_call`."""
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future version of "
        "PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
