"""Operators on lists of tensors (`_foreach_add_` and the like), one tensor after the other."""
from . import _C

# Names whose operator is called otherwise.
_OPERATORS = {"norm": "linalg_vector_norm", "zero_": "zero_", "max": "max", "copy_": "copy_", "copy": "_copied"}


def _copied(tensor, source):
    return source.to(tensor.dtype, copy=True)


def _operator(name):
    target = _OPERATORS.get(name, name)
    own = globals().get(target)
    return own if own is not None else getattr(_C, target)


def _is_list(x):
    return isinstance(x, (list, tuple))


def _make(name):
    operator = _operator(name)
    in_place = name.endswith("_")

    def foreach(tensors, *others, **options):
        for other in others:
            if _is_list(other) and len(other) != len(tensors):
                raise RuntimeError("Tensor lists must have the same number of tensors, "
                                   f"got {len(tensors)} and {len(other)}")
        columns = [o if _is_list(o) else [o] * len(tensors) for o in others]
        named = {k: v if _is_list(v) else [v] * len(tensors) for k, v in options.items()}
        results = tuple(
            operator(t, *(c[i] for c in columns), **{k: v[i] for k, v in named.items()}) for i, t in enumerate(tensors)
        )
        return None if in_place else results

    foreach.__name__ = foreach.__qualname__ = "_foreach_" + name
    return foreach


def find(name):
    """The function of a name that begins with `_foreach_`."""
    made = globals()[name] = globals().get(name) or _make(name[len("_foreach_") :])
    return made


def _amp_foreach_non_finite_check_and_unscale_(tensors, found_inf, inv_scale):
    """Multiplies gradients by `inv_scale`; `found_inf` becomes 1 if one of them is not finite."""
    for t in tensors:
        if not t.isfinite().all():
            found_inf.fill_(1.0)
        t.mul_(inv_scale.to(t.dtype))


def _amp_update_scale_(scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval):
    """Lowers the scale after an overflow, raises it after `growth_interval` steps without one."""
    if found_inf.item():
        scale.mul_(backoff_factor)
        growth_tracker.zero_()
        return scale
    steps = growth_tracker.item() + 1
    if steps == growth_interval:
        grown = scale * growth_factor
        if grown.isfinite():
            scale.copy_(grown)
        steps = 0
    growth_tracker.fill_(steps)
    return scale
