"""Running results of an associative function along a dimension."""
from .. import _C
from ..utils._pytree import tree_flatten, tree_unflatten

__all__ = ["associative_scan"]


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """combine_fn(x[0], x[1], ...) of all elements up to each one along `dim`, in log(n) steps.

    `xs` is a tensor or a structure of tensors; combine_fn takes and returns two such structures.
    """
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise ValueError(f"Dim must be an int, but got {type(dim)}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    leaves, spec = tree_flatten(xs)
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    if any(not isinstance(x, _C.Tensor) for x in leaves):
        raise ValueError("xs leaves must be a Tensor")
    size = leaves[0].shape[dim]
    if size == 0 or any(x.shape[dim] != size for x in leaves):
        raise ValueError("All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0")

    def combine(a, b):
        found = combine_fn(tree_unflatten(a, spec), tree_unflatten(b, spec))
        return tree_flatten(found)[0]

    if reverse:
        leaves = [x.flip(dim) for x in leaves]
    leaves = _scan(combine, leaves, dim, size)
    return tree_unflatten([x.flip(dim) for x in leaves] if reverse else leaves, spec)


def _part(leaves, dim, start, step, count):
    """Every `step`th element from `start` on."""
    index = _C.arange(start, start + step * count, step)
    return [x.index_select(dim, index.to(x.device)) for x in leaves]


def _scan(combine, leaves, dim, size):
    """Pairs are combined and scanned; that gives every second result, and those the others."""
    if size < 2:
        return leaves
    half, odd = size // 2, (size - 1) // 2
    pairs = combine(_part(leaves, dim, 0, 2, half), _part(leaves, dim, 1, 2, half))
    second = _scan(combine, pairs, dim, half)
    if not odd:
        return [_C.cat([x.narrow(dim, 0, 1), y], dim) for x, y in zip(leaves, second)]
    rest = combine([y.narrow(dim, 0, odd) for y in second], _part(leaves, dim, 2, 2, odd))
    first = [_C.cat([x.narrow(dim, 0, 1), y], dim) for x, y in zip(leaves, rest)]
    order = _C.tensor([i // 2 + (i % 2) * (odd + 1) for i in range(size)])
    return [_C.cat([a, b], dim).index_select(dim, order.to(a.device)) for a, b in zip(first, second)]
