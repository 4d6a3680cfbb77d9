"""Recurrent layers and cells."""
import math
import numbers
import warnings

from ... import _C
from ..._names import factory_kwargs
from .. import init
from ..utils.rnn import PackedSequence
from ._build import keep, listed, make
from .module import Module

__all__ = ["RNNBase", "RNN", "LSTM", "GRU", "RNNCellBase", "RNNCell", "LSTMCell", "GRUCell"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _spread_weights(module):
    """All weights even between ±1/√hidden."""
    bound = 1.0 / math.sqrt(module.hidden_size) if module.hidden_size > 0 else 0
    for weight in module.parameters():
        init.uniform_(weight, -bound, bound)


def _unusual(module, **usual):
    """Options that are not at their usual values, for a repr."""
    return "".join(f", {listed(module, name)}" for name, value in usual.items() if getattr(module, name) != value)


def _apply_permutation(tensor, permutation, dim=1):
    return tensor.index_select(dim, permutation)


def apply_permutation(tensor, permutation, dim=1):
    """Deprecated: `tensor.index_select(dim, permutation)`."""
    warnings.warn(
        "`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` instead",
        FutureWarning,
        stacklevel=2,
    )
    return _apply_permutation(tensor, permutation, dim)


def _each(states, function):
    """A function of one state, or of each of several."""
    return function(states) if isinstance(states, _C.Tensor) else tuple(map(function, states))


def _one_or_all(states):
    return states[0] if len(states) == 1 else tuple(states)


class RNNBase(Module):
    """Layers of recurrent cells over (L, N, input) or, with `batch_first`, (N, L, input), or packed sequences."""

    __constants__ = [
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional", "proj_size"
    ]

    def __init__(
        self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
        proj_size=0, device=None, dtype=None,
    ):
        like = factory_kwargs(device, dtype)
        super().__init__()
        keep(
            self, mode=mode, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers, bias=bias,
            batch_first=batch_first, dropout=float(dropout), bidirectional=bidirectional, proj_size=proj_size,
        )
        if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1 or isinstance(dropout, bool):
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
                f"greater than 1, but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=3,
            )
        for name, value in (("input_size", input_size), ("hidden_size", hidden_size)):
            if not isinstance(value, int):
                raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
        if not isinstance(batch_first, bool):
            raise TypeError(f"batch_first should be of type bool, got: {type(batch_first).__name__}")
        for failed, message in (
            (hidden_size <= 0, "hidden_size must be greater than zero"),
            (num_layers <= 0, "num_layers must be greater than zero"),
            (proj_size < 0, "proj_size should be a positive integer or zero to disable projections"),
            (proj_size >= hidden_size, "proj_size has to be smaller than hidden_size"),
            (mode not in _GATES, f"Unrecognized RNN mode: {mode}"),
        ):
            if failed:
                raise ValueError(message)
        rows = _GATES[mode] * hidden_size
        directions = 2 if bidirectional else 1
        out_size = proj_size if proj_size > 0 else hidden_size
        self._all_weights = []
        for layer in range(num_layers):
            for direction in range(directions):
                width = input_size if layer == 0 else out_size * directions
                shapes = {"weight_ih": (rows, width), "weight_hh": (rows, out_size)}
                if bias:
                    shapes.update(bias_ih=(rows,), bias_hh=(rows,))
                if proj_size > 0:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                suffix = f"_l{layer}" + ("_reverse" if direction else "")
                named = {name + suffix: shape for name, shape in shapes.items()}
                make(self, like, **named)
                self._all_weights.append(list(named))
        self.reset_parameters()

    @property
    def _flat_weights_names(self):
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self):
        return [getattr(self, name) for names in self._all_weights for name in names]

    @property
    def all_weights(self):
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self):
        """Accepted for compatibility: weights need no particular placement."""

    def reset_parameters(self):
        """Draw new initial values."""
        _spread_weights(self)

    def check_input(self, input, batch_sizes):
        """Check type and width of the input."""
        weight = getattr(self, self._all_weights[0][0])
        if input.dtype != weight.dtype and not _C.is_autocast_enabled():
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). Convert input: "
                f"input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )
        rank, width = input.dim(), input.shape[-1:]
        expected = 3 if batch_sizes is None else 2
        if rank != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {rank}")
        if width != (self.input_size,):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {width[0]}"
            )

    def _state_size(self, input, batch_sizes, width):
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.size(0) if self.batch_first else input.size(1)
        return self.num_layers * (2 if self.bidirectional else 1), batch, width

    def get_expected_hidden_size(self, input, batch_sizes):
        """The shape that the hidden state must have."""
        return self._state_size(input, batch_sizes, self.proj_size if self.proj_size > 0 else self.hidden_size)

    def check_hidden_size(self, hx, expected_hidden_size, msg="Expected hidden size {}, got {}"):
        """Check the shape of a hidden state."""
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input, hidden, batch_sizes):
        """Check input and hidden state together."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx, permutation):
        """The hidden state with its batch reordered."""
        return hx if permutation is None else _apply_permutation(hx, permutation)

    def extra_repr(self):
        more = _unusual(
            self, proj_size=0, num_layers=1, bias=True, batch_first=False, dropout=0, bidirectional=False
        )
        return f"{self.input_size}, {self.hidden_size}{more}"

    def __setstate__(self, state):
        for name in ("_flat_weights", "_flat_weights_names", "_flat_weight_refs"):  # stored by other versions
            state.pop(name, None)
        super().__setstate__(state)
        self.__dict__.setdefault("proj_size", 0)

    # -- what the layers share --

    _checks_packed = True  # whether states that come with packed sequences are checked before the operator does

    def _zero_state(self, input, batch_sizes, width):
        return _C.zeros(*self._state_size(input, batch_sizes, width), dtype=input.dtype, device=input.device)

    def _check_rank(self, input, label, suffix=""):
        if input.dim() not in (2, 3):
            raise ValueError(f"{label}: Expected input to be 2D or 3D, got {input.dim()}D{suffix} instead")

    def _run(self, op, input, hx, batch_sizes):
        weights = self._flat_weights
        options = [self.bias, self.num_layers, self.dropout, self.training, self.bidirectional]
        if batch_sizes is None:
            output, *states = op(input, hx, weights, *options, self.batch_first)
        else:
            output, *states = op(input, batch_sizes, hx, weights, *options)
        return output, _one_or_all(states)

    def _initial_state(self, input, batch_sizes):
        return self._zero_state(input, batch_sizes, self.hidden_size)

    def _forward(self, op, label, input, hx, suffix=""):
        """Forward over a packed, batched or single sequence, with one state (RNN, GRU) or two (LSTM)."""
        if isinstance(input, PackedSequence):
            data, batch_sizes, order, back = input
            hx = self._initial_state(data, batch_sizes) if hx is None else self.permute_hidden(hx, order)
            if self._checks_packed:
                self.check_forward_args(data, hx, batch_sizes)
            output, states = self._run(op, data, hx, batch_sizes)
            return PackedSequence(output, batch_sizes, order, back), self.permute_hidden(states, back)
        self._check_rank(input, label, suffix)
        single = input.dim() == 2
        if hx is not None:
            self._check_state_rank(hx, input.dim(), "unbatched" if single else "batched")
        batch_dim = 0 if self.batch_first else 1
        if single:
            input = input.unsqueeze(batch_dim)
            hx = None if hx is None else _each(hx, lambda state: state.unsqueeze(1))
        if hx is None:
            hx = self._initial_state(input, None)
        self.check_forward_args(input, hx, None)
        output, states = self._run(op, input, hx, None)
        if single:
            return output.squeeze(batch_dim), _each(states, lambda state: state.squeeze(1))
        return output, states

    def _check_state_rank(self, hx, rank, kind):
        if hx.dim() != rank:
            raise RuntimeError(f"For {kind} {rank}-D input, hx should also be {rank}-D but got {hx.dim()}-D tensor")


def _no_projection(kwargs):
    if "proj_size" in kwargs:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    """h' = tanh(W x + b + U h + c), or relu with `nonlinearity="relu"`. Returns (output, h_n)."""

    def __init__(self, *args, **kwargs):
        _no_projection(kwargs)
        sizes, by_place, others = args[:3], args[3:4], args[4:]
        kind = by_place[0] if by_place else kwargs.pop("nonlinearity", "tanh")
        if kind not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{kind}'. Select from 'tanh' or 'relu'.")
        self.nonlinearity = kind
        super().__init__(f"RNN_{kind.upper()}", *sizes, *others, **kwargs)

    def forward(self, input, hx=None):
        op = _C.rnn_tanh if self.mode == "RNN_TANH" else _C.rnn_relu
        return self._forward(op, "RNN", input, hx, " tensor")


