"""Batching rules: one table from operator names to how they run on a whole batch. What is not in it runs in a loop.

Every rule is `rule(level, func, args, kwargs)`; batched arguments of that level hold the batch in dimension 0 of their
value. Arguments of lower levels are ordinary tensors here: calling an operator on them dispatches again.
"""
import functools

from .. import _C
from ..utils._pytree import tree_flatten
from ._batched import BatchedTensor, is_batched, levels, loop, plain, split, top_level, wrap

RULES = {}


def dispatch(func, args, kwargs):
    """Runs `func` for the innermost level among its arguments."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        return _get(func.__self__.__name__, args[0], func)
    if name in _OF_ONE_SAMPLE:
        with plain():
            return func(*args, **kwargs)
    if hasattr(func, "__wrapped__") and name not in RULES:  # a Python function: batch what it calls
        return func.__wrapped__(*args, **kwargs)
    leaves = tree_flatten((args, kwargs))[0]
    number = top_level(leaves)
    level = next((lv for lv in levels if lv.number == number), None)
    if level is None:
        raise RuntimeError("a tensor from inside vmap was used after vmap returned")
    if kwargs.get("out") is not None:
        raise RuntimeError(f"vmap: {name}(..., out=) is not supported inside of vmap")
    rule = RULES.get(name)
    if rule is None:
        if name in _RANDOM:
            return _random(level, func, args, kwargs)
        if name.endswith("_") and not name.endswith("__") or name in ("__setitem__", "set_"):
            rule = _in_place_loop
        else:
            rule = _loop
    return rule(level, func, args, kwargs)


def _loop(level, func, args, kwargs):
    return loop(func, args, kwargs, level.number, level.size)


# Metadata: the sample that stands for the batch answers.
_OF_ONE_SAMPLE = frozenset(
    "size dim ndimension numel nelement stride is_floating_point is_complex is_contiguous is_signed element_size "
    "__len__ get_device type_ is_conj is_neg is_inference storage_offset result_type promote_types can_cast "
    "is_same_size dim_order __hash__ __dir__ broadcast_shapes".split()
)
_OF_THE_BATCH = frozenset("requires_grad grad_fn is_leaf".split())


def _get(name, x, func):
    if name in ("T", "mT", "H", "mH"):
        return _transposed(x, name)
    if name in ("real", "imag", "data"):
        return wrap(getattr(x._value, name), x._level)
    if name in _OF_THE_BATCH:
        value = x._value
        while type(value) is BatchedTensor:
            value = value._value
        return getattr(value, name)
    if name == "grad":
        return None
    with plain():
        return func(x)


def rule(names):
    """Registers a maker of rules, or a rule, for several names."""

    def decorator(fn):
        for name in names.split():
            RULES[name] = fn
        return fn

    return decorator


def _values(args, number):
    return [split(a, number) for a in args]


# Elementwise operators with broadcasting: align the ranks behind the batch dimension.

_ELEMENTWISE = """
abs absolute neg negative positive sign sgn signbit exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal sin
cos tan asin acos atan sinh cosh tanh asinh acosh atanh arcsin arccos arctan arcsinh arccosh arctanh sigmoid erf erfc
erfinv lgamma digamma polygamma mvlgamma i0 sinc floor ceil round trunc fix frac relu relu6 gelu silu mish elu selu celu
leaky_relu hardtanh hardswish hardsigmoid hardshrink softshrink tanhshrink softplus softsign logsigmoid log_sigmoid
threshold isnan isinf isfinite isposinf isneginf isreal logical_not bitwise_not conj conj_physical resolve_conj
resolve_neg angle deg2rad rad2deg nan_to_num logit clone contiguous detach to type float double half bfloat16 int long
short bool char byte cfloat cdouble alias cpu requires_grad_ zeros_like ones_like full_like empty_like
add sub subtract rsub mul multiply div divide true_divide floor_divide remainder fmod pow float_power atan2 arctan2
hypot maximum minimum fmax fmin eq ne gt ge lt le greater greater_equal less less_equal not_equal logical_and logical_or
logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift copysign nextafter ldexp logaddexp
logaddexp2 xlogy heaviside where masked_fill clamp clip clamp_min clamp_max lerp addcmul addcdiv type_as isclose gcd lcm
special_entr special_erfcx special_xlogy special_xlog1py special_i0e special_i1 special_i1e special_ndtr
special_ndtri special_log_ndtr special_expit special_logit special_exp2 special_expm1 special_sinc special_zeta
special_gammainc special_gammaincc igamma igammac special_bessel_j0 special_bessel_j1 special_digamma special_psi
special_gammaln complex polar
__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__ __rfloordiv__ __mod__ __rmod__
__pow__ __rpow__ __neg__ __pos__ __abs__ __invert__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __and__ __rand__ __or__
__ror__ __xor__ __rxor__ __lshift__ __rshift__ __div__ __rdiv__
"""
_IN_PLACE = """
add_ sub_ subtract_ mul_ multiply_ div_ divide_ pow_ remainder_ fmod_ exp_ log_ sqrt_ rsqrt_ neg_ abs_ sin_ cos_ tanh_
sigmoid_ relu_ leaky_relu_ clamp_ clip_ clamp_min_ clamp_max_ floor_ ceil_ round_ trunc_ reciprocal_ square_ zero_ fill_
copy_ masked_fill_ addcmul_ addcdiv_ lerp_ logical_not_ logical_and_ logical_or_ erf_ erfinv_ hardtanh_ elu_ silu_
nan_to_num_ detach_ floor_divide_ __iadd__ __isub__ __imul__ __itruediv__ __ifloordiv__ __ipow__ __imod__ __iand__
__ior__ __ixor__
"""


def _align(level, args, masks=()):
    """Arguments as values with the batch in front and equal ranks behind it. Those at `masks` have no say in the dtype."""
    number = level.number
    pairs = _values(args, number)
    ranks = [
        (v.dim() - 1 if b else v.dim()) if isinstance(v, _C.Tensor) else -1 for v, b in pairs
    ]
    rank = max(ranks)
    strong = [v.dtype for i, ((v, _), r) in enumerate(zip(pairs, ranks)) if r > 0 and i not in masks]
    aligned = []
    for i, ((value, batched), r) in enumerate(zip(pairs, ranks)):
        if batched:
            if r == 0 and strong and i not in masks:
                value = _keep_weak(value, strong)
            if r < rank:
                value = value.reshape((value.shape[0],) + (1,) * (rank - r) + tuple(value.shape[1:]))
        aligned.append(value)
    return aligned


def _keep_weak(value, strong):
    """A number of each sample must not raise the dtypes of the tensors it meets."""
    kind = lambda d: 3 if d.is_complex else 2 if d.is_floating_point else 1 if d != _C.bool else 0  # noqa: E731
    if kind(value.dtype) > max(map(kind, strong)):
        return value
    return value.to(functools.reduce(_C.promote_types, strong))


_MASKS = {"where": (0,), "masked_fill": (1,)}


def _elementwise(level, func, args, kwargs):
    if any(v in (_C.channels_last, _C.channels_last_3d) for v in kwargs.values() if isinstance(v, _C.memory_format)):
        return _loop(level, func, args, kwargs)  # an order of a sample's dimensions
    keys = list(kwargs)
    masks = _MASKS.get(func.__name__, ()) if not kwargs else ()
    aligned = _align(level, list(args) + [kwargs[k] for k in keys], masks)
    n = len(args)
    return wrap(func(*aligned[:n], **dict(zip(keys, aligned[n:]))), level.number)


def _in_place(level, func, args, kwargs):
    if not is_batched(args[0], level.number):
        raise RuntimeError(
            f"vmap: {getattr(func, '__name__', '')}(self, *extra_args) is not possible because there exists a Tensor "
            "`other` in extra_args that has more elements than `self`. This happened due to `other` being vmapped over "
            "but `self` not being vmapped over in a vmap. Please try to use out-of-place operators instead."
        )
    aligned = _align(level, args)
    func(args[0]._value, *aligned[1:], **{k: split(v, level.number)[0] for k, v in kwargs.items()})
    return args[0]


def _in_place_loop(level, func, args, kwargs):
    """An operator that changes its first argument, sample by sample."""
    if not is_batched(args[0], level.number):
        return _in_place(level, func, args, kwargs)
    loop(lambda *a, **k: (func(*a, **k), None)[1], args, kwargs, level.number, level.size)
    return args[0]


for _name in _ELEMENTWISE.split():
    RULES[_name] = _elementwise
for _name in _IN_PLACE.split():
    RULES[_name] = _in_place


@rule("masked_fill")
def _masked_fill(level, func, args, kwargs):
    if len(args) == 3 and is_batched(args[2], level.number):  # a value for each sample
        x, mask, value = args
        return _C.where(mask, value.to(x.dtype), x)
    return _elementwise(level, func, args, kwargs)


@rule("to type_as")
def _to(level, func, args, kwargs):
    """Of another tensor only the dtype and the device are looked at."""
    plain = [split(a, level.number)[0] for a in args[1:]]
    kwargs = {k: split(v, level.number)[0] for k, v in kwargs.items()}
    if not is_batched(args[0], level.number):
        return func(args[0], *plain, **kwargs)
    return wrap(func(args[0]._value, *plain, **kwargs), level.number)


# Operators on one tensor with dimensions among their arguments: the dimensions move past the batch.


def _shift(dim, rank):
    """A dimension of a sample of `rank` as one of the batch."""
    if isinstance(dim, (tuple, list)):
        return tuple(_shift(d, rank) for d in dim)
    if not isinstance(dim, int):
        return dim
    bound = max(rank, 1)
    if not -bound <= dim < bound:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})"
        )
    return dim % bound + 1


def _wrap_all(result, number):
    """Wraps a tensor, or each tensor of a (named) tuple or list."""
    if isinstance(result, _C.Tensor):
        return wrap(result, number)
    parts = [wrap(r, number) if isinstance(r, _C.Tensor) else r for r in result]
    kind = type(result)
    if kind in (tuple, list):
        return kind(parts)
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


# NumPy's names of two parameters, and keywords that mean the same to a batch.
_OTHER_NAMES = {"axis": "dim", "keepdims": "keepdim"}
_OF_NO_DIM = frozenset(
    "keepdim dtype correction unbiased stable descending largest sorted k index start length size sizes step split_size "
    "split_size_or_sections chunks sections indices indices_or_sections tensor_indices_or_sections".split()
)


def _dims(where, keys=("dim",), whole=None, grows=0, default=None):
    """A rule for operators whose positional arguments `where` (and keywords) are dimensions; `whole` says what is done
    when none is given: 'all' dimensions, or 'flat' in one."""

    def run(level, func, args, kwargs):
        x = args[0] if args else kwargs.get("input")
        others = [a for a in tree_flatten((args[1:], kwargs))[0] if isinstance(a, _C.Tensor)]
        kwargs = {_OTHER_NAMES.get(k, k): v for k, v in kwargs.items()}
        places = [i for i in where if i < len(args)]
        dims = [args[i] for i in places] + [kwargs[k] for k in keys if k in kwargs]
        scalar = args and is_batched(x, level.number) and x._value.dim() == 1
        if (
            not args
            or others
            or not is_batched(x, level.number)
            or any(d is None or isinstance(d, bool) or d == () or d == [] for d in dims)
            or (whole == "flat" and not dims and kwargs)
            or (scalar and whole is None and not grows)
            or any(k not in keys and k not in _OF_NO_DIM for k in kwargs)
        ):
            return _loop(level, func, args, kwargs)
        value = x._value.unsqueeze(1) if scalar and whole is not None else x._value
        rank = x._value.dim() - 1
        args = [value, *args[1:]]
        for i in places:
            args[i] = _shift(args[i], rank + grows)
        for key in keys:
            if key in kwargs:
                kwargs[key] = _shift(kwargs[key], rank + grows)
        if not dims and default is not None:
            kwargs["dim"] = _shift(default, rank)
        if not dims and whole == "all":
            kwargs["dim"] = tuple(range(1, value.dim()))
        elif not dims and whole == "flat":
            result = func(value.flatten(1), 1)
            return wrap(result if isinstance(result, _C.Tensor) else result[0], level.number)
        result = func(*args, **kwargs)
        if scalar and whole is not None:  # a number stays one, whatever was to be kept
            result = result.reshape(-1) if isinstance(result, _C.Tensor) else type(result)([r.reshape(-1) for r in result])
        return _wrap_all(result, level.number)

    return run


def _pairs(where, keys):
    """Operators with two named dimensions that have defaults: those must be made explicit."""

    def run(level, func, args, kwargs):
        if not args:
            return _loop(level, func, args, kwargs)
        x = args[0]
        rank = x._value.dim() - 1
        kwargs = dict(kwargs)
        args = list(args[1:])
        for i, (key, default) in enumerate(keys):
            place = where + i - 1
            if place < len(args):
                args[place] = _shift(args[place], rank)
            else:
                kwargs[key] = _shift(kwargs.get(key, default), rank)
        return _wrap_all(func(x._value, *args, **kwargs), level.number)

    return run


for _name in "sum mean nansum nanmean amax amin logsumexp var std var_mean std_mean count_nonzero".split():
    RULES[_name] = _dims((1,), whole="all")
for _name in "max min prod any all argmax argmin median nanmedian".split():
    RULES[_name] = _dims((1,), whole="flat")
_reduced = {_name: RULES[_name] for _name in ("max", "min")}
for _name in _reduced:
    RULES[_name] = lambda level, func, args, kwargs: (
        _elementwise(level, func, args, kwargs)
        if isinstance(args[1] if len(args) > 1 else kwargs.get("other"), _C.Tensor)
        else _reduced[func.__name__](level, func, args, kwargs)
    )  # fmt: skip
for _name in "softmax log_softmax cumsum cumprod logcumsumexp argsort cummax cummin glu unflatten".split():
    RULES[_name] = _dims((1,))
RULES["unbind"] = _dims((1,), default=0)
for _name in "split chunk tensor_split".split():
    RULES[_name] = _dims((2,), default=0)
for _name in "topk kthvalue".split():
    RULES[_name] = _dims((2,))
RULES["sort"] = lambda level, func, args, kwargs: (
    _dims((1,))(level, func, args, kwargs) if len(args) < 2 or not isinstance(args[1], bool)
    else _loop(level, func, args, kwargs)
)  # fmt: skip
for _name in "select narrow unfold movedim moveaxis transpose swapaxes swapdims".split():
    RULES[_name] = _dims((1, 2) if _name in ("movedim", "moveaxis", "transpose", "swapaxes", "swapdims") else (1,),
                         ("dim", "dim0", "dim1", "axis0", "axis1", "dimension", "source", "destination"))  # fmt: skip
RULES["unsqueeze"] = _dims((1,), grows=1)
for _name in "diagonal diag_embed".split():
    RULES[_name] = _pairs(2, (("dim1", 0 if _name == "diagonal" else -2), ("dim2", 1 if _name == "diagonal" else -1)))
RULES["diag_embed"] = RULES["linalg_diagonal"] = lambda level, func, args, kwargs: (
    _wrap_all(func(args[0]._value, *args[1:], **kwargs), level.number) if len(args) == 1 and not kwargs
    else _loop(level, func, args, kwargs)
)  # fmt: skip
for _name in "tril triu linalg_inv inverse linalg_cholesky cholesky linalg_det det linalg_slogdet slogdet logdet " \
             "linalg_eigh linalg_eigvalsh linalg_eig linalg_eigvals linalg_svd linalg_svdvals linalg_qr matrix_exp " \
             "linalg_matrix_exp linalg_pinv pinverse linalg_cholesky_ex linalg_inv_ex linalg_matrix_power".split():  # fmt: skip
    RULES[_name] = lambda level, func, args, kwargs: (
        _wrap_all(func(args[0]._value, *args[1:], **kwargs), level.number)
        if args and is_batched(args[0], level.number) and not any(
            is_batched(a, level.number) for a in (*args[1:], *kwargs.values())
        )
        else _loop(level, func, args, kwargs)
    )  # fmt: skip


# Shapes.


def _numbers(args):
    return tuple(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list)) else tuple(args)


@rule("reshape view view_as reshape_as")
def _reshape(level, func, args, kwargs):
    x, rest = args[0], args[1:]
    shape = kwargs.get("shape") or kwargs.get("size")
    if func.__name__.endswith("_as"):
        shape = rest[0].shape
    elif shape is None:
        if len(rest) == 1 and isinstance(rest[0], _C.dtype):
            return wrap(x._value.view(rest[0]), level.number)
        shape = _numbers(rest)
    if not is_batched(x, level.number):
        return x.reshape(tuple(shape))
    value = x._value
    if func.__name__.startswith("view") and value.numel():
        return wrap(value.view((value.shape[0],) + tuple(shape)), level.number)
    return wrap(value.reshape((value.shape[0],) + tuple(shape)), level.number)


@rule("expand expand_as")
def _expand(level, func, args, kwargs):
    x = args[0]
    if func.__name__ == "expand_as":
        shape = tuple((args[1] if len(args) > 1 else kwargs["other"]).shape)
    else:
        shape = _numbers(args[1:]) if len(args) > 1 else tuple(kwargs.get("size", ()))
    if not is_batched(x, level.number):
        return x.expand(shape)
    value = x._value
    value = value.reshape((value.shape[0],) + (1,) * (len(shape) - value.dim() + 1) + tuple(value.shape[1:]))
    return wrap(value.expand((value.shape[0],) + shape), level.number)


@rule("broadcast_to")
def _broadcast_to(level, func, args, kwargs):
    return args[0].expand(tuple(args[1] if len(args) > 1 else kwargs["size"]))


@rule("as_strided as_strided_copy")
def _as_strided(level, func, args, kwargs):
    """A sample's places in memory count from where the first sample begins."""
    x, rest = args[0], list(args[1:])
    given = kwargs.get("storage_offset", rest[2] if len(rest) > 2 else None)
    if given is None or not is_batched(x, level.number):
        return _loop(level, func, args, kwargs)
    kwargs = {k: v for k, v in kwargs.items() if k != "storage_offset"}
    rows = x._value.unbind(0)
    moved = [given + row.storage_offset() - rows[0].storage_offset() for row in rows]
    parts = [func(row, *rest[:2], storage_offset=at, **kwargs) for row, at in zip(rows, moved)]
    return wrap(_C.stack(parts), level.number)


