"""Operators on nested tensors of the jagged layout, as operators on their values."""
from ... import _C
from ..._C import Tensor
from .nested_tensor import NestedTensor, _dim, nested_from_padded, nested_view_from_values_offsets

__all__ = ["call"]

_HANDLERS = {}


def registrar(handlers):
    """A decorator that makes a function `(func, nested, *args, **kwargs)` the handler of operators of the given names."""

    def handles(*names):
        def register(handler):
            handlers.update(dict.fromkeys(names, handler))
            return handler

        return register

    return handles


_handles = registrar(_HANDLERS)


def call(func, args, kwargs):
    """What `__torch_function__` does: an operator of which some argument is nested.

    NotImplementedError names an operator that has no meaning here.
    """
    name = _base_name(func)
    handler = _HANDLERS.get(name)
    if handler is None:
        raise NotImplementedError(f"aten.{name}.default")
    return handler(func, *args, **kwargs)


def _base_name(func):
    """The name of what an operator does: that of `add` for `add_`, `__add__`, `__radd__` and `__iadd__`."""
    name = getattr(func, "__name__", str(func))
    if name == "__get__" or name == "__set__":
        return name
    if name.startswith("__") and name.endswith("__"):
        return _DUNDERS.get(name, name)
    return name[:-1] if name.endswith("_") and not name.startswith("_") else name


