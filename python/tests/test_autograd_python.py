"""The Python side of autograd: custom functions, modes, functional, graph hooks, gradient checks, profiler."""
import gc
import json
import math

import pytest

import flambeau as fl
from flambeau import autograd
from flambeau.autograd import functional

pytestmark = pytest.mark.filterwarnings("ignore")


class Exp(autograd.Function):
    @staticmethod
    def forward(ctx, x, scale=1.0):
        y = x.exp() * scale
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y, None


class Split(autograd.Function):
    @staticmethod
    def forward(x, n):
        return x[:n] * 2, x[n:] * 3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.n = inputs[1]
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, a, b):
        ctx.seen = (a is None, b is None)
        Split.seen = ctx.seen
        a = fl.zeros(ctx.n, dtype=b.dtype) if a is None else a * 2
        b = fl.zeros(2, dtype=a.dtype) if b is None else b * 3
        return fl.cat([a, b]), None


def test_function_first_and_second_derivative():
    x = fl.randn(3, dtype=fl.float64, requires_grad=True)
    assert autograd.gradcheck(lambda v: Exp.apply(v, 2.0), (x,))
    assert autograd.gradgradcheck(lambda v: Exp.apply(v, 2.0), (x,))


def test_setup_context_and_missing_gradients():
    x = fl.ones(4, requires_grad=True)
    a, b = Split.apply(x, 2)
    b.sum().backward()
    assert Split.seen == (True, False)
    assert x.grad.tolist() == [0, 0, 3, 3]


def test_function_errors():
    class Wrong(Exp):
        @staticmethod
        def backward(ctx, grad):
            return grad

    class Nothing(autograd.Function):
        pass

    x = fl.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"returned an incorrect number of gradients \(expected 2, got 1\)"):
        Wrong.apply(x, 2.0).sum().backward()
    with pytest.raises(NotImplementedError, match="must implement the forward"):
        Nothing.apply(x)
    with pytest.raises(RuntimeError, match="Legacy autograd function"):
        Exp()(x)


