"""Questions about shapes, strides and dtypes that libraries ask PyTorch's Python operators."""
import operator
import warnings
from enum import Enum
from functools import reduce
from math import prod as _product

from .. import _C
from .._symbolic import SymFloat, SymInt

__all__ = []

Tensor = TensorLike = _C.Tensor
Number = (bool, int, float, complex, SymInt, SymFloat)
IntLike, FloatLike = (int, SymInt), (float, SymFloat)

_COMPLEX_OF = {_C.float16: _C.complex32, _C.bfloat16: _C.complex64, _C.float32: _C.complex64, _C.float64: _C.complex128}
_REAL_OF = {_C.complex32: _C.float16, _C.complex64: _C.float32, _C.complex128: _C.float64}
_COMPUTED_IN = {_C.bfloat16: _C.float32, _C.float16: _C.float32, _C.complex32: _C.complex64}


class ELEMENTWISE_TYPE_PROMOTION_KIND(Enum):
    """How the dtypes of an elementwise operator follow from those of its operands."""

    DEFAULT = (0,)
    NO_OPMATH = (1,)
    INT_TO_FLOAT = (2,)
    ALWAYS_BOOL = (3,)
    COMPLEX_TO_FLOAT = (4,)
    BOOL_TO_LONG = (5,)


class REDUCTION_OUTPUT_TYPE_KIND(Enum):
    """How the dtype of a reduction follows from that of its operand."""

    SAME = (0,)
    COMPLEX_TO_FLOAT = (1,)
    KEEP_PROMOTED_TYPE = (2,)
    ALWAYS_BOOL = (3,)


def check(condition, message, exc_type=RuntimeError):
    """`exc_type` with what `message` gives unless `condition` holds."""
    if not condition:
        raise exc_type(message())


def prod(xs):
    """The product of numbers."""
    return reduce(operator.mul, xs, 1)


# ---- dims and shapes -------------------------------------------------------------------------------


def canonicalize_dim(rank, idx, wrap_scalar=True):
    """A dim counted from the front; IndexError if there is none. A tensor without dims counts as having one."""
    if rank < 0:
        raise IndexError(f"Rank cannot be negative but got {rank}")
    if rank == 0:
        if not wrap_scalar:
            raise IndexError(f"Dimension specified as {idx} but tensor has no dimensions")
        rank = 1
    if not -rank <= idx < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {idx})")
    return idx % rank


def canonicalize_dims(rank, indices, wrap_scalar=True):
    """One dim or a tuple of them, counted from the front."""
    if isinstance(indices, int):
        return canonicalize_dim(rank, indices, wrap_scalar)
    return tuple(canonicalize_dim(rank, i, wrap_scalar) for i in indices)


def is_same_shape(a, b):
    """Whether two shapes are equal."""
    return tuple(a) == tuple(b)


def is_expandable_to(shape, desired):
    """Whether a tensor of `shape` can be expanded to `desired`."""
    short = len(desired) - len(shape)
    return short >= 0 and all(n in (1, wanted) for n, wanted in zip(shape, desired[short:]))


