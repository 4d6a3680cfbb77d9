"""From the names of operators in TorchScript to functions: ``torch.add`` and ``ops.prim.dtype``."""
from __future__ import annotations

import functools

import flambeau as _fl

from .. import _C
from .._ops import OpOverloadPacket, _OpNamespace, _parts
from ._builtins import BUILTINS, NUMBERS, OVERLOADED, value_text
from ._codes import from_number, number_of

Tensor = _fl.Tensor

# These would read or write files that an archive names.
_FORBIDDEN = frozenset(("from_file", "save"))
# What PyTorch has as operators and Flambeau as methods of a tensor.
_METHODS = frozenset(
    "coalesce cpu cuda dense_dim detach detach_ dim element_size get_device is_coalesced is_complex is_conj "
    "is_floating_point is_inference is_leaf is_neg is_nonzero is_pinned is_same_size is_set_to is_signed item numel "
    "pin_memory requires_grad_ retain_grad set_ sparse_dim storage_offset to_dense to_sparse type_as _values _indices data "
    "retains_grad output_nr sparse_mask to_sparse_csr dequantize".split()
)
# And as functions of the same arguments.
_FUNCTIONS = frozenset("sparse_coo_tensor result_type cartesian_prod atleast_1d atleast_2d atleast_3d block_diag "
                       "range".split())
_CODED = {"ScalarType": "dtype", "Layout": "layout", "MemoryFormat": "memory_format"}
_KEYWORDS = {"dtype": "dtype", "out_dtype": "dtype", "index_dtype": "dtype", "layout": "layout",
             "memory_format": "memory_format"}


class ScriptRaise(Exception):
    """A `raise` in TorchScript: the message, and the name of the exception's class."""

    def __init__(self, message: str, name: str | None) -> None:
        super().__init__(message)
        self.name = name


def _packet(namespace: str, name: str):
    """A registered operator; nothing else that has such a name."""
    if namespace == "aten":
        return _C._operator_packet("aten", name)
    space = getattr(_fl.ops, namespace, None) if not namespace.startswith("_") else None
    found = getattr(space, name, None) if isinstance(space, _OpNamespace) and not name.startswith("__") else None
    return found if isinstance(found, OpOverloadPacket) else None


def operator(namespace: str, name: str):
    """The function that serves an operator."""
    if namespace == "prim":
        return _PRIM.get(name) or _unknown(namespace, name)
    if namespace == "aten":
        return _aten(name)
    packet = _packet(namespace, name)  # programs can register such operators at any time
    return _unknown(namespace, name) if packet is None else _with_codes(packet)


@functools.lru_cache(None)
def _aten(name: str):
    if name in _FORBIDDEN:
        return _forbidden(name)
    if name in BUILTINS:
        return BUILTINS[name]
    tensors = _SPECIAL.get(name) or _tensor_operator(name)
    if name in OVERLOADED:
        return _either(OVERLOADED[name], tensors or _unknown("aten", name))
    return tensors or _unknown("aten", name)


def _tensor_operator(name: str):
    packet = _packet("aten", name)
    if packet is not None:
        return _with_codes(packet)
    if name in _METHODS and hasattr(Tensor, name):
        return _with_keywords(_method(name))
    if name in _FUNCTIONS and hasattr(_fl, name):
        return _with_results(_with_keywords(getattr(_fl, name)))
    return None


def _unknown(namespace: str, name: str):
    def unknown(*args, **kwargs):
        raise RuntimeError(f"Unknown builtin op: {namespace}::{name}. Flambeau has no such operator, or not yet")

    return unknown


def _forbidden(name: str):
    def forbidden(*args, **kwargs):
        raise RuntimeError(f"aten::{name} reads or writes files: archives may not call it")

    return forbidden


def _method(name: str):
    def call(tensor, *args, **kwargs):
        found = getattr(_tensor(tensor), name)
        return found(*args, **kwargs) if callable(found) else found

    return call


def _tensor(value):
    if not isinstance(value, Tensor):
        raise RuntimeError(f"Expected a value of type 'Tensor' but instead found type '{type(value).__name__}'.")
    return value


def _either(plain, tensors):
    """`plain` where no operand is a tensor, `tensors` otherwise."""
    def call(*args, **kwargs):
        first = args[0] if args else None
        if isinstance(first, Tensor) or len(args) > 1 and isinstance(args[1], Tensor) and type(first) in NUMBERS:
            return tensors(*args, **kwargs)
        if type(first) is list and first and isinstance(first[0], Tensor) and plain not in _LISTS:
            return tensors(*args, **kwargs)
        return plain(*args, **kwargs)

    return call


_LISTS = frozenset(OVERLOADED[n] for n in ("add", "add_", "mul", "mul_", "eq", "ne", "append", "extend", "insert", "pop",
                                           "remove", "index", "count", "reverse", "sort", "copy", "clear", "len", "slice",
                                           "select"))


# ---- numbers for dtypes, layouts and memory formats ----------------------------------------------------------