def test_once_differentiable():
    class Once(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        @autograd.function.once_differentiable
        def backward(ctx, grad):
            return grad * 2 * ctx.saved_tensors[0]

    x = fl.ones(2, requires_grad=True)
    g = fl.ones(2, requires_grad=True)
    (first,) = autograd.grad(Once.apply(x), x, g, create_graph=True)
    assert first.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_mark_dirty_and_non_differentiable():
    class Add(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            index = x.argmax()
            ctx.mark_non_differentiable(index)
            return x, index

        @staticmethod
        def backward(ctx, grad, _):
            return grad * 5

    leaf = fl.zeros(2, requires_grad=True)
    x = leaf * 1
    y, index = Add.apply(x)
    assert y is x and y.requires_grad and not index.requires_grad
    y.sum().backward()
    assert leaf.grad.tolist() == [5, 5]


def test_grad_argument_checks():
    x = fl.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="implicitly created only for scalar outputs"):
        autograd.grad(x * 2, x)
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        autograd.grad(x * 2, x, fl.ones(2))
    with pytest.raises(RuntimeError, match="`inputs` argument to `grad..` cannot be empty"):
        autograd.grad(x.sum(), [])
    assert autograd.grad((x * 2).sum(), fl.ones(1, requires_grad=True), materialize_grads=True)[0].tolist() == [0]
    batched = autograd.grad(x * 2, x, fl.eye(3), is_grads_batched=True)[0]
    assert fl.equal(batched, 2 * fl.eye(3))


def test_modes():
    @autograd.no_grad()
    def plain():
        return fl.is_grad_enabled()

    @autograd.no_grad()
    def steps():
        received = yield fl.is_grad_enabled()
        yield received, fl.is_grad_enabled()

    assert plain() is False and fl.is_grad_enabled()
    it = steps()
    assert next(it) is False and fl.is_grad_enabled()
    assert it.send(7) == (7, False) and fl.is_grad_enabled()
    with autograd.no_grad(), autograd.enable_grad():
        assert fl.is_grad_enabled()
    autograd.set_grad_enabled(False)
    assert not fl.is_grad_enabled()
    autograd.set_grad_enabled(True)
    with autograd.inference_mode():
        assert (fl.ones(1) * 2).is_inference()


def test_functional():
    x = fl.tensor([1.0, 2.0, 3.0])
    assert fl.equal(functional.jacobian(lambda v: v**2, x), fl.diag(2 * x))
    assert fl.equal(functional.hessian(lambda v: (v**3).sum(), x), fl.diag(6 * x))
    assert fl.allclose(functional.hvp(lambda v: (v**3).sum(), x, x)[1], 6 * x * x)
    assert fl.allclose(functional.vhp(lambda v: (v**3).sum(), x, x)[1], 6 * x * x)
    assert fl.allclose(functional.jvp(lambda v: v.sin(), x, x)[1], x.cos() * x)
    assert fl.allclose(functional.vjp(lambda v: v.sin(), x, x)[1], x.cos() * x)
    with pytest.raises(RuntimeError, match="independent of input 0"):
        functional.jacobian(lambda v: v * 2, x, create_graph=True, strict=True)


def test_graph():
    graph = autograd.graph
    seen = []
    x = fl.ones(3, requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t * 10, lambda t: seen.append(1) or t / 10):
        y = x.exp()
    y.sum().backward()
    assert seen
    a, b = fl.ones(2, requires_grad=True), fl.ones(2, requires_grad=True)
    calls = []
    handle = graph.register_multi_grad_hook([a, b], calls.append)
    (a * 2).sum().backward()
    handle.remove()
    (a * b).sum().backward()
    assert len(calls) == 1 and calls[0][1] is None
    with graph.allow_mutation_on_saved_tensors():
        leaf = fl.ones(2, requires_grad=True)
        c = leaf.clone()
        out = (c**2).sum()
        c.sin_()
        out.backward()
    assert leaf.grad.tolist() == [2, 2]


def test_forward_mode():
    x, t = fl.tensor([0.3]), fl.tensor([2.0])
    with autograd.forward_ad.dual_level():
        dual = autograd.forward_ad.make_dual(x, t)
        assert fl.allclose(autograd.forward_ad.unpack_dual(dual.sin()).tangent, x.cos() * t)


def test_gradcheck_finds_errors():
    class Bad(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    x = fl.randn(2, dtype=fl.float64, requires_grad=True)
    assert not autograd.gradcheck(Bad.apply, (x,), raise_exception=False)
    with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0 with respect to input 0"):
        autograd.gradcheck(Bad.apply, (x,))
    z = fl.randn(2, dtype=fl.complex128, requires_grad=True)
    assert autograd.gradcheck(lambda v: v * v.conj() + v**2, (z,))


def test_profiler(tmp_path):
    from flambeau.profiler import profile, record_function, schedule

    with profile() as prof, record_function("block"):
        fl.ones(2) + 1
    assert {"block", "aten::add"} <= {e.name for e in prof.events()}
    assert "block" in prof.key_averages().table(sort_by="cpu_time_total")
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    assert any(e.get("cat") == "user_annotation" for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"])
    with pytest.raises(AssertionError, match="requires with_stack=True"):
        prof.export_stacks(str(tmp_path / "stacks"))
    with profile(with_flops=True, record_shapes=True) as prof:
        fl.addmm(fl.ones(3), fl.ones(4, 8), fl.ones(8, 3)) * 2
    assert {e.key: e.flops for e in prof.key_averages() if e.flops} == {"aten::addmm": 192, "aten::mul": 12}
    table = prof.key_averages().table()
    assert "Total FLOPs" in table and "Input Shapes" not in table
    assert "Input Shapes" in prof.key_averages(group_by_input_shape=True).table()
    steps = []
    with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=1), on_trace_ready=lambda p: steps.append(p.step_num)) as p:
        for _ in range(6):
            fl.ones(1)
            p.step()
    assert len(steps) == 1


def test_gradients_lie_in_memory_as_their_leaves_do():
    layer = fl.nn.Linear(4, 6)
    layer(fl.randn(5, 4)).sum().backward()
    assert layer.weight.grad.stride() == (4, 1)
    x = fl.randn(3, 4).t().requires_grad_()
    (x * fl.randn(4, 3)).sum().backward()
    assert x.grad.stride() == x.stride() == (1, 4)
    w = fl.randn(2, 3, 4, 4).to(memory_format=fl.channels_last).requires_grad_()
    fl.nn.functional.conv2d(fl.randn(1, 3, 8, 8), w).sum().backward()
    assert w.grad.stride() == w.stride()


def test_fresh_tensors_have_seen_no_write():
    x = fl.ones(2)
    fresh = [x, fl.zeros(2), fl.full((2,), 1.0), fl.eye(2), fl.zeros_like(x), fl.ones_like(x), fl.full_like(x, 2), x.new_zeros(2)]
    assert [t._version for t in fresh] == [0] * len(fresh)
    assert [x.add_(1)._version, x.zero_()._version, fl.zeros(2, out=x)._version] == [1, 2, 3]


def test_post_accumulate_hooks_return_nothing():
    w = fl.ones(2, requires_grad=True)
    w.register_post_accumulate_grad_hook(lambda p: p.grad)
    with pytest.raises(RuntimeError, match="Tensor post accumulate grad hooks should return None."):
        (w * 3).sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]