def infer_size(shape, numel):
    """A shape with its -1 filled in; RuntimeError if it does not come to `numel` elements."""
    shape = tuple(shape)
    if shape.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    if -1 not in shape:
        check(_product(shape) == numel, lambda: f"shape '{list(shape)}' is invalid for input of size {numel}")
        return shape
    known = _product(n for n in shape if n != -1)
    check(known != 0, lambda: f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified "
                              "dimension size -1 can be any value and is ambiguous")
    check(numel % known == 0, lambda: f"shape '{list(shape)}' is invalid for input of size {numel}")
    return tuple(numel // known if n == -1 else n for n in shape)


def reduction_dims(shape, dims):
    """The dims of a reduction, from the front: all if there are none. RuntimeError if one is there twice."""
    if dims is None:
        return tuple(range(len(shape)))
    dims = tuple(canonicalize_dim(len(shape), d) for d in dims)
    check(len(set(dims)) == len(dims), lambda: "duplicate value in the list of dims")
    return dims


# ---- strides and memory formats --------------------------------------------------------------------


def make_contiguous_strides_for(shape, row_major=True):
    """The strides of a contiguous tensor; those of its last two dims the other way round without `row_major`."""
    strides, step = [], 1
    for n in reversed(tuple(shape)):
        strides.append(step)
        step *= max(n, 1)
    strides = tuple(reversed(strides))
    if row_major or len(shape) < 2:
        return strides
    return (*strides[:-2], 1, max(shape[-2], 1))


def _channels_last(shape):
    order = (1, *range(len(shape) - 1, 1, -1), 0)  # from the innermost dim
    strides, step = [0] * len(shape), 1
    for d in order:
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


def make_channels_last_strides_for(shape):
    """The strides of a tensor of three to five dims whose channels are innermost; RuntimeError for other ranks."""
    check(len(shape) in (3, 4, 5), lambda: f"no channels last format strides exist in {len(shape)} dimensions")
    return _channels_last(tuple(shape))


make_channels_last_1d_strides_for = make_channels_last_2d_strides_for = make_channels_last_strides_for
make_channels_last_3d_strides_for = make_channels_last_strides_for


def is_contiguous(a, false_if_dde=False):
    """Whether a tensor is contiguous."""
    return a.is_contiguous()


def is_contiguous_or_false(a):
    """The same: what this depends on is always known here."""
    return a.is_contiguous()


def is_channels_last_contiguous(a):
    """Whether a tensor of four or five dims has its channels innermost, and is else contiguous."""
    if a.ndim == 4:
        return a.is_contiguous(memory_format=_C.channels_last)
    return a.ndim == 5 and a.is_contiguous(memory_format=_C.channels_last_3d)


def is_contiguous_for_memory_format(a, *, memory_format, false_if_dde=False):
    """Whether a tensor is contiguous in a memory format."""
    return a.is_contiguous(memory_format=memory_format)


is_contiguous_for_memory_format_or_false = is_contiguous_for_memory_format


def suggest_memory_format(x):
    """The format in which an operator's result would go on with a tensor's strides."""
    if x.ndim in (4, 5) and not x.is_contiguous() and is_channels_last_contiguous(x):
        return _C.channels_last if x.ndim == 4 else _C.channels_last_3d
    return _C.contiguous_format


def compute_required_storage_length(shape, strides, storage_offset):
    """How many elements the storage of a tensor must have."""
    if 0 in tuple(shape):
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(shape, strides)) + storage_offset


def is_non_overlapping_and_dense_or_false(a):
    """Whether each element of the memory between the first and the last belongs to one place of the tensor."""
    if a.layout != _C.strided:
        return False
    step = 1
    for stride, n in sorted((s, n) for s, n in zip(a.stride(), a.shape) if n != 1):
        if stride != step:
            return a.numel() == 0
        step *= n
    return True


# ---- dtypes ----------------------------------------------------------------------------------------


def is_boolean_dtype(dtype):
    return dtype is _C.bool


def is_float_dtype(dtype):
    return dtype.is_floating_point


def is_complex_dtype(dtype):
    return dtype.is_complex


def is_integer_dtype(dtype):
    return not (dtype.is_floating_point or dtype.is_complex or dtype is _C.bool)


def is_low_precision_dtype(dtype):
    return dtype in _COMPUTED_IN


def is_grad_dtype(dtype):
    """Whether tensors of a dtype can require gradients."""
    return dtype.is_floating_point or dtype.is_complex


def corresponding_real_dtype(dtype):
    """The dtype of a complex one's parts."""
    return _REAL_OF[dtype]


def corresponding_complex_dtype(dtype):
    """The complex dtype whose parts hold a real one."""
    return _COMPLEX_OF[dtype]