@rule("permute")
def _permute(level, func, args, kwargs):
    dims = _numbers(args[1:]) if len(args) > 1 else tuple(kwargs.get("dims", ()))
    rank = args[0]._value.dim() - 1
    return wrap(args[0]._value.permute(0, *(_shift(d, rank) for d in dims)), level.number)


@rule("flip")
def _flip(level, func, args, kwargs):
    dims = _numbers(args[1:]) if len(args) > 1 else kwargs.get("dims")
    if not args or dims is None:
        return _loop(level, func, args, kwargs)
    value = args[0]._value
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    dims = _shift(dims, value.dim() - 1)
    return wrap(value.flip(dims if value.dim() > 1 else ()), level.number)


@rule("t adjoint")
def _t(level, func, args, kwargs):
    return _transposed(args[0], "mH" if func.__name__ == "adjoint" else "mT")


def _transposed(x, name):
    value = x._value
    if value.dim() > 2:
        value = value.permute(0, *range(value.dim() - 1, 0, -1)) if name == "T" else value.transpose(-1, -2)
    if "H" in name and value.dtype.is_complex:
        value = value.conj()
    return wrap(value, x._level)


@rule("squeeze")
def _squeeze(level, func, args, kwargs):
    value = args[0]._value
    rank = value.dim() - 1
    dims = args[1] if len(args) > 1 else kwargs.get("dim")
    if dims is None:
        dims = [i for i in range(rank) if value.shape[i + 1] == 1]
    if rank == 0 or dims == []:
        return args[0]
    return wrap(value.squeeze(_shift(tuple(dims) if isinstance(dims, list) else dims, rank)), level.number)