def test_names_of_nodes_of_classes_and_matrices():
    x, y = fl.randn(3, 4, requires_grad=True), fl.tensor([0, 1, 2])
    assert fl.nn.functional.cross_entropy(x, y).grad_fn.name() == "NllLossBackward0"
    spatial = fl.nn.functional.nll_loss(x[:, :, None], y[:, None])
    assert spatial.grad_fn.name() == "NllLoss2DBackward0"
    assert x.t().grad_fn.name() == "TBackward0"
    message = "The function 'nll_loss_forward' is not differentiable with respect to argument 'weight'. This input cannot " \
              "have requires_grad True."
    with pytest.raises(RuntimeError, match=message):
        fl.nn.functional.nll_loss(x, y, weight=fl.ones(4, requires_grad=True))


def test_arguments_without_a_gradient_may_not_ask_for_one():
    functional, w = fl.nn.functional, fl.rand(4, requires_grad=True)
    x, classes = fl.rand(2, 4), fl.tensor([0, 1])
    samples = [fl.rand(1, 1, n, requires_grad=True) for n in (2, 3)]
    calls = {
        ("native_batch_norm", "running_mean"): lambda: functional.batch_norm(x, w, fl.ones(4)),
        ("native_batch_norm", "running_var"): lambda: functional.batch_norm(x, fl.zeros(4), w, training=True),
        ("multi_margin_loss", "weight"): lambda: functional.multi_margin_loss(x, classes, weight=w),
        ("soft_margin_loss", "target"): lambda: functional.soft_margin_loss(w, w),
        ("linalg_pinv", "atol"): lambda: fl.linalg.pinv(x, atol=w[0]),
        ("linalg_pinv", "rtol"): lambda: fl.linalg.pinv(x, rtol=w[0]),
        ("fractional_max_pool2d", "random_samples"):
            lambda: functional.fractional_max_pool2d(fl.rand(1, 1, 4, 4), 2, 2, _random_samples=samples[0]),
        ("fractional_max_pool3d", "random_samples"):
            lambda: functional.fractional_max_pool3d(fl.rand(1, 1, 4, 4, 4), 2, 2, _random_samples=samples[1]),
    }
    for (function, argument), call in calls.items():
        message = f"The function '{function}' is not differentiable with respect to argument '{argument}'. This input cannot " \
                  "have requires_grad True."
        with pytest.raises(RuntimeError, match=message):
            call()
        with fl.no_grad():
            call()