def get_computation_dtype(dtype):
    """What an operator computes a dtype in."""
    return _COMPUTED_IN.get(dtype, dtype)


def dtype_to_type(dtype):
    """The kind of Python number that a dtype holds."""
    if dtype is _C.bool:
        return bool
    if dtype.is_floating_point:
        return float
    return complex if dtype.is_complex else int


def type_to_dtype(typ):
    """The dtype that a Python number of a type has; ValueError for other types."""
    if typ in (float, SymFloat):
        return _C.get_default_dtype()
    if typ is complex:
        return corresponding_complex_dtype(_C.get_default_dtype())
    found = {bool: _C.bool, int: _C.int64, SymInt: _C.int64}.get(typ)
    if found is None:
        raise ValueError(f"Invalid type {typ}!")
    return found


def number_type(x):
    """The type of a number."""
    return int if isinstance(x, SymInt) else type(x)


def get_higher_dtype(a, b):
    """The dtype that two dtypes, tensors or numbers have in common; None counts as nothing."""

    def dtype_of(x):
        if isinstance(x, _C.dtype) or x is None:
            return x
        return x.dtype if isinstance(x, Tensor) else type_to_dtype(number_type(x))

    a, b = dtype_of(a), dtype_of(b)
    if a is None or b is None:
        return a if b is None else b
    return _C.promote_types(a, b)


def elementwise_dtypes(*args, type_promotion_kind):
    """(what is computed in, what the result has) for an elementwise operator's operands: tensors with dims come before those
    without and before numbers, which matter only if they are of a higher category."""
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND
    operands = [x for x in args if isinstance(x, (Tensor, *Number))]
    ranks = [[], [], []]  # tensors with dims, without, numbers
    for x in operands:
        ranks[0 if isinstance(x, Tensor) and x.ndim else 1 if isinstance(x, Tensor) else 2].append(x)
    result = None
    for rank in ranks:
        own = None  # what the operands of a rank have in common
        for x in rank:
            own = get_higher_dtype(own, x)
        if result is None:
            result = own
        elif own is not None and _category(own) > _category(result):
            result = corresponding_complex_dtype(result) if own.is_complex and result.is_floating_point else own
    if type_promotion_kind is kind.INT_TO_FLOAT and _category(result) < 2:
        result = _C.get_default_dtype()
    if type_promotion_kind is kind.BOOL_TO_LONG and result is _C.bool:
        return _C.int64, _C.int64
    if type_promotion_kind is kind.NO_OPMATH:
        return result, result
    computed = get_computation_dtype(result)
    if type_promotion_kind is kind.COMPLEX_TO_FLOAT and result.is_complex:
        return computed, corresponding_real_dtype(result)
    return computed, _C.bool if type_promotion_kind is kind.ALWAYS_BOOL else result


def _category(dtype):
    """Booleans, integers, floats and complex numbers, in this order."""
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if dtype is _C.bool else 1


# ---- determinism -----------------------------------------------------------------------------------


def alert_not_deterministic(caller):
    """RuntimeError, or a warning, if only deterministic algorithms are wanted: `caller` has none."""
    from .. import are_deterministic_algorithms_enabled, is_deterministic_algorithms_warn_only_enabled

    if not are_deterministic_algorithms_enabled():
        return
    if is_deterministic_algorithms_warn_only_enabled():
        warnings.warn(f"{caller} does not have a deterministic implementation, but you set "
                      "'torch.use_deterministic_algorithms(True, warn_only=True)'. You can file an issue at "
                      "https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic support for this "
                      "operation.", stacklevel=2)
        return
    raise RuntimeError(f"{caller} does not have a deterministic implementation, but you set "
                       "'torch.use_deterministic_algorithms(True)'. You can turn off determinism just for this operation, or "
                       "you can use the 'warn_only=True' option, if that's acceptable for your application. You can also file "
                       "an issue at https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic "
                       "support for this operation.")
