"""Batched tensors: what the function under `vmap` sees, one sample's shape with the whole batch inside."""
import contextlib
import textwrap

from .. import _C
from ..autograd import function as _function
from ..utils._pytree import tree_flatten, tree_unflatten

levels = _function._vmap_levels  # the open batching levels, innermost last: [Level]


class Level:
    """One open `vmap`: its batch size and how random operators behave."""

    def __init__(self, number, size, randomness):
        self.number, self.size, self.randomness = number, size, randomness


class BatchedTensor(_C.Tensor):
    """`value` holds a batch along its first dimension; outside it looks like one sample. Made by `wrap`."""

    _flambeau_batched = _stands_for_another = True

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        from ._rules import dispatch

        return dispatch(func, args, kwargs or {})

    def __repr__(self):
        return f"BatchedTensor(lvl={self._level}, bdim=0, value=\n{textwrap.indent(repr(self._value), '    ')}\n)"

    def __reduce_ex__(self, protocol):
        raise RuntimeError("a tensor inside vmap cannot be pickled")


@contextlib.contextmanager
def plain():
    """Inside, batched tensors do not intercept functions (their own slice answers)."""
    with _C.DisableTorchFunctionSubclass():
        yield


def is_batched(x, level=None):
    """Whether a value carries a batch dimension."""
    return type(x) is BatchedTensor and (level is None or x._level == level)


def wrap(value, level):
    """A batched tensor of `level` over `value`, whose first dimension is the batch."""
    with plain():
        # one sample of it: answers for shape, dtype and device
        sample = _slice_of(value)
        result = sample.detach().as_subclass(BatchedTensor)
        result.__dict__["_value"], result.__dict__["_level"] = value, level
    return result


def _slice_of(value):
    """The first sample of a value, as a plain tensor."""
    base = value
    with plain():
        while type(base) is BatchedTensor:
            base = base.detach().as_subclass(_C.Tensor)
        if base.shape[0] == 0:
            return base.new_empty(base.shape[1:])
        return base.detach().select(0, 0)


def split(x, level):
    """The value and whether it is batched at `level`."""
    return (x._value, True) if is_batched(x, level) else (x, False)


def open_level(size, randomness):
    """Begin a level of batching."""
    number = levels[-1].number + 1 if levels else 1
    levels.append(Level(number, size, randomness))
    return levels[-1]


def close_level():
    """End a level of batching."""
    levels.pop()


def top_level(leaves):
    """The highest level among some arguments."""
    return max(x._level for x in leaves if type(x) is BatchedTensor)


def loop(func, args, kwargs, level, size):
    """The fall-back for any operator: one call for each sample, results stacked."""
    leaves, spec = tree_flatten((args, kwargs))
    rows = []
    for i in range(size):
        picked = [x._value[i] if is_batched(x, level) else x for x in leaves]
        a, k = tree_unflatten(picked, spec)
        rows.append(func(*a, **k))
    flat = [tree_flatten(r) for r in rows]
    columns = zip(*(f[0] for f in flat))
    return tree_unflatten([_gather_column(c, level) for c in columns], flat[0][1])


def _gather_column(column, level):
    if isinstance(column[0], _C.Tensor):
        return wrap(_C.stack(list(column)), level)
    return column[0]


def base_of(x, active):
    """The plain tensor in `x`, batched along one leading dimension for each of the `active` levels, expanded where x is
    not batched; the outermost level comes first."""
    if not isinstance(x, _C.Tensor):
        return x
    for level in reversed(active):
        value, batched = split(x, level.number)
        x = value if batched else x.expand((level.size,) + tuple(x.shape))
        # values of lower levels lie deeper: this level's dimension is now the first of x
    return x


def from_base(value, active):
    """The inverse of `base_of`."""
    for level in active:
        value = wrap(value, level.number)
    return value

