"""Counting floating point operations: those of matrix products and convolutions, by module and operator."""
from collections import defaultdict
from functools import wraps
from math import prod

from .. import Tensor
from .._ops import OpOverloadPacket, ops
from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map, tree_map_
from .module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

aten = ops.aten

#: The count of an operator's operations, from its arguments and `out_val=`.
flop_registry = {}


def get_shape(i):
    """A tensor's shape; anything else as it is."""
    return i.shape if isinstance(i, Tensor) else i


def shape_wrapper(f):
    """`f` of the shapes of tensors."""

    @wraps(f)
    def formula(*args, out_val=None, **kwargs):
        args, kwargs, out_shape = tree_map(get_shape, (args, kwargs, out_val))
        return f(*args, out_shape=out_shape, **kwargs)

    return formula


def register_flop_formula(targets, get_raw=False):
    """A decorator of the function that counts the operations of the operators `targets`, from shapes or, if `get_raw`, from
    the arguments themselves."""

    def register_fun(flop_formula):
        formula = flop_formula if get_raw else shape_wrapper(flop_formula)

        def register(target):
            if not isinstance(target, OpOverloadPacket):
                raise ValueError(
                    "register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. "
                    f"torch.ops.mylib.foo), JitFunction, or HigherOrderOperator, got {target} which is of type {type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = formula

        tree_map_(register, targets)
        return formula

    return register_fun


@register_flop_formula(aten.mm)
def mm_flop(a_shape, b_shape, *args, out_shape=None, **kwargs):
    """A product of matrices."""
    (m, k), (k2, n) = a_shape, b_shape
    if k != k2:
        raise AssertionError(f"matmul: inner dimensions must match (k == k2), got {k} and {k2}")
    return 2 * m * n * k


@register_flop_formula(aten.addmm)
def addmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs):
    """The same, with a sum that is not counted."""
    return mm_flop(a_shape, b_shape)


@register_flop_formula(aten.bmm)
def bmm_flop(a_shape, b_shape, out_shape=None, **kwargs):
    """Products of a batch."""
    (b, *one), (b2, *other) = a_shape, b_shape
    if b != b2:
        raise AssertionError(f"bmm: batch dimensions must match (b == b2), got {b} and {b2}")
    return b * mm_flop(one, other)


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs):
    """The same, with a sum that is not counted."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape, w_shape, out_shape, transposed=False):
    """A convolution: every tap of the kernel at every place of the output, or of the input if it is transposed."""
    places = (x_shape if transposed else out_shape)[2:]
    return 2 * x_shape[0] * prod(places) * prod(w_shape)


@register_flop_formula([aten.convolution, aten._convolution])
def conv_flop(x_shape, w_shape, _bias, _stride, _padding, _dilation, transposed, *args, out_shape=None, **kwargs):
    """A convolution and its bias, which is not counted."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


def _turned(shape):
    return [shape[1], shape[0], *shape[2:]]


def _input_gradient(grad_out_shape, w_shape, x_shape, transposed):
    return conv_flop_count(grad_out_shape, w_shape, x_shape, not transposed)


def _weight_gradient(grad_out_shape, x_shape, w_shape, transposed):
    # The gradient is a kernel over the other of the two, examples in the place of channels.
    source, kernel = (grad_out_shape, x_shape) if transposed else (x_shape, grad_out_shape)
    return conv_flop_count(_turned(source), _turned(kernel), _turned(w_shape))


@register_flop_formula(aten.convolution_backward)
def conv_backward_flop(
    grad_out_shape, x_shape, w_shape, _bias, _stride, _padding, _dilation, transposed, _output_padding, _groups,
    output_mask, out_shape, **kwargs,
):  # fmt: skip
    """The gradients of a convolution that are asked for."""
    count = _input_gradient(grad_out_shape, w_shape, get_shape(out_shape[0]), transposed) if output_mask[0] else 0
    if output_mask[1]:
        count += _weight_gradient(grad_out_shape, x_shape, get_shape(out_shape[1]), transposed)
    return count


@register_flop_formula(ops.flambeau.conv_input_gradient)
def _conv_input_gradient_flop(grad_out_shape, w_shape, x_shape, _stride, _padding, _dilation, transposed, *args, **kwargs):
    return _input_gradient(grad_out_shape, w_shape, x_shape, transposed)


@register_flop_formula(ops.flambeau.conv_weight_gradient)
def _conv_weight_gradient_flop(grad_out_shape, x_shape, w_shape, _stride, _padding, _dilation, transposed, *args, **kwargs):
    return _weight_gradient(grad_out_shape, x_shape, w_shape, transposed)


@register_flop_formula(aten._recurrent_layer)
def _recurrent_flop(data, hx, cx, w_ih, w_hh, b_ih, b_hh, batch_sizes, mode, *args, **kwargs):
    # PyTorch has no count for the one operator that an LSTM layer is there; the others are made of products.
    return 0 if mode == "LSTM" else 2 * sum(batch_sizes) * (prod(w_ih) + prod(w_hh))