def _with_keywords(function):
    """The function, its coded keyword arguments read."""
    def call(*args, **kwargs):
        for key in kwargs:
            if key in _KEYWORDS:
                kwargs[key] = from_number(_KEYWORDS[key], kwargs[key])
        return function(*args, **kwargs)

    return call


def _with_results(function):
    """The function, a dtype it answers with as a number."""
    def call(*args, **kwargs):
        result = function(*args, **kwargs)
        number = number_of(result)
        return result if number is None else number

    return call


def _as_list(packet):
    """An operator whose results are a list where they are several."""
    def call(*args, **kwargs):
        result = packet(*args, **kwargs)
        return list(result) if type(result) is tuple else result

    return call


def _with_codes(packet):
    """An operator whose coded arguments, by its schemas, are read before the call."""
    places: dict[int, set[str]] = {}
    keywords = lists = False
    for overload in packet.overloads():
        schema = str(getattr(packet, overload)._schema)
        only_keywords = False
        lists |= schema.endswith("[]")
        for place, argument in enumerate(_parts(schema[schema.index("(") + 1 : schema.rindex(") ->")])):
            kind, _, rest = argument.partition(" ")
            kind = kind.rstrip("?")
            only_keywords |= argument == "*"
            keywords |= rest.partition("=")[0] in _KEYWORDS
            if not only_keywords:
                places.setdefault(place, set()).add(kind)
    coded = {p: next(_CODED[k] for k in kinds if k in _CODED) for p, kinds in places.items()
             if any(k in _CODED for k in kinds)}
    if lists:
        return _as_list(packet)
    if not coded:
        return _with_keywords(packet) if keywords else packet

    def call(*args, **kwargs):
        args = list(args)
        for place, kind in coded.items():
            if place < len(args):
                args[place] = from_number(kind, args[place])
        for key in kwargs:
            if key in _KEYWORDS:
                kwargs[key] = from_number(_KEYWORDS[key], kwargs[key])
        return packet(*args, **kwargs)

    return call


# ---- operators with ways of their own ------------------------------------------------------------------------


def _to(tensor, *args, **kwargs):
    """`to`: by its arguments' types, since numbers stand for dtypes."""
    rest = list(args)
    target: dict = {}
    if rest and isinstance(rest[0], Tensor):
        other = rest.pop(0)
        target.update(dtype=other.dtype, device=other.device)
    else:
        if rest and (rest[0] is None or isinstance(rest[0], (str, _fl.device))):
            target["device"] = rest.pop(0)
        if rest and (rest[0] is None or type(rest[0]) is int):
            target["dtype"] = from_number("dtype", rest.pop(0))
    for name in ("non_blocking", "copy", "memory_format"):
        if rest:
            target[name] = rest.pop(0)
    target.update(kwargs)
    target.pop("pin_memory", None)
    target.pop("layout", None)
    for key in ("dtype", "memory_format"):
        if target.get(key) is not None:
            target[key] = from_number(key, target[key])
    return _tensor(tensor).to(**{k: v for k, v in target.items() if v is not None})