@rule("flatten ravel")
def _flatten(level, func, args, kwargs):
    x = args[0]
    rank = x._value.dim() - 1
    if rank == 0:
        return wrap(x._value.unsqueeze(1), level.number)
    start = args[1] if len(args) > 1 else kwargs.get("start_dim", 0)
    end = args[2] if len(args) > 2 else kwargs.get("end_dim", -1)
    return wrap(x._value.flatten(_shift(start, rank), _shift(end, rank)), level.number)


@rule("new_zeros new_ones new_empty new_full")
def _new(level, func, args, kwargs):
    """A fresh tensor is batched too, so that batched values can be written into it."""
    x = args[0]
    single = func.__name__ != "new_full"
    size = kwargs.pop("size", None) or (_numbers(args[1:]) if single else tuple(args[1]))
    return wrap(func(x._value, (level.size,) + tuple(size), *(() if single else args[2:]), **kwargs), level.number)


def _all_batched(level, tensors):
    """Values of several tensors, each with the batch in front."""
    result = []
    for t in tensors:
        value, batched = split(t, level.number)
        result.append(value if batched else value.expand((level.size,) + tuple(value.shape)))
    return result


@rule("cat concat concatenate stack")
def _cat(level, func, args, kwargs):
    values = _all_batched(level, args[0] if args else kwargs["tensors"])
    if func.__name__ != "stack":  # one of size [0] joins with everything
        values = [v for v in values if v.shape[1:] != (0,)] or values
    dim = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis", 0))
    ranks = [v.dim() - 1 for v in values]
    rank = max(ranks) + (func.__name__ == "stack")
    return wrap(func(values, _shift(dim, rank)), level.number)