_DUNDERS = {f"__{prefix}{short}__": name for prefix in ("", "r", "i") for short, name in {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift", "matmul": "matmul"}.items()}
_DUNDERS.update({f"__{name}__": name for name in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs")})
_DUNDERS.update(__invert__="bitwise_not", __rdiv__="div")
_IN_PLACE = frozenset(f"__i{name}__" for name in "add sub mul truediv floordiv mod pow and or xor lshift rshift".split())


def _writes(func):
    name = getattr(func, "__name__", "")
    return name in _IN_PLACE or name.endswith("_") and not name.startswith("__")


def _shown(value):
    """A shape in an error: a tuple for a nested tensor, a Size for another one."""
    return value._size if isinstance(value, NestedTensor) else value.shape


def extract_kwargs(arg):
    """What it takes beside values to make a nested tensor like this one."""
    return {"offsets": arg.offsets(), "lengths": arg.lengths(), "_metadata_cache": arg._metadata_cache,
            "_ragged_idx": arg._ragged_idx}


# ---- element by element ----------------------------------------------------------------------------


def _batch_of_rows(nested):
    """The sequence that each row of the values belongs to, shape `(total,)`. Rows in holes count with the sequence before."""
    total = nested._values.shape[nested._ragged_idx - 1]
    rows = _C.arange(total, device=nested.device)
    return _C.bucketize(rows, nested._offsets[1:], right=True).clamp_(max=max(nested._size[0] - 1, 0))


def _beside_values(name, nested, other, shapes):
    """`other` as an operand beside the values of `nested`; RuntimeError names the shapes that do not go together."""
    refusal = f"cannot call binary pointwise function {name} with inputs of shapes {shapes[0]} and {shapes[1]}"
    ragged = nested._ragged_idx
    if isinstance(other, NestedTensor):
        if other._size[0] != nested._size[0] or other._ragged_idx != ragged or (
                other._size[ragged] != nested._size[ragged]):
            raise RuntimeError(refusal)
        return other._values
    if not isinstance(other, Tensor) or other.dim() == 0:
        return other
    rank = len(nested._size)
    if other.dim() > rank:
        raise NotImplementedError("NYI: broadcasting NT with T with larger dim")
    if other.dim() <= rank - ragged - 1:  # it ends before the ragged dimension
        return other
    dense = other[(None,) * (rank - other.dim())]
    batch = nested._size[0]
    if dense.shape[ragged] == 1 and dense.shape[0] == 1:
        return dense.squeeze(0)
    if dense.shape[0] != batch:
        raise RuntimeError(refusal)
    if dense.shape[ragged] == 1:  # a value for each sequence
        rows = dense.squeeze(ragged).index_select(0, _batch_of_rows(nested))
        return rows.movedim(0, ragged - 1)
    # Padded to the longest sequence: what stands in the padding falls away.
    wanted = list(dense.shape)
    wanted[ragged] = nested._max_seqlen
    return nested_from_padded(dense.expand(wanted), nested._offsets, ragged)._values


def _operator_name(func):
    overload = ".Tensor" if _base_name(func) in _TENSOR_OVERLOADS else ".default"
    return _base_name(func) + overload


def _pointwise(func, *args, **kwargs):
    """Applies an operator to values, beside which other tensors are broadcast. In place, the first argument is returned."""
    nested = next(a for a in (*args, *kwargs.values()) if isinstance(a, NestedTensor))
    first = args[0] if args else next(iter(kwargs.values()))
    first = first if isinstance(first, Tensor) else nested
    lead = max((a for a in args if isinstance(a, NestedTensor)), key=lambda a: len(a._size), default=nested)

    def operand(value):
        if value is lead:
            return lead._values
        if isinstance(value, Tensor):
            pair = (first, value) if value is not first else (first, lead)
            both = all(isinstance(p, NestedTensor) for p in pair)
            shapes = tuple(p._size if both else p.shape for p in pair)
            return _beside_values(_operator_name(func), lead, value, shapes)
        return value

    out = kwargs.pop("out", None)
    if out is not None:
        kwargs["out"] = out._values
    values = func(*map(operand, args), **{key: operand(value) for key, value in kwargs.items()})
    if out is not None:
        return out
    if _writes(func):
        return args[0]
    if isinstance(values, tuple):
        return type(values)(map(lead.like, values)) if not hasattr(values, "_fields") else type(values)(
            [lead.like(v) for v in values])
    return lead.like(values)


_TENSOR_OVERLOADS = frozenset(
    "add sub mul div eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor remainder fmod".split())
_POINTWISE = """
    abs absolute acos acosh asin asinh atan atanh ceil cos cosh digamma erf erfc erfinv exp exp2 expm1 fix floor frac i0
    lgamma log log10 log1p log2 logit nan_to_num neg negative pos positive reciprocal relu relu6 rsqrt round sgn sigmoid sign
    signbit sin sinc sinh sqrt square tan tanh trunc isfinite isinf isnan isneginf isposinf logical_not bitwise_not angle real
    imag conj conj_physical resolve_conj resolve_neg deg2rad rad2deg clamp clip clamp_min clamp_max threshold hardtanh
    hardsigmoid hardswish hardshrink softshrink tanhshrink leaky_relu rrelu elu selu celu gelu silu mish softplus softsign
    logsigmoid dropout alpha_dropout feature_alpha_dropout native_dropout bernoulli
    add sub subtract rsub mul multiply div divide true_divide floor_divide remainder fmod pow float_power maximum minimum fmax
    fmin atan2 arctan2 hypot copysign nextafter logaddexp logaddexp2 heaviside ldexp xlogy eq ne lt le gt ge equal_ greater
    greater_equal less less_equal not_equal isclose logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor
    bitwise_left_shift bitwise_right_shift lerp addcmul addcdiv masked_fill where
    zeros_like ones_like empty_like full_like rand_like randn_like randint_like detach fill zero normal uniform random exponential
    cfloat cdouble
""".split()
_HANDLERS.update(dict.fromkeys(_POINTWISE, _pointwise))


@_handles("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like")
def _like(func, nested, *args, layout=None, **kwargs):
    return nested.like(func(nested._values, *args, **kwargs))


@_handles("where")
def _where(func, condition, *args, **kwargs):
    if not isinstance(condition, NestedTensor):
        raise ValueError("NestedTensor where_self(condition: jt_all, self: any, other: any): expected condition to be a "
                         "jagged layout NestedTensor")
    return _pointwise(func, condition, *args, **kwargs)


@_handles("to", "type", "contiguous_values", "pin_memory", "cpu", "type_as", "float", "double", "half", "bfloat16", "int",
          "long", "short", "char", "byte", "bool")
def _to(func, nested, *args, **kwargs):
    plain = [a._values if isinstance(a, NestedTensor) else a for a in args]
    if not isinstance(nested, NestedTensor):  # another tensor takes the type of a nested one
        return func(nested, *plain, **kwargs)
    values = func(nested._values, *plain, **kwargs)
    if not isinstance(values, Tensor):
        return values
    return nested if values is nested._values else nested.like(values)


@_handles("copy")
def _copy(func, target, source, non_blocking=False):
    if not isinstance(target, NestedTensor) or not isinstance(source, NestedTensor):
        raise RuntimeError("copy_(): nested tensors are only copied into nested ones")
    if source._size[1:] != target._size[1:] and (
            source._values.shape != target._values.shape or source._ragged_idx != target._ragged_idx
            or not bool((source._offsets == target._offsets).all())):
        raise RuntimeError("copy_(): expected compatible input and src shapes, but got: "
                           f"{target.shape} and {source.shape}")
    target._values.copy_(source._values)
    return target


@_handles("clone")
def _clone(func, nested, memory_format=None):
    if memory_format == _C.contiguous_format and nested._lengths is not None:
        return _without_holes(nested)
    options = {} if memory_format is None else {"memory_format": memory_format}
    return nested.like(nested._values.clone(**options))


@_handles("equal", "allclose")
def _equal(func, one, other, *args, **kwargs):
    nested = isinstance(one, NestedTensor) and isinstance(other, NestedTensor)
    if not nested or one._ragged_idx != other._ragged_idx or one._size[0] != other._size[0]:
        return False
    one, other = one.contiguous(), other.contiguous()
    alike = one._values.shape == other._values.shape and bool((one._offsets == other._offsets).all())
    return alike and func(one._values, other._values, *args, **kwargs)


# ---- reductions ------------------------------------------------------------------------------------


def _greatest(dtype):
    if dtype == _C.bool:
        return True
    return (_C.finfo if dtype.is_floating_point else _C.iinfo)(dtype).max


def _least(dtype):
    if dtype == _C.bool:
        return False
    return (_C.finfo if dtype.is_floating_point else _C.iinfo)(dtype).min


# What padding has to be for a reduction not to notice it.
_NEUTRAL = {"sum": lambda d: 0, "mean": lambda d: 0, "prod": lambda d: 1, "all": lambda d: True, "any": lambda d: False,
            "amax": _least, "max": _least, "argmax": _least, "amin": _greatest, "min": _greatest, "argmin": _greatest}


def _dims(nested, dim):
    """The dims of a reduction, from the front, in order; all if there is none."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return sorted({_dim(nested, d) for d in dims}) or list(range(len(nested._size)))


@_handles(*_NEUTRAL)
def _reduce(func, nested, dim=None, keepdim=False, **kwargs):
    name = _base_name(func)
    dim, keepdim = kwargs.pop("axis", dim), kwargs.pop("keepdims", keepdim)
    if isinstance(dim, Tensor):  # the larger of two
        return _pointwise(func, nested, dim, **kwargs)
    if dim is None:
        return func(_without_holes(nested)._values, **kwargs)
    dims, ragged = _dims(nested, dim), nested._ragged_idx
    if 0 in dims and ragged not in dims:
        raise RuntimeError(f"{name}(): reducing along the batch dimension but not the ragged dimension is not supported for "
                           "nested tensors")
    if ragged in dims and 0 not in dims and len(dims) > 1:
        if name == "mean":
            raise AssertionError("Cannot reduce on both ragged and non-batch dimensions without also reducing on batch")
        raise RuntimeError(f"{name}(): reducing along a ragged and non-batch dimension is not supported for nested tensors")
    if dims == [ragged]:
        return _reduce_ragged(func, name, nested, keepdim, kwargs)
    if 0 in dims:
        inner = [d - 1 for d in dims if d]
        result = _over(func, _without_holes(nested)._values, inner, dim, keepdim, kwargs)
        return _each(lambda r: r.unsqueeze(0) if keepdim else r, result)
    result = _over(func, nested._values, [d - 1 for d in dims], dim, keepdim, kwargs)
    left = ragged if keepdim else ragged - sum(d < ragged for d in dims)
    return _each(lambda r: nested.like(r, left), result)


def _over(func, values, inner, dim, keepdim, kwargs):
    """The reduction of the values over the `inner` dims; one as a number where the operator was given a number."""
    single = inner[0] if len(inner) == 1 and isinstance(dim, int) else tuple(inner)
    return func(values, single, keepdim=keepdim, **kwargs)


def _each(change, result):
    """A function of a tensor on each of a tuple's, or on one."""
    if isinstance(result, tuple):
        return type(result)([change(r) for r in result])
    return change(result)


def _reduce_ragged(func, name, nested, keepdim, kwargs):
    """A reduction over each sequence: a plain tensor."""
    if nested._lengths is not None:
        raise RuntimeError(f"{name}(): reducing across the ragged dimension is not supported for non-contiguous nested "
                           "tensors with holes")
    ragged = nested._ragged_idx
    padded = to_padded(nested, _NEUTRAL[name](nested.dtype))
    if name != "mean":
        return func(padded, ragged, keepdim=keepdim, **kwargs)
    total = padded.sum(ragged, keepdim=True, **kwargs)
    counts = nested.sequence_lengths().reshape(-1, *[1] * (total.dim() - 1))
    mean = total / counts
    return mean if keepdim else mean.squeeze(ragged)


@_handles("softmax", "log_softmax", "softmin")
def _softmax(func, nested, dim=None, _stacklevel=3, dtype=None):
    name = _base_name(func)
    if dim is None:
        raise RuntimeError(f"{name}(): dim is required for nested tensors")
    d, ragged = _dim(nested, dim), nested._ragged_idx
    if d == 0:
        raise RuntimeError(f"{name}(): not supported when reducing across the batch dimension for NestedTensor")
    options = {} if dtype is None else {"dtype": dtype}
    if d != ragged:
        return nested.like(func(nested._values, d - 1, **options))
    if name != "softmax":
        raise RuntimeError(f"{name}(): not supported when reducing along the ragged dimension for NestedTensor")
    if ragged > 1:
        raise RuntimeError("softmax(): not supported when reducing along the ragged dimension for ragged_idx > 1 for "
                           "NestedTensor")
    if nested._lengths is not None:
        raise RuntimeError("softmax(): not supported where lengths is not None if reducing across the ragged dimension for "
                           "NestedTensor")
    padded = func(to_padded(nested, float("-inf")), 1, **options)
    return nested.like(nested_from_padded(padded, nested._offsets)._values)


# ---- padding and holes -----------------------------------------------------------------------------


def to_padded(nested, padding, output_size=None):
    """A plain `(B, *, L, *)` tensor with `padding` after each sequence; `L` is the greatest length, or what is wanted."""
    if nested._lengths is not None:
        raise RuntimeError("to_padded_tensor(): not supported for nested tensors with holes")
    ragged, batch = nested._ragged_idx, nested._size[0]
    length = nested._max_seqlen if output_size is None else output_size[ragged]
    rows = nested._values.movedim(ragged - 1, 0)
    starts = nested._offsets[:-1]
    if int(nested._offsets[-1]) != rows.shape[0] or int(nested._offsets[0]) != 0:
        rows = rows[int(nested._offsets[0]) : int(nested._offsets[-1])]
        starts = starts - nested._offsets[0]
    owner = _C.repeat_interleave(nested.sequence_lengths())
    place = _C.arange(rows.shape[0], device=rows.device) - starts[owner]
    if length < nested._max_seqlen:  # what does not fit falls away
        fits = (place < length).nonzero().squeeze(1)
        rows, owner, place = rows.index_select(0, fits), owner[fits], place[fits]
    flat = _C.full((batch * length, *rows.shape[1:]), padding, dtype=rows.dtype, device=rows.device)
    padded = flat.index_copy(0, owner * length + place, rows).unflatten(0, (batch, length)).movedim(1, ragged)
    if output_size is not None:
        grow = [extra for d in range(padded.dim() - 1, 0, -1) for extra in (0, output_size[d] - padded.shape[d])]
        if any(grow):
            padded = _C.constant_pad_nd(padded, grow, padding)
    return padded


@_handles("to_padded_tensor", "nested_to_padded_tensor")
def _to_padded_tensor(func, nested, padding, output_size=None):
    return to_padded(nested, padding, output_size)


def _without_holes(nested):
    """The tensor itself if its values are its sequences and nothing else; else a copy that has these."""
    total = nested._values.shape[nested._ragged_idx - 1]
    if nested._lengths is None and int(nested._offsets[-1]) == total and int(nested._offsets[0]) == 0:
        return nested
    parts = _unbind(None, nested)
    if not parts:
        return nested
    lengths = nested.sequence_lengths()
    values = _C.cat(list(parts), nested._ragged_idx - 1)
    return NestedTensor(values, _C.cat([lengths.new_zeros(1), lengths.cumsum(0)]), _ragged_idx=nested._ragged_idx,
                        _metadata_cache=dict(nested._metadata_cache))


@_handles("contiguous")
def _contiguous(func, nested, memory_format=None):
    if nested.is_contiguous():
        return nested
    if nested._lengths is not None:
        return _without_holes(nested)
    return nested.like(nested._values.contiguous())


# ---- parts -----------------------------------------------------------------------------------------


@_handles("unbind")
def _unbind(func, nested, dim=0):
    if _dim(nested, dim) != 0:
        raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
    inner = nested._ragged_idx - 1
    values = nested.values()
    starts, lengths = nested._offsets[:-1].tolist(), nested.sequence_lengths().tolist()
    if nested._lengths is None and lengths and starts[0] == 0 and sum(lengths) == values.shape[inner]:
        return values.split(lengths, inner)
    return tuple(values.narrow(inner, start, length) for start, length in zip(starts, lengths))


def _inner_dim(name, nested, dim):
    """A dim of the values; RuntimeError for those of the batch and the ragged one."""
    d = _dim(nested, dim)
    if d == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    if d == nested._ragged_idx:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")
    return d - 1


@_handles("select")
def _select(func, nested, dim, index):
    d = _dim(nested, dim)
    if d == 0:
        return _unbind(None, nested)[index]
    inner = _inner_dim("select", nested, d)
    return nested.like(nested._values.select(inner, index), nested._ragged_idx - (d < nested._ragged_idx))


@_handles("narrow")
def _narrow(func, nested, dim, start, length):
    return nested.like(nested._values.narrow(_inner_dim("narrow", nested, dim), start, length))


def item_of(nested, index):
    """`nested[index]`: a sequence and what is within, or, after an ellipsis, a part of every sequence."""
    indices = index if isinstance(index, tuple) else (index,)
    if any(isinstance(i, Tensor) for i in indices):
        raise NotImplementedError("aten.index.Tensor")
    if isinstance(indices[0], int) and not isinstance(indices[0], bool):
        sequence = _unbind(None, nested)[indices[0]]
        return sequence[indices[1:]] if len(indices) > 1 else sequence
    if indices[0] is not Ellipsis:
        raise RuntimeError("slice(): not supported for NestedTensor on dim=0")
    dim = len(nested._size) - sum(i is not None for i in indices[1:])
    for i in indices[1:]:
        if i is None:
            nested, dim = _unsqueeze(None, nested, dim), dim + 1
        elif isinstance(i, slice):
            if i != slice(None):
                inner = _inner_dim("slice", nested, dim)
                nested = nested.like(nested._values[(slice(None),) * inner + (i,)])
            dim += 1
        else:
            nested = _select(None, nested, dim, i)
    return nested


@_handles("chunk")
def _chunk(func, nested, chunks, dim=0):
    if _dim(nested, dim) == 0:
        return _chunk_batch(nested, chunks)
    if nested._ragged_idx != 1:
        raise ValueError("NestedTensor chunk_default(self: jt, chunks: any, dim: any?): expected self to be a contiguous "
                         "jagged layout NestedTensor")
    return tuple(map(nested.like, nested._values.chunk(chunks, _inner_dim("chunk", nested, dim))))


def _chunk_batch(nested, chunks):
    """Sequences in groups of one size, the last maybe smaller; each with offsets of its own."""
    inner, size = nested._ragged_idx - 1, -(-nested._size[0] // chunks)
    offsets, groups = nested._offsets, []
    for first in range(0, nested._size[0], size):
        part = offsets[first : first + size + 1]
        lengths = None if nested._lengths is None else nested._lengths[first : first + size]
        start, end = int(part[0]), int(part[-1])
        groups.append(NestedTensor(nested._values.narrow(inner, start, end - start), part - start, lengths=lengths,
                                   _ragged_idx=nested._ragged_idx))
    return tuple(groups)


@_handles("split", "split_with_sizes", "tensor_split")
def _split(func, nested, split_size_or_sections, dim=0):
    inner = _inner_dim("split", nested, dim)
    if nested._ragged_idx != 1:
        raise ValueError("NestedTensor split_tensor(self: jt, split_size: any, dim: any?): expected self to be a contiguous "
                         "jagged layout NestedTensor")
    return tuple(map(nested.like, func(nested._values, split_size_or_sections, inner)))


@_handles("cat", "concat", "concatenate")
def _cat(func, tensors, dim=0):
    lead, values = _aligned("cat", tensors)
    return lead.like(_C.cat(values, _inner_dim("cat", lead, dim)))


@_handles("stack")
def _stack(func, tensors, dim=0):
    lead, values = _aligned("stack", tensors)
    rank = len(lead._size)
    if not -rank - 1 <= dim <= rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank - 1}, {rank}], but got {dim})")
    d = dim % (rank + 1)
    if d == 0:
        raise RuntimeError("stack(): not supported for NestedTensor on dim=0")
    if d == lead._ragged_idx:
        raise RuntimeError("stack(): not supported for NestedTensor on ragged dim")
    return lead.like(_C.stack(values, d - 1), lead._ragged_idx + (d < lead._ragged_idx))


def _aligned(name, tensors):
    """The first nested tensor of a list, and the values of all."""
    lead = next(t for t in tensors if isinstance(t, NestedTensor))
    values = []
    for t in tensors:
        if not isinstance(t, NestedTensor):
            t = t.expand((*lead._size[: lead._ragged_idx], lead._max_seqlen, *t.shape[lead._ragged_idx + 1 :]))
            values.append(nested_from_padded(t, lead._offsets, lead._ragged_idx)._values)
        elif t._ragged_idx != lead._ragged_idx:
            raise RuntimeError(f"{name}(): expected all nested tensors to have the same ragged dimension, but got shapes "
                               f"{lead._size} and {t._size}")
        else:
            values.append(t._values)
    return lead, values


# ---- shapes ----------------------------------------------------------------------------------------


@_handles("transpose", "swapaxes", "swapdims")
def _transpose(func, nested, dim0, dim1):
    a, b = _dim(nested, dim0), _dim(nested, dim1)
    if a == b:
        return nested
    if a == 0 or b == 0:
        raise ValueError("Transpose is not supported on the batch dimension for jagged NT")
    ragged = {a: b, b: a}.get(nested._ragged_idx, nested._ragged_idx)
    return nested.like(nested._values.transpose(a - 1, b - 1), ragged)


@_handles("permute")
def _permute(func, nested, *dims):
    dims = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    rank = len(nested._size)
    if len(dims) != rank:
        raise ValueError(f"permute(): number of dimensions in the tensor input ({rank}) does not match the length of the "
                         f"desired ordering of dimensions ({len(dims)}).")
    order = [_dim(nested, d) for d in dims]
    if len(set(order)) != rank:
        raise ValueError("permute(): duplicate dims are not allowed.")
    if order[0] != 0:
        raise ValueError("Permute is not supported on the batch dimension for jagged NT")
    return nested.like(nested._values.permute([d - 1 for d in order[1:]]), order.index(nested._ragged_idx))


@_handles("unsqueeze")
def _unsqueeze(func, nested, dim):
    rank = len(nested._size) + 1
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    d = dim % rank
    if d == 0:
        raise RuntimeError("unsqueeze(): not supported for NestedTensor on dim=0")
    return nested.like(nested._values.unsqueeze(d - 1), nested._ragged_idx + (d <= nested._ragged_idx))


@_handles("squeeze")
def _squeeze(func, nested, dim=None):
    if dim is None:
        raise NotImplementedError("aten.squeeze.default")
    dims = (dim,) if isinstance(dim, int) else dim
    for d in sorted((_dim(nested, d) for d in dims), reverse=True):
        inner = _inner_dim("squeeze", nested, d)
        if nested._values.shape[inner] == 1:
            nested = nested.like(nested._values.squeeze(inner), nested._ragged_idx - (d < nested._ragged_idx))
    return nested


@_handles("flatten")
def _flatten(func, nested, start_dim=0, end_dim=-1):
    first, last = _dim(nested, start_dim), _dim(nested, end_dim)
    if first == 0:
        raise RuntimeError("flatten(): not supported for NestedTensor on dim=0")
    if first <= nested._ragged_idx <= last and first != last:
        raise RuntimeError("flatten(): not supported for NestedTensor on ragged dim")
    ragged = nested._ragged_idx - (last - first if last < nested._ragged_idx else 0)
    return nested.like(nested._values.flatten(first - 1, last - 1), ragged)


@_handles("unflatten")
def _unflatten(func, nested, dim, sizes):
    d = _dim(nested, dim)
    if d in (0, nested._ragged_idx):
        raise RuntimeError(f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {d} "
                           f"({nested._size[d]}) in the input tensor")
    ragged = nested._ragged_idx + (len(sizes) - 1 if d < nested._ragged_idx else 0)
    return nested.like(nested._values.unflatten(d - 1, sizes), ragged)


def _sizes(sizes):
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes


@_handles("view", "reshape", "view_as", "reshape_as")
def _view(func, nested, *sizes, **kwargs):
    if len(sizes) == 1 and isinstance(sizes[0], _C.dtype):
        return nested.like(nested._values.view(sizes[0]))
    if sizes and isinstance(sizes[0], Tensor):
        sizes = (sizes[0].shape,)
    wanted = _sizes(sizes) if sizes else tuple(kwargs.get("size", kwargs.get("shape", ())))
    if wanted == nested._size:
        return nested.like(nested._values.view(nested._values.shape))
    ragged = nested._ragged_idx
    if ragged != 1:
        raise RuntimeError("view(): does not support ragged_idx != 1 except when inp._size == size. inp._size is "
                           f"({nested._size}) and size is ({list(wanted)}).")
    same = len(wanted) >= min(len(nested._size), 3) and wanted[0] in (-1, nested._size[0]) and wanted[1] in (-1, nested._size[1])
    if not same:
        raise RuntimeError(f"view(): cannot view shape {nested._size} as {list(wanted)}")
    name = "reshape" if _base_name(func).startswith("reshape") else "view"
    return nested.like(getattr(nested._values, name)(nested._values.shape[0], *wanted[2:]))


@_handles("expand", "expand_as")
def _expand(func, nested, *sizes, implicit=False):
    wanted = sizes[0]._size if isinstance(sizes[0], NestedTensor) else _sizes(sizes)
    ragged, extra = nested._ragged_idx, len(wanted) - len(nested._size)
    if extra or wanted[0] not in (-1, nested._size[0]) or wanted[ragged] not in (-1, nested._size[ragged]):
        raise RuntimeError(f"expand(): cannot expand shape {nested._size} -> {list(wanted)}")
    inner = list(wanted[1:])
    inner[ragged - 1] = -1
    return nested.like(nested._values.expand(inner))


@_handles("repeat_interleave")
def _repeat_interleave(func, nested, repeats, dim=None, **kwargs):
    if dim is None:
        raise NotImplementedError("aten.repeat_interleave.self_int")
    return nested.like(func(nested._values, repeats, _inner_dim("repeat_interleave", nested, dim), **kwargs))


# ---- products --------------------------------------------------------------------------------------


@_handles("linear")
def _linear(func, nested, weight, bias=None):
    if not isinstance(nested, NestedTensor) or nested._ragged_idx == len(nested._size) - 1:
        raise ValueError("NestedTensor linear_default(input: jt, weight: t, bias: t?): expected input to be a contiguous "
                         "jagged layout NestedTensor")
    return nested.like(func(nested._values, weight, bias))


@_handles("matmul", "bmm")
def _matmul(func, one, other):
    if getattr(func, "__name__", "") == "__rmatmul__":
        one, other = other, one
    refusal = f"matmul(): not supported between inputs of shapes {_shown(one)} and {other.shape}"
    if not isinstance(one, NestedTensor):
        raise RuntimeError(refusal)
    rank = len(one._size)
    if isinstance(other, NestedTensor):
        if other._size[0] != one._size[0] or len(other._size) != rank:
            raise RuntimeError(refusal)
        if one._ragged_idx == rank - 1 and other._ragged_idx == rank - 2 and one._size[-1] == other._size[-2]:
            pairs = zip(_unbind(None, one), _unbind(None, other))
            return _C.stack([a.matmul(b) for a, b in pairs])  # the ragged dimension is summed over
        if one._ragged_idx == other._ragged_idx < rank - 2 and one._size[one._ragged_idx] == other._size[one._ragged_idx]:
            return one.like(one._values.matmul(other._values))
        raise RuntimeError(refusal)
    if one._ragged_idx == rank - 1 or other.dim() < 2:
        raise RuntimeError(refusal)
    if other.dim() == 2:
        return one.like(one._values.matmul(other))
    if other.dim() != rank:
        raise RuntimeError(refusal)
    if other.shape[0] == 1 and one._ragged_idx == rank - 2:
        return one.like(one._values.matmul(other.squeeze(0)))
    if other.shape[0] != one._size[0]:
        raise RuntimeError(f"The size of tensor a ({one._size[0]}) must match the size of tensor b ({other.shape[0]}) at "
                           "non-singleton dimension 0")
    # One matrix for each sequence.
    whole = _without_holes(one)
    parts = [a.matmul(b) for a, b in zip(_unbind(None, whole), other.unbind())]
    return whole.like(_C.cat(parts, one._ragged_idx - 1))


@_handles("scaled_dot_product_attention")
def _attention(func, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    from .sdpa import attention

    return attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


# ---- layers ----------------------------------------------------------------------------------------


@_handles("layer_norm", "rms_norm", "one_hot")
def _by_rows(func, nested, *args, **kwargs):
    return nested.like(func(nested._values, *args, **kwargs))


@_handles("embedding")
def _embedding(func, nested, weight, *args, **kwargs):
    if not isinstance(nested, NestedTensor):
        raise NotImplementedError("aten.embedding.default")
    return nested.like(func(nested._values, weight, *args, **kwargs))


@_handles("embedding_bag")
def _embedding_bag(func, nested, weight, offsets=None, *args, **kwargs):
    """A bag for each sequence."""
    whole = _without_holes(nested)
    return func(whole._values, weight, whole._offsets[:-1], *args, **kwargs)


@_handles("masked_select")
def _masked_select(func, nested, mask):
    """The elements of each sequence where a nested mask is True: nested, one-dimensional sequences."""
    if len(nested._size) > 2:
        raise RuntimeError("masked_select only support 2-D selections currently")
    counts = to_padded(mask, False).sum(1)
    offsets = _C.cat([counts.new_zeros(1), counts.cumsum(0)])
    return nested_view_from_values_offsets(nested._values.masked_select(mask._values), offsets)


# ---- derivatives -----------------------------------------------------------------------------------


@_handles("backward")
def _backward(func, nested, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Gradients of the values; RuntimeError without a gradient unless there is one value only."""
    if gradient is None and nested.numel() != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    gradient = gradient._values if isinstance(gradient, NestedTensor) else gradient
    inputs = [i._values if isinstance(i, NestedTensor) else i for i in inputs] if inputs else inputs
    nested._values.backward(gradient, retain_graph, create_graph, inputs)


def _plain(value):
    if isinstance(value, (tuple, list)):
        return type(value)(map(_plain, value))
    return value._values if isinstance(value, NestedTensor) else value


@_handles("grad")
def _grad(func, outputs, inputs, *args, **kwargs):
    """`torch.autograd.grad` by the values; gradients of nested inputs are nested alike."""
    wanted = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    grads = func(_plain(outputs), _plain(wanted), *map(_plain, args), **{k: _plain(v) for k, v in kwargs.items()})
    return tuple(w.like(g) if isinstance(w, NestedTensor) and g is not None else g for w, g in zip(wanted, grads))
