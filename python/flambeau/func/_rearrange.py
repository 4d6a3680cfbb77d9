"""`rearrange`: transposing, splitting and joining dims by a pattern of their names."""
import functools
import re
from math import prod

from .. import _C

__all__ = ["rearrange"]

_TOKEN = re.compile(r"\s*(\.\.\.|[()]|[^\s().]+|\.)")
#: Stands for the dims that an ellipsis covers.
_REST = "..."


def _parse(side):
    """A side of a pattern as groups: lists of names, in which '...' covers what is left and a dim of size 1 is empty."""
    groups, inside = [], None
    for token in _TOKEN.findall(side):
        if token == "(":
            if inside is not None:
                raise ValueError("Axis composition is one-level (brackets inside brackets not allowed)")
            inside = []
        elif token == ")":
            if inside is None:
                raise ValueError(f"Imbalanced parentheses in expression: '{side}'")
            groups.append(inside)
            inside = None
        elif token == "1":
            if inside is None:
                groups.append([])
        else:
            _check_name(token)
            (groups.append([token]) if inside is None else inside.append(token))
    if inside is not None:
        raise ValueError(f"Imbalanced parentheses in expression: '{side}'")
    names = [name for group in groups for name in group]
    for name in names:
        if names.count(name) > 1:
            if name == _REST:
                raise ValueError(
                    "Expression may contain dots only inside ellipsis (...); only one ellipsis for tensor "
                )
            raise ValueError(f"Indexing expression contains duplicate dimension '{name}'")
    return groups, names


def _check_name(name):
    if name == _REST:
        return
    if name.isdecimal():
        raise ValueError("rearrange only supports unnamed axes of size 1")
    if not name.isidentifier():
        raise ValueError(f"Invalid axis identifier: {name}\nnot a valid python identifier")
    if name.startswith("_") or name.endswith("_"):
        raise ValueError(f"Invalid axis identifier: {name}\naxis name should should not start or end with underscore")


@functools.lru_cache(256)
def _plan(pattern, given):
    """Both sides of a pattern, checked against each other and the names whose sizes are given."""
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError("Pattern must contain a single '->' separator")
    (left, ours), (right, theirs) = map(_parse, sides)
    if any(_REST in group and len(group) > 1 for group in left) or re.search(r"\(\s*\.\.\.", sides[0]):
        raise ValueError(f"Ellipsis is parenthesis in the left side is not allowed: {pattern}")
    if _REST in theirs and _REST not in ours:
        raise ValueError(f"Ellipsis found in right side, but not left side of a pattern {pattern}")
    alone = set(ours) ^ set(theirs)
    if alone:
        raise ValueError(f"Identifiers only on one side of rearrange expression (should be on both): {alone}")
    unknown = set(given) - set(ours)
    if unknown:
        raise ValueError(f"Identifiers not found in rearrange expression: {unknown}")
    return left, right


def rearrange(tensor, pattern, **axes_lengths):
    """The tensor with its dims as the right side of `pattern` names them: `rearrange(x, "b h w c -> b (h w) c")`. A sequence
    of tensors is stacked first. Sizes of names that stand in parentheses on the left are given by name, but for one."""
    if not isinstance(tensor, _C.Tensor):
        tensor = _C.stack(list(tensor))
    left, right = _plan(pattern, tuple(axes_lengths))
    dims, covered = tensor.dim(), sum(group != [_REST] for group in left)
    flexible = [_REST] in left
    if covered > dims or (not flexible and covered != dims):
        raise ValueError(
            f"Number of dimensions in pattern ({covered}) must be {'at most' if flexible else 'equal to'} the number of "
            f"dimensions in the tensor ({dims})"
        )
    sizes, place = {}, 0
    for group in left:
        count = dims - covered if group == [_REST] else 1
        shape = tuple(tensor.shape[place : place + count])
        place += count
        sizes.update({_REST: shape} if group == [_REST] else _split(group, shape[0], axes_lengths))
    names = [name for group in left for name in group]
    split = tensor.reshape([n for name in names for n in sizes[name]])
    starts, total = {}, 0
    for name in names:
        starts[name] = total
        total += len(sizes[name])
    order = [starts[name] + i for group in right for name in group for i in range(len(sizes[name]))]
    shape = []
    for group in right:
        shape += sizes[_REST] if group == [_REST] else [prod(n for name in group for n in sizes[name])]
    return split.permute(order).reshape(shape)


def _split(group, size, given):
    """The sizes of a dim's parts."""
    missing = [name for name in group if name not in given]
    known = prod(given[name] for name in group if name in given)
    if len(missing) > 1:
        raise ValueError(f"cannot infer the sizes of {len(missing)} dimensions at once {tuple(missing)}")
    if (size % known if missing and known else size != known):
        raise ValueError(f"inferred dimension does not evenly fit into larger dimension: {size} vs {tuple(group)}")
    return {name: (given.get(name, size // max(known, 1)),) for name in group}