@pytest.mark.parametrize(("dtype", "heads", "width", "dropout"), [
    (fl.float32, 4, 8, 0.1), (fl.float64, 1, 8, 0.0), (fl.bfloat16, 4, 4, 0.0), (fl.float32, 4, 8, 0.0),
])  # fmt: skip
@pytest.mark.parametrize("boolean", [True, False])
def test_queries_that_attend_to_nothing_get_no_gradient(dtype, heads, width, dropout, boolean):
    mask = fl.ones(6, 6, dtype=fl.bool).tril()[None, None].repeat(2, 1, 1, 1)
    mask[1, :, :, :3] = False
    if not boolean:
        mask = fl.zeros(mask.shape, dtype=dtype).masked_fill(~mask, float("-inf"))
    q, k, v = (fl.randn(2, h, 6, d).to(dtype).requires_grad_() for h, d in ((4, 8), (heads, 8), (heads, width)))
    out = fl.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
    out.float().square().sum().backward()
    assert out[1, :, :3].eq(0).all() and q.grad[1, :, :3].eq(0).all()
    assert all(t.isfinite().all() and t.ne(0).any() for t in (out, q.grad, k.grad, v.grad))


@pytest.mark.parametrize("median", [fl.median, fl.nanmedian])
def test_equal_medians_share_the_gradient(median):
    x = fl.tensor([1.0, 2, 2, 3, 2], requires_grad=True)
    result = median(x)
    assert result.grad_fn.name() == ("MedianBackward0" if median is fl.median else "NanmedianBackward0")
    result.backward()
    assert x.grad.tolist() == pytest.approx([0, 1 / 3, 1 / 3, 0, 1 / 3])
    x = fl.tensor([math.nan, math.nan], requires_grad=True)
    median(x).backward()
    assert x.grad.tolist() == [0.5, 0.5]
    x = fl.empty(0, requires_grad=True)
    median(x).backward()
    assert x.grad.shape == (0,)
    with autograd.forward_ad.dual_level():
        dual = autograd.forward_ad.make_dual(fl.tensor([1.0, 2, 2, 3, 2]), fl.arange(1.0, 6))
        assert autograd.forward_ad.unpack_dual(median(dual)).tangent.item() == pytest.approx(10 / 3)


def test_batch_norm_counts_no_writes_and_its_statistics_have_no_history():
    norm, x = fl.nn.BatchNorm1d(3), fl.rand(4, 3, requires_grad=True)
    out = norm(x)
    assert norm.running_mean._version == 1
    node = out.grad_fn
    assert not any(t.requires_grad for t in (node._saved_result1, node._saved_result2, node._saved_running_mean))
    assert not x.max(1)[0].grad_fn._saved_indices.requires_grad
    norm.eval()
    out = norm(x)
    norm.train()(x)
    out.sum().backward()
    out = norm.eval()(x)
    norm.reset_running_stats()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