@rule("gather scatter scatter_add take_along_dim")
def _gather(level, func, args, kwargs):
    if kwargs or len(args) < 3 or not isinstance(args[1], int) or any(
        isinstance(a, _C.Tensor) and a.dim() == 0 for a in args
    ):
        return _loop(level, func, args, kwargs)
    rank = max(args[0].dim(), 1)
    values = [_all_batched(level, [a])[0] if isinstance(a, _C.Tensor) else a for a in args]
    values[1] = _shift(args[1], rank)
    return wrap(func(*values), level.number)


@rule("index_select")
def _index_select(level, func, args, kwargs):
    if kwargs or is_batched(args[2], level.number) or args[0].dim() == 0:
        return _loop(level, func, args, kwargs)
    return wrap(func(args[0]._value, _shift(args[1], args[0].dim()), args[2]), level.number)


@rule("__getitem__")
def _getitem(level, func, args, kwargs):
    x, index = args
    leaves = tree_flatten(index)[0]
    if not is_batched(x, level.number) or any(is_batched(i, level.number) for i in leaves):
        return _loop(level, func, args, kwargs)
    parts = index if isinstance(index, tuple) else (index,)
    kinds = ["a" if isinstance(p, (_C.Tensor, list)) else "s" for p in parts]
    text = "".join(kinds).strip("s")
    if any(isinstance(p, bool) for p in parts) or "s" in text:  # separated index tensors go first: let a sample do it
        return _loop(level, func, args, kwargs)
    return wrap(x._value[(slice(None), *parts)], level.number)


