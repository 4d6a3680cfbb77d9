"""Custom autograd functions under vmap."""
from typing import NamedTuple

from ..autograd.function import Function
from ..utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten
from ._batched import is_batched, levels, loop, wrap


class VmapInfo(NamedTuple):
    """What a custom vmap rule is told."""

    batch_size: int
    randomness: str


def vmap_function(cls, args):
    """`cls.apply(*args)` for the innermost level: by its own `vmap` rule, or sample by sample."""
    leaves = tree_flatten(args)[0]
    level = next(lv for lv in reversed(levels) if any(is_batched(x, lv.number) for x in leaves))
    own_rule = cls.vmap is not Function.vmap
    if own_rule and cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overriden vmap "
            "staticmethod. Please set generate_vmap_rule=False or delete the overriden vmap staticmethod to avoid "
            "ambiguity. For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"
        )
    if own_rule:
        in_dims = tuple(0 if is_batched(a, level.number) else None for a in args)
        values = [a._value if is_batched(a, level.number) else a for a in args]
        output, out_dims = cls.vmap(VmapInfo(level.size, level.randomness), in_dims, *values)
        flat, spec = tree_flatten(output)
        dims = _broadcast_to_and_flatten(out_dims, spec)
        return tree_unflatten(
            [x if d is None else wrap(x.movedim(d, 0) if d else x, level.number) for x, d in zip(flat, dims)], spec
        )
    if not cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement "
            "the vmap staticmethod or set generate_vmap_rule=True. For more details, please see "
            "https://pytorch.org/docs/main/notes/extending.func.html"
        )
    return loop(cls.apply, args, {}, level.number, level.size)