class GRU(RNNBase):
    """Gated recurrent units. Returns (output, h_n)."""

    def __init__(self, *args, **kwargs):
        _no_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input, hx=None):
        return self._forward(_C.gru, "GRU", input, hx)


class LSTM(RNNBase):
    """Long short-term memory, with projections if `proj_size` is set. Returns (output, (h_n, c_n))."""

    _checks_packed = False

    def __init__(self, *args, **kwargs):
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input, batch_sizes):
        """The shape that the cell state must have."""
        return self._state_size(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input, hidden, batch_sizes):
        """Check input, hidden state and cell state together."""
        self.check_input(input, batch_sizes)
        sizes = self.get_expected_hidden_size(input, batch_sizes), self.get_expected_cell_size(input, batch_sizes)
        for i, size in enumerate(sizes):
            self.check_hidden_size(hidden[i], size, f"Expected hidden[{i}] size {{}}, got {{}}")

    def permute_hidden(self, hx, permutation):
        """Both states with their batch reordered."""
        return hx if permutation is None else _each(hx[:2], lambda state: _apply_permutation(state, permutation))

    def _initial_state(self, input, batch_sizes):
        widths = (self.proj_size or self.hidden_size, self.hidden_size)
        return tuple(self._zero_state(input, batch_sizes, width) for width in widths)

    def _check_state_rank(self, hx, rank, kind):
        ranks = [hx[0].dim(), hx[1].dim()]
        if ranks != [rank, rank]:
            raise RuntimeError(
                f"For {kind} {rank}-D input, hx and cx should also be {rank}-D but got ({ranks[0]}-D, {ranks[1]}-D) "
                "tensors"
            )

    def forward(self, input, hx=None):
        return self._forward(_C.lstm, "LSTM", input, hx)