@rule("__iter__")
def _iter(level, func, args, kwargs):
    return iter(args[0].unbind(0))


@rule("broadcast_tensors")
def _broadcast_tensors(level, func, args, kwargs):
    tensors = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
    shape = _C.broadcast_shapes(*(tuple(t.shape) for t in tensors))
    return tuple(t.expand(shape) for t in tensors)


# Products of matrices.


@rule("matmul __matmul__ linalg_matmul mm bmm mv dot")
def _matmul(level, func, args, kwargs):
    (a, a_in), (b, b_in) = _values(args, level.number)
    ra, rb = a.dim() - a_in, b.dim() - b_in
    if ra == 0 or rb == 0:
        return _loop(level, func, args, kwargs)
    if ra == 1:
        a = a.unsqueeze(-2)
    if rb == 1:
        b = b.unsqueeze(-1)
    if a_in and not b_in and rb <= 2 and ra <= 2:
        if ra == 1 and rb == 1:
            return wrap((a @ b).squeeze(-1).squeeze(-1), level.number)
        result = a @ b
    else:
        rank = max(ra, rb, 2)
        a = _pad_rank(a, a_in, rank)
        b = _pad_rank(b, b_in, rank)
        result = a @ b
    if rb == 1:
        result = result.squeeze(-1)
    if ra == 1:
        result = result.squeeze(-1 if rb == 1 else -2)
    return wrap(result, level.number)