def _convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *flags):
    return _packet("aten", "convolution")(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def _convolution_mode(x, weight, bias, stride, padding, dilation, groups):
    return _packet("aten", f"conv{weight.dim() - 2}d")(x, weight, bias, stride, padding, dilation, groups)


def _size(tensor, dim=None):
    return list(tensor.shape) if dim is None else tensor.size(dim)


def _stride(tensor, dim=None):
    return list(tensor.stride()) if dim is None else tensor.stride(dim)


def _backward(tensor, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    _tensor(tensor).backward(gradient, retain_graph, create_graph, inputs)


def _grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, allow_unused=False):
    return list(_fl.autograd.grad(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused=allow_unused))


def _is_contiguous(tensor, memory_format=None):
    return _tensor(tensor).is_contiguous(memory_format=from_number("memory_format", memory_format or 0))


def _listed(name):
    def call(*args, **kwargs):
        return list(getattr(_fl, name)(*args, **kwargs))

    return call


def _as_tensor(value, dtype=None, device=None):
    return _fl.as_tensor(value, dtype=from_number("dtype", dtype), device=device)


def _make_tensor(value, *, dtype=None, device=None, requires_grad=False):
    return _fl.tensor(value, dtype=from_number("dtype", dtype), device=device, requires_grad=requires_grad)


_SPECIAL = {
    "to": _to, "_convolution": _convolution, "_convolution_mode": _convolution_mode, "size": _size, "stride": _stride,
    "backward": _backward, "grad": _grad, "is_contiguous": _is_contiguous, "tensor": _make_tensor,
    "as_tensor": _as_tensor, "broadcast_tensors": _listed("broadcast_tensors"), "meshgrid": _listed("meshgrid"),
    "_shape_as_tensor": lambda x: _fl.tensor(list(x.shape)), "_unsafe_view": lambda x, size: x.reshape(size),
    "_reshape_from_tensor": lambda x, shape: x.reshape(shape.tolist()), "_list_to_tensor": lambda x: _fl.tensor(x),
    "_tensor_to_list": lambda x: x.tolist(), "_conj": lambda x: x.conj(), "_stack": lambda xs, dim=0: _fl.stack(xs, dim),
    "promote_types": lambda a, b: number_of(_fl.promote_types(from_number("dtype", a), from_number("dtype", b))),
    "can_cast": lambda a, b: _fl.can_cast(from_number("dtype", a), from_number("dtype", b)),
    "len": lambda x: x.size(0), "is_autocast_enabled": lambda *device: _fl.is_autocast_enabled(*device),
    "is_autocast_cpu_enabled": lambda: _fl.is_autocast_enabled("cpu"),
    "get_autocast_dtype": lambda device: number_of(_fl.get_autocast_dtype(device)),
}  # fmt: skip
for _kind in ("Byte", "Char", "Double", "Float", "Int", "Long", "Short", "Half"):
    _SPECIAL["_cast_" + _kind] = (
        lambda method: lambda x, non_blocking=False: getattr(_tensor(x), method)())(_kind.lower())


# ---- prim ----------------------------------------------------------------------------------------------------


def _raise(message, name=None):
    raise ScriptRaise(message, name)


def _extreme(function, tensors):
    def call(*args):
        if len(args) == 1:
            if not args[0]:
                raise RuntimeError(f"{function.__name__}() arg is an empty sequence")
            return function(args[0])
        if any(isinstance(a, Tensor) for a in args):
            return tensors(*args)
        return function(args)

    return call


def _absolute(value):
    return abs(value)


def _tolist(tensor, *rest):
    return _tensor(tensor).tolist()


def _type_of_device(value):
    return value.type


def _name(value):
    if isinstance(value, Tensor):
        return value.name
    raise RuntimeError("only tensors have a name here")


def _attribute(name: str):
    def read(tensor):
        value = getattr(_tensor(tensor), name)
        number = number_of(value)
        return value if number is None else number

    return read


def _print(*values):
    print(*map(value_text, values))


def _number_to_tensor(value):
    return _fl.tensor(value)


_PRIM = {
    "RaiseException": _raise, "max": _extreme(max, _fl.max), "min": _extreme(min, _fl.min), "abs": _absolute,
    "tolist": _tolist, "type": _type_of_device, "index": lambda device: device.index, "name": _name, "Print": _print,
    "print": _print, "NumToTensor": _number_to_tensor, "shape": lambda t: list(_tensor(t).shape),
    "unchecked_unwrap_optional": BUILTINS["_unwrap_optional"], "unchecked_cast": lambda value: value,
    "rangelist": lambda n: list(range(n)), "TupleIndex": lambda items, at: BUILTINS["__getitem__"](items, at),
    "StringIndex": lambda text, at: BUILTINS["__getitem__"](text, at), "id": id,
    "IfThenElse": lambda condition, x, y: x if condition else y,
    "EnumName": lambda member: member.name, "EnumValue": lambda member: member.value,
    "is_maia": lambda t: False, "is_mkldnn": lambda t: False, "is_vulkan": lambda t: False,
    "AutogradAdd": lambda a, b: b if a is None else a if b is None else a + b,
}  # fmt: skip
for _n in ("device dtype layout requires_grad grad data itemsize nbytes is_cuda is_cpu is_meta is_sparse is_sparse_csr "
           "is_quantized is_nested is_mps is_xpu is_ipu is_xla is_mtia is_hpu T H mT mH real imag ndim is_leaf").split():
    _PRIM[_n] = _attribute(_n)

# ---- what former versions meant by a name --------------------------------------------------------------------


def _old_div(a, b, *, rounding_mode=None, out=None):
    """Before version 4, whole numbers were divided to whole numbers, towards zero."""
    values = (a, b)
    if rounding_mode is None and not any(
            v.is_floating_point() or v.is_complex() if isinstance(v, Tensor) else type(v) in (float, complex)
            for v in values):
        rounding_mode = "trunc"
    kwargs = {} if out is None else {"out": out}
    return _fl.div(a, b, rounding_mode=rounding_mode, **kwargs)


def _old_div_(a, b, *, rounding_mode=None):
    floating = a.is_floating_point() or (b.is_floating_point() if isinstance(b, Tensor) else type(b) is float)
    return a.div_(b, rounding_mode=rounding_mode if floating or rounding_mode else "trunc")


def _old_full(size, fill_value, *, dtype=None, **kwargs):
    """Before version 5, whole numbers filled tensors of floats."""
    return operator("aten", "full")(size, float(fill_value) if dtype is None else fill_value, dtype=dtype, **kwargs)


def _old_steps(name):
    def call(start, end, steps=None, *rest, **kwargs):
        return operator("aten", name)(start, end, 100 if steps is None else steps, *rest, **kwargs)

    return call


_FORMER = {"div": (3, _either(OVERLOADED["div"], _old_div)), "div_": (3, _old_div_), "full": (4, _old_full),
           "linspace": (7, _old_steps("linspace")), "logspace": (8, _old_steps("logspace"))}  # fmt: skip


def versioned(namespace: str, name: str, version: int):
    """The operator as files of a version mean it."""
    if namespace == "aten" and name in _FORMER and version <= _FORMER[name][0]:
        return _FORMER[name][1]
    return operator(namespace, name)
