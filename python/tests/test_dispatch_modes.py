"""`TorchDispatchMode`, and what stands on it: counting operations, selective checkpointing."""
import functools
import threading

import pytest

import flambeau as fl
import flambeau.nn as nn
import flambeau.nn.functional as F
from flambeau.utils import _python_dispatch as dispatch
from flambeau.utils._python_dispatch import BaseTorchDispatchMode, TorchDispatchMode
from flambeau.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from flambeau.utils.flop_counter import FlopCounterMode, register_flop_formula

aten = fl.ops.aten


class Log(TorchDispatchMode):
    """Writes down what it sees."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert types == () and isinstance(args, tuple) and isinstance(kwargs, dict)
        self.seen.append((func, args, kwargs))
        return func(*args, **kwargs)

    @property
    def functions(self):
        return [func for func, *_ in self.seen]


def test_operators_are_seen_below_autograd():
    x = fl.ones(2, 3, requires_grad=True)
    weight, bias = fl.ones(4, 3), fl.ones(4)
    with Log() as log:
        y = F.linear(x * 2 + 1, weight, bias)
        assert not log.seen[0][2] and log.seen[0][1][0] is x
        y.sum().backward()
    assert log.functions[:5] == [aten.mul.Tensor, aten.add.Tensor, aten.t.default, aten.addmm.default, aten.sum.default]
    assert aten.mm.default in log.functions[5:] and aten.linear.default not in log.functions
    assert x.grad.tolist() == [[8.0] * 3] * 2 and y.requires_grad
    count = len(log.seen)
    fl.ones(2).add(1)
    assert len(log.seen) == count


def test_arguments_that_are_defaults_are_left_out():
    x = fl.arange(6.0).view(2, 3)
    with Log() as log:
        x.add(x), x.add(x, alpha=2), x.sum(), x.sum(1, True), x.softmax(1, dtype=fl.float64), fl.cat([x, x], 1), x.view(3, 2)
        fl.zeros(2, dtype=fl.int32), x[:, fl.tensor([0, 2])], x.to(fl.float64)
    calls = {func: (args[1:], kwargs) for func, args, kwargs in log.seen}
    adds = [(len(args), kwargs) for func, args, kwargs in log.seen if func is aten.add.Tensor]
    assert adds == [(2, {}), (2, {"alpha": 2})]
    assert calls[aten.sum.default] == ((), {}) and calls[aten.sum.dim_IntList] == (([1], True), {})
    assert calls[aten.cat.default] == ((1,), {}) and calls[aten.view.default] == (([3, 2],), {})
    assert next(kwargs for func, args, kwargs in log.seen if func is aten.zeros.default)["dtype"] is fl.int32
    (indices,), _ = calls[aten.index.Tensor]
    assert indices[0] is None and indices[1].tolist() == [0, 2]


class SubtractingMode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        func = aten.sub.Tensor if func is aten.add.Tensor else func
        return func(*args, **(kwargs or {}))


def test_results_of_modes_are_those_of_the_call():
    x = fl.full((2,), 5.0, requires_grad=True)
    with SubtractingMode():
        y = x + fl.tensor([1.0, 2.0]) * x.detach()
    # Autograd stands above: it records the operator that was called.
    assert y.tolist() == [0.0, -5.0] and y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    with SubtractingMode():
        a = fl.ones(3)
        b = a.add_(1)
        values, places = fl.max(fl.tensor([[1.0, 3.0], [7.0, 2.0]]), 1)
        first, *rest = fl.arange(5).split(2)
        assert a.sum().item() == 6.0
    assert b is a and values.tolist() == [3.0, 7.0] and places.tolist() == [1, 0] and len(rest) == 2


def test_what_a_mode_calls_goes_to_the_one_outside():
    with Log() as outer, Log() as inner:
        assert dispatch._get_current_dispatch_mode() is inner
        assert dispatch._get_current_dispatch_mode_stack() == [outer, inner]
        fl.ones(2) + 1
        with dispatch._pop_mode_temporarily() as popped:
            assert popped is inner
            fl.zeros(2)
        with dispatch._disable_current_modes():
            fl.eye(2)
    assert [f.__name__ for f in inner.functions] == ["ones.default", "add.Tensor"]
    assert [f.__name__ for f in outer.functions] == ["ones.default", "add.Tensor", "zeros.default"]
    assert not dispatch.is_in_torch_dispatch_mode() and dispatch._get_current_dispatch_mode() is None

    class Recording(Log):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            with inner:
                return super().__torch_dispatch__(func, types, args, kwargs)

    del inner.seen[:]
    with Recording():
        fl.ones(2)
    assert inner.functions == [aten.ones.default]
    # Inside a handler nothing is recorded for autograd.
    states = []

    class Computing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            states.extend((a * 3).requires_grad for a in args if isinstance(a, fl.Tensor))
            return func(*args, **(kwargs or {}))

    x = fl.ones(2, requires_grad=True)
    with Computing():
        assert (x * 2).requires_grad
    assert states == [False] and (x * 3).requires_grad


def test_errors_and_threads():
    class Refusing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise ValueError(f"no {func}")

    with pytest.raises(ValueError, match="no aten.ones.default"), Refusing():
        fl.ones(2)
    assert dispatch._get_current_dispatch_mode() is None

    class Wrong(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return "text"

    with pytest.raises(TypeError, match="Unable to cast Python instance of type <class 'str'>"), Wrong():
        fl.ones(2)
    with pytest.raises(NotImplementedError), TorchDispatchMode():
        fl.ones(2)
    with BaseTorchDispatchMode():
        assert fl.ones(2).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="there is no mode to take off"):
        dispatch._pop_mode()
    with Log() as log:
        thread = threading.Thread(target=lambda: fl.zeros(3))
        thread.start()
        thread.join()
    assert not log.seen


def test_counting_operations():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
            self.up, self.out = nn.ConvTranspose2d(8, 4, 2, stride=2), nn.Linear(8 * 16, 10)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
            self.up(x)
            return self.out(x.flatten(1))

    with FlopCounterMode(display=False) as counter:
        Net()(fl.randn(2, 3, 8, 8)).sum().backward()
    # PyTorch's counts.
    conv = {aten.convolution: 55296, aten.convolution_backward: 55296}
    counts = counter.get_flop_counts()
    assert counts["Net.conv"] == conv and counts["Net.up"] == {aten.convolution: 8192}
    assert counts["Net.out"] == {aten.addmm: 5120, aten.mm: 10240}
    assert counter.get_total_flops() == 134144 and sum(counts["Net"].values()) == 134144
    x = fl.randn(2, 3, 8, 8, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        F.conv2d(x, fl.ones(8, 3, 3, 3, requires_grad=True), stride=2).sum().backward()
        F.conv_transpose2d(fl.ones(1, 8, 3, 3, requires_grad=True), fl.ones(8, 4, 2, 2, requires_grad=True), stride=2).sum().backward()
        F.conv1d(fl.ones(1, 4, 5), fl.ones(6, 2, 3, requires_grad=True), groups=2).sum().backward()
    assert counter.get_flop_counts() == {"Global": {aten.convolution: 10296, aten.convolution_backward: 20592}}
    with FlopCounterMode(display=False, custom_mapping={aten.exp: lambda shape, out_shape: 7 * shape[0]}) as counter:
        fl.ones(3).exp() @ fl.ones(3)
        fl.ones(5, 2, 3) @ fl.ones(5, 3, 4)
    assert counter.get_flop_counts() == {"Global": {aten.exp: 21, aten.bmm: 240}}
    with pytest.raises(RuntimeError, match="duplicate registrations for aten.mm"):
        register_flop_formula(aten.mm)(lambda *_: 0)


@pytest.mark.parametrize(
    "options, forward, backward, with_input",
    [({}, 1680, 2448, 720), ({"bias": False}, 1680, 2448, 720), ({"num_layers": 2, "bidirectional": True}, 9120, 16032, 1440)],
)
def test_counting_operations_of_recurrent_layers(options, forward, backward, with_input):
    """As in PyTorch, where they are products of every step; it has no count for an LSTM layer."""
    module = nn.GRU(3, 4, **options)
    product = aten.mm if options.get("bias") is False else aten.addmm
    for needs in (False, True):
        x = fl.randn(5, 2, 3, requires_grad=needs)
        with FlopCounterMode(display=False) as counter:
            module(x)[0].sum().backward()
        want = {product: forward}
        want[aten.mm] = want.get(aten.mm, 0) + backward + with_input * needs
        assert counter.get_flop_counts()["Global"] == want
    with FlopCounterMode(display=False) as counter:
        nn.LSTM(3, 4)(x)[0].sum().backward()
    assert counter.get_total_flops() == 0


def test_counting_operations_of_sequences_of_many_lengths():
    packed = nn.utils.rnn.pack_padded_sequence(fl.randn(5, 2, 3), fl.tensor([5, 3]))
    with FlopCounterMode(display=False) as counter:
        nn.GRU(3, 4)(packed)[0].data.sum().backward()
    assert counter.get_flop_counts()["Global"] == {aten.addmm: 1344, aten.mm: 1920}
    h = fl.randn(1, 2, 4, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        nn.GRU(3, 4)(fl.randn(5, 2, 3), h)[0].sum().backward()
    assert counter.get_flop_counts()["Global"] == {aten.addmm: 1680, aten.mm: 2640}


def test_selective_checkpointing():
    runs = []

    class Seeing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            runs.append(func)
            return func(*args, **(kwargs or {}))

    def policy(context, function, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if function == aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE

    def block(x):
        return (x @ x.T).sin().exp().sum()

    x = fl.randn(4, 4, requires_grad=True)
    (want,) = fl.autograd.grad(block(x), x)
    for given in (policy, [aten.mm.default]):
        contexts = functools.partial(create_selective_checkpoint_contexts, given)
        with Seeing():
            loss = checkpoint(block, x, use_reentrant=False, context_fn=contexts)
            del runs[:]
            loss.backward()
        # Two products are the gradient's; the block's own is not made again, but the sine is.
        assert runs.count(aten.mm.default) == 2 and runs.count(aten.sin.default) == 1
        assert fl.equal(x.grad, want)
        x.grad = None