def _pad_rank(x, batched, rank):
    have = x.dim() - batched
    if batched and have < rank:
        return x.reshape((x.shape[0],) + (1,) * (rank - have) + tuple(x.shape[1:]))
    return x


@rule("__rmatmul__")
def _rmatmul(level, func, args, kwargs):
    return _C.matmul(args[1], args[0])


@rule("linear")
def _linear(level, func, args, kwargs):
    x, weight, *bias = args
    bias = bias[0] if bias else kwargs.get("bias")
    if not is_batched(weight, level.number) and (bias is None or not is_batched(bias, level.number)):
        return wrap(func(x._value, weight, bias), level.number)
    result = _C.matmul(x, weight.t() if weight.dim() == 2 else weight)
    return result if bias is None else result + bias


@rule("addmm addmv baddbmm")
def _addmm(level, func, args, kwargs):
    beta, alpha = kwargs.get("beta", 1), kwargs.get("alpha", 1)
    product = _C.matmul(args[1], args[2])
    product = product if alpha == 1 else product * alpha
    return product + (args[0] if beta == 1 else args[0] * beta)


@rule("outer ger")
def _outer(level, func, args, kwargs):
    return args[0].unsqueeze(-1) * args[1].unsqueeze(-2)


@rule("einsum")
def _einsum(level, func, args, kwargs):
    equation, *operands = args
    operands = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    if not isinstance(equation, str):
        return _loop(level, func, args, kwargs)
    free = next((c for c in "ZYXWVUTSRQPONMLKJIHGFEDCBAzyxwvutsrqponmlkjihgfedcba" if c not in equation), None)
    if free is None:
        return _loop(level, func, args, kwargs)
    left, _, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if "->" not in equation:
        right = ("..." if "..." in left else "") + "".join(
            sorted(c for c in set(left) if c.isalpha() and left.count(c) == 1)
        )
    pairs = _values(operands, level.number)
    terms = [free + t if batched else t for t, (_, batched) in zip(terms, pairs)]
    return wrap(_C.einsum(",".join(terms) + "->" + free + right, [v for v, _ in pairs]), level.number)