class RNNCellBase(Module):
    """Weights of one cell with `num_chunks` gates."""

    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        super().__init__()
        keep(self, input_size=input_size, hidden_size=hidden_size, bias=bias)
        rows = num_chunks * hidden_size
        biases = dict.fromkeys(("bias_ih", "bias_hh"), rows if bias else None)
        make(self, factory_kwargs(device, dtype), weight_ih=(rows, input_size), weight_hh=(rows, hidden_size), **biases)
        self.reset_parameters()

    def extra_repr(self):
        usual = {"bias": True, "nonlinearity": "tanh"}
        more = _unusual(self, **{name: value for name, value in usual.items() if name in vars(self)})
        return f"{self.input_size}, {self.hidden_size}{more}"

    def reset_parameters(self):
        """Draw new initial values."""
        _spread_weights(self)

    def _check_ranks(self, input, states):
        name = type(self).__name__
        for label, tensor in (("input", input), *states):
            if tensor is not None and tensor.dim() not in (1, 2):
                raise ValueError(f"{name}: Expected {label} to be 1D or 2D, got {tensor.dim()}D instead")

    def _zeros(self, input):
        return _C.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)

    def _weights(self):
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _forward_single(self, op, input, hx):
        self._check_ranks(input, [("hidden", hx)])
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            hx = self._zeros(input)
        elif not batched:
            hx = hx.unsqueeze(0)
        out = op(input, hx, *self._weights())
        return out if batched else out.squeeze(0)


class RNNCell(RNNCellBase):
    """One step of an `RNN`: (N, input), (N, hidden) to (N, hidden)."""

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, num_chunks=1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        ops = {"tanh": _C.rnn_tanh_cell, "relu": _C.rnn_relu_cell}
        if self.nonlinearity not in ops:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._forward_single(ops[self.nonlinearity], input, hx)


class GRUCell(RNNCellBase):
    """One step of a `GRU`: (N, input), (N, hidden) to (N, hidden)."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, num_chunks=3, device=device, dtype=dtype)

    def forward(self, input, hx=None):
        return self._forward_single(_C.gru_cell, input, hx)


class LSTMCell(RNNCellBase):
    """One step of an `LSTM`: (N, input), (h, c) to (h, c)."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, num_chunks=4, device=device, dtype=dtype)

    def forward(self, input, hx=None):
        states = [] if hx is None else [(f"hx[{i}]", value) for i, value in enumerate(hx)]
        self._check_ranks(input, states)
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            hx = (self._zeros(input),) * 2
        elif not batched:
            hx = _each(hx[:2], lambda state: state.unsqueeze(0))
        states = _C.lstm_cell(input, hx, *self._weights())
        return tuple(states) if batched else _each(states, lambda state: state.squeeze(0))