class Tilted(autograd.Function):
    """Its forward-mode derivative is ten times too large, so that one sees which one was asked."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_forward(x, y)
        return x * y, x.long()

    @staticmethod
    def jvp(ctx, x_tangent, y_tangent):
        x, y = ctx.saved_tensors
        return 10 * (x_tangent * y + y_tangent * x), None


def test_custom_functions_in_forward_mode():
    from flambeau.autograd import forward_ad

    x, y, one = fl.tensor([1.0, 2.0]), fl.tensor([3.0, 4.0]), fl.ones(2)
    with forward_ad.dual_level():
        product, whole = Tilted.apply(forward_ad.make_dual(x, one), y)
        assert forward_ad.unpack_dual(product).tangent.tolist() == [30, 40] and forward_ad.unpack_dual(whole).tangent is None
        product, _ = Tilted.apply(forward_ad.make_dual(x, one), forward_ad.make_dual(y, one))
        assert forward_ad.unpack_dual(product).tangent.tolist() == [40, 60]
        with pytest.raises(NotImplementedError, match="You must implement the jvp function for custom autograd.Function"):
            Exp.apply(forward_ad.make_dual(x, one))

        class Doubled(autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                return x.mul_(2)

            @staticmethod
            def jvp(ctx, tangent):
                return tangent.mul_(2)

        dual = forward_ad.make_dual(x.clone(), one.clone())
        assert Doubled.apply(dual) is dual
        assert [part.tolist() for part in forward_ad.unpack_dual(dual)] == [[2, 4], [2, 2]]


def test_forward_of_custom_functions_records_nothing():
    weight = fl.ones(2, requires_grad=True)

    class Weighted(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * weight

    assert not Weighted.apply(fl.ones(2)).requires_grad


def test_copies_of_results_require_gradients():
    import copy
    import pickle

    y = fl.ones(2, requires_grad=True) * 2
    for again in (copy.copy(y), pickle.loads(pickle.dumps(y))):
        assert again.is_leaf and again.requires_grad and again.tolist() == [2, 2]


def test_gradcheck_draws_what_pytorch_draws():
    """Programs that check and then draw go on with the same numbers."""
    x = fl.ones(3, dtype=fl.float64, requires_grad=True)

    def numbers_drawn(check):
        fl.manual_seed(0)
        check()
        following = fl.rand((), dtype=fl.float64)
        fl.manual_seed(0)
        return fl.rand(20, dtype=fl.float64).tolist().index(following.item())

    assert numbers_drawn(lambda: autograd.gradcheck(fl.sin, (x,))) == 0
    assert numbers_drawn(lambda: autograd.gradgradcheck(fl.sin, (x,))) == 3
    assert numbers_drawn(lambda: autograd.gradgradcheck(fl.sin, (x,), gen_non_contig_grad_outputs=True)) == 6
    assert numbers_drawn(lambda: autograd.gradcheck(fl.sin, (x,), check_batched_grad=True)) == 6


def test_gradcheck_of_gradients_in_batches():
    x = fl.ones(3, dtype=fl.float64, requires_grad=True)
    assert autograd.gradcheck(lambda x: (x.exp(), x * 2), (x,), check_batched_grad=True)


def test_gradcheck_changes_the_inputs_themselves():
    fl.manual_seed(0)
    module, x = fl.nn.Linear(2, 2, dtype=fl.float64), fl.randn(3, 2, dtype=fl.float64)
    before = [p.detach().clone() for p in module.parameters()]
    parameters = tuple(module.parameters())
    assert autograd.gradcheck(lambda *_: module(x).tanh(), parameters)
    assert autograd.gradgradcheck(lambda *_: module(x).tanh(), parameters)
    assert all(map(fl.equal, before, parameters)) and [p._version for p in parameters] == [1, 1]


def test_nothing_waits_for_the_garbage_collector():
    x = fl.randn(4, 4, requires_grad=True)
    model = fl.nn.Linear(4, 4)
    optimizer = fl.optim.Adam(model.parameters())
    model(x).sum().backward()
    optimizer.step()

    def derivatives():
        y = (x * x).sum()
        first = fl.autograd.grad(y, x, create_graph=True)[0]
        fl.autograd.grad(first.sum(), x)
        fl.func.vmap(lambda g: fl.autograd.grad((x * x)[0], x, g)[0])(fl.eye(4))

    def loading():
        model.load_state_dict(model.state_dict())
        optimizer.load_state_dict(optimizer.state_dict())

    def step():
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    for work in (derivatives, loading, step):
        work()
        gc.collect()
        gc.disable()
        try:
            work()
            assert gc.collect() == 0, work
        finally:
            gc.enable()