# Convolutions, pooling and normalization: the batch joins the operator's own.


def _merging(rank):
    """A rule for operators of (N, C, ...) inputs with `rank` dimensions, whose other tensors are not batched."""

    def run(level, func, args, kwargs):
        others = tree_flatten((args[1:], kwargs))[0]
        x = args[0]
        if not is_batched(x, level.number) or any(is_batched(o, level.number) for o in others):
            return _loop(level, func, args, kwargs)
        value = x._value
        if value.dim() == rank:  # samples without a batch of their own
            return _wrap_all(func(value, *args[1:], **kwargs), level.number)
        result = func(value.flatten(0, 1), *args[1:], **kwargs)
        back = lambda r: wrap(r.unflatten(0, tuple(value.shape[:2])), level.number)  # noqa: E731
        return back(result) if isinstance(result, _C.Tensor) else tuple(back(r) for r in result)

    return run


for _d in (1, 2, 3):
    for _name in (
        f"conv{_d}d conv_transpose{_d}d max_pool{_d}d avg_pool{_d}d adaptive_avg_pool{_d}d adaptive_max_pool{_d}d "
        f"max_pool{_d}d_with_indices"
    ).split():
        RULES[_name] = _merging(_d + 2)


@rule("layer_norm")
def _layer_norm(level, func, args, kwargs):
    x, shape, *rest = args
    names = ("weight", "bias", "eps")
    given = {**dict(zip(names, rest)), **{k: v for k, v in kwargs.items() if k in names}}
    weight, bias = given.get("weight"), given.get("bias")
    eps = given.get("eps", 1e-5)
    if any(is_batched(t, level.number) for t in (weight, bias)) or not is_batched(x, level.number):
        y = _C.layer_norm(x, shape, None, None, eps)
        y = y if weight is None else y * weight
        return y if bias is None else y + bias
    return wrap(_C.layer_norm(x._value, shape, weight, bias, eps), level.number)