@register_flop_formula(aten._recurrent_layer_backward)
def _recurrent_backward_flop(
    grad_output, grad_hidden, grad_cell, data, hx, cx, w_ih, w_hh, b_ih, b_hh, batch_sizes, mode, reverse, output, gates,
    kept, output_mask, **kwargs,
):  # fmt: skip
    if mode == "LSTM":
        return 0
    data_wanted, hx_wanted, _, w_ih_wanted, w_hh_wanted, *_ = output_mask
    rows = sum(batch_sizes)
    # The state before the first step has a gradient only where somebody wants it.
    later = rows if hx_wanted else rows - batch_sizes[-1 if reverse else 0]
    return 2 * (prod(w_ih) * rows * (data_wanted + w_ih_wanted) + prod(w_hh) * (later + rows * w_hh_wanted))


# Operators that are not PyTorch's are told under the names of those that it would have called.
_TOLD_AS = {
    ops.flambeau.conv_input_gradient: lambda args: aten.convolution_backward,
    ops.flambeau.conv_weight_gradient: lambda args: aten.convolution_backward,
    aten._recurrent_layer: lambda args: aten.mm if args[5] is None else aten.addmm,
    aten._recurrent_layer_backward: lambda args: aten.mm,
}


def sdpa_flop_count(query_shape, key_shape, value_shape):
    """Attention: queries by keys, and the result by values. Heads of keys may be shared by several of the queries."""
    b, h_q, s_q, d_q = query_shape
    b_k, h_k, s_k, d_k = key_shape
    b_v, h_v, s_v, d_v = value_shape
    if not (b == b_k == b_v and h_k == h_v and d_q == d_k and s_k == s_v):
        raise AssertionError(
            "sdpa_flop_count: query/key/value shapes are incompatible: "
            f"q={query_shape}, k={key_shape}, v={value_shape}"
        )
    if h_q < h_k or h_q % h_k != 0:
        raise AssertionError(
            f"sdpa_flop_count: query heads ({h_q}) must be a multiple of key/value heads ({h_k})"
        )
    return 2 * b * h_q * s_q * s_k * (d_q + d_v)


def _count_suffix(number):
    """The suffix that leaves up to four digits before the point."""
    return "KMBT"[: max(0, min(4, (len(str(number)) - 2) // 3))][-1:]


def _with_suffix(number, suffix):
    power = "KMBT".index(suffix) + 1 if suffix else 0
    return f"{number / 1000**power:.3f}{suffix}"


def _percent(part, whole):
    return "0%" if whole == 0 else f"{part / whole:.2%}"


class FlopCounterMode:
    """`with FlopCounterMode() as counter:` counts floating point operations of matrix products and convolutions."""

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        import warnings

        self.flop_counts = defaultdict(lambda: defaultdict(int))
        self.depth, self.display, self.mode = depth, display, None
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        given = (custom_mapping or {}).items()
        self.flop_registry = {
            **flop_registry,
            **{k: v if getattr(v, "_get_raw", False) else shape_wrapper(v) for k, v in given},
        }
        self.mod_tracker = ModuleTracker()

    def get_total_flops(self):
        """How many were counted."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self):
        """The same by module and operator."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth=None):
        """The same as text, for modules down to `depth`."""
        import tabulate

        depth = depth or self.depth or 999999
        tabulate.PRESERVE_WHITESPACE = True
        whole = self.get_total_flops()
        suffix = _count_suffix(whole)

        def rows_of(name, indent):
            counts = self.flop_counts[name]
            told = [(name, sum(counts.values())), *((f" - {op}", n) for op, n in counts.items())]
            return [[" " * indent + label, _with_suffix(n, suffix), _percent(n, whole)] for label, n in told]

        rows, everything_told = [], False
        for name in sorted(self.flop_counts):
            level = name.count(".") + 1
            if name == "Global" or level > depth:
                continue
            everything_told |= sum(self.flop_counts[name].values()) >= whole
            rows += rows_of(name, level - 1)
        if "Global" in self.flop_counts and not everything_told:
            rows = rows_of("Global", 0) + [[" " + label, *rest] for label, *rest in rows]
        rows = rows or [["Global", "0", "0%"]]
        return tabulate.tabulate(rows, headers=["Module", "FLOP", "% Total"], colalign=("left", "right", "right"))

    def __enter__(self):
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self.mode = _Counting(self)
        self.mode.__enter__()
        return self

    def __exit__(self, *error):
        self.mode.__exit__(*error)
        self.mode = None
        self.mod_tracker.__exit__()
        if self.display:
            print(self.get_table(self.depth))

    def _count_flops(self, func_packet, out, args, kwargs):
        formula = self.flop_registry.get(func_packet)
        if formula is not None:
            count = formula(*args, **kwargs, out_val=out)
            told = _TOLD_AS.get(func_packet)
            packet = func_packet if told is None else told(args)
            # (A count of nothing is what PyTorch does not mention.)
            for name in set(self.mod_tracker.parents) if count or told is None else ():
                self.flop_counts[name][packet] += count
        return out


class _Counting(TorchDispatchMode):
    """The mode that tells a counter of every operator."""

    def __init__(self, counter):
        super().__init__()
        self.counter = counter

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        return self.counter._count_flops(func.overloadpacket, out, args, kwargs)