@rule("embedding")
def _embedding(level, func, args, kwargs):
    tensors = [i for i, a in enumerate(args[:2]) if isinstance(a, _C.Tensor)]
    indices = next((i for i in tensors if not args[i].is_floating_point()), None)
    weight = next((i for i in tensors if i != indices), None)
    if indices is None or weight is None or is_batched(args[weight], level.number):
        return _loop(level, func, args, kwargs)
    args = list(args)
    args[indices] = args[indices]._value
    return wrap(func(*args, **kwargs), level.number)


# Values that would have to leave the batch.


@rule("tolist numpy data_ptr __array__")
def _memory(level, func, args, kwargs):
    raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")


@rule("item __bool__ __int__ __float__ __index__ __complex__")
def _item(level, func, args, kwargs):
    name = func.__name__
    if name == "__bool__":
        raise RuntimeError(
            "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support "
            "that yet, please file an issue at https://github.com/pytorch/pytorch/issues ."
        )
    raise RuntimeError(
        "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, "
        "please try to rewrite what you're doing with other operations. If error is occurring somewhere inside PyTorch "
        "internals, please file a bug report."
    )


@rule("__format__ __repr__ __str__")
def _repr(level, func, args, kwargs):
    return BatchedTensor.__repr__(args[0])


@rule("backward")
def _backward(level, func, args, kwargs):
    raise RuntimeError("backward() called inside a functorch transform. This is not supported, please use functorch.grad "
                       "or functorch.vjp instead or call backward() outside of functorch transforms.")  # fmt: skip


# Random operators.

_RANDOM = frozenset(
    "rand randn randint randperm normal bernoulli multinomial poisson binomial dropout alpha_dropout feature_dropout "
    "dropout1d dropout2d dropout3d rand_like randn_like randint_like normal_ uniform_ bernoulli_ exponential_ cauchy_ "
    "geometric_ log_normal_ random_ _standard_gamma _sample_dirichlet rrelu native_dropout dropout_ "
    "feature_alpha_dropout".split()
)


def check_randomness(level, name):
    if level.randomness == "error":
        raise RuntimeError(
            "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
            "randomness flags on vmap or perform the randomness operation out of vmap"
        )


def _random(level, func, args, kwargs):
    name = func.__name__
    train = kwargs.get("training", kwargs.get("train", args[2] if len(args) > 2 else True))
    if "dropout" in name and train is False:
        return args[0]
    check_randomness(level, name)
    in_place = name.endswith("_")
    if in_place and not is_batched(args[0], level.number):
        return _in_place(level, func, args, kwargs)
    if level.randomness == "same":
        state = _C.get_rng_state()

        def once(*a, **k):
            _C.set_rng_state(state)
            return func(*a, **k)

        run = once
    elif name.endswith("_like") or in_place or "dropout" in name and name.strip("_") in ("dropout", "native_dropout"):
        if in_place:
            func(args[0]._value, *args[1:], **kwargs)
            return args[0]
        return _wrap_all(func(args[0]._value, *args[1:], **kwargs), level.number)
    elif name in ("normal", "bernoulli", "poisson", "binomial") and any(
        is_batched(a, level.number) for a in (*args, *kwargs.values())
    ):
        return _elementwise(level, func, args, kwargs)
    elif name == "multinomial" and is_batched(args[0], level.number):
        value = args[0]._value  # rows, of one draw
        drawn = func(value.flatten(0, -2), *args[1:], **kwargs)
        return wrap(drawn.reshape(*value.shape[:-1], drawn.shape[-1]), level.number)
    else:
        run = func
    if in_place:
        loop(lambda *a, **k: (run(*a, **k), None)[1], args, kwargs, level.number, level.size)
        return args[0]
    return loop(run, args, kwargs, level.number, level.size)


def random_factory(func, args, kwargs):
    """rand(...), randn(...) under the innermost open level; called by the mode that vmap installs."""
    level = levels[-1]
    check_randomness(level, func.__name__)
    if level.randomness == "same":
        return func(*args, **kwargs)
    first = (level.size,) + tuple(_numbers(args)) if func.__name__ in ("rand", "randn") and "size" not in kwargs else None
    if first is not None:
        return wrap(func(*first, **kwargs), level.number)
    return wrap(_C.stack([func(*args, **kwargs) for _ in range(level.size)]), level.number)
