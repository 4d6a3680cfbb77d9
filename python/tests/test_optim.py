"""Optimisers and schedules against recorded numbers, and their checks."""
import copy
import json
import pathlib
import warnings

import pytest

import flambeau as fl
from flambeau import optim

RECORDED = json.loads((pathlib.Path(__file__).parent / "data" / "recorded_training.json").read_text())


def problem():
    w = (fl.arange(12.0) * 0.37).sin().reshape(3, 4).requires_grad_()
    x = (fl.arange(20.0) * 0.71).cos().reshape(5, 4)
    y = (fl.arange(15.0) * 0.13).sin().reshape(5, 3)
    return w, lambda: ((x @ w.t()).tanh() - y).pow(2).sum()


def run(name, options, steps=6, reload_at=None):
    w, loss = problem()
    optimizer = getattr(optim, name)([w], **options)

    def closure():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    for i in range(steps):
        if i == reload_at:
            state = copy.deepcopy(optimizer.state_dict())
            optimizer = getattr(optim, name)([w], **options)
            optimizer.load_state_dict(state)
        optimizer.step(closure)
    return w, optimizer


CASES = [(name, options, numbers) for name, rows in RECORDED["optim"].items() for options, numbers in rows]


@pytest.mark.parametrize("name,options,numbers", CASES)
def test_update_rules(name, options, numbers):
    w, _ = run(name, options)
    tolerance = 1e-3 if name in ("LBFGS", "Muon") else 2e-5
    assert w.detach().flatten().tolist() == pytest.approx(numbers, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("name,options,numbers", CASES)
def test_state_dict_continues_the_run(name, options, numbers):
    if name == "LBFGS":
        pytest.skip("its state is written at the end of a step only")
    w, _ = run(name, options, reload_at=3)
    same, _ = run(name, options)
    assert fl.equal(w.detach(), same.detach())


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused_and_foreach_agree(name):
    plain, _ = run(name, {})
    for options in ({"foreach": True}, {"fused": True}):
        assert fl.allclose(run(name, options)[0], plain, atol=1e-6)


SEVERAL = [(name, options) for name, options, _ in CASES if name not in ("LBFGS", "Muon", "Adafactor", "SparseAdam")]


def several(name, options, dtype=fl.float32, steps=5):
    """Parameters of several sizes and layouts after some steps."""
    fl.manual_seed(0)
    shapes = (2, 3), (700,), (), (0, 2), (4, 6)
    params = [fl.randn(shape, dtype=dtype) for shape in shapes]
    params[-1] = params[-1].t()[::2]
    for p in params:
        p.requires_grad_()
    optimizer = getattr(optim, name)(params, **options)
    for _ in range(steps):
        for p in params:
            p.grad = fl.randn(p.shape, dtype=dtype)
        optimizer.step()
    return params


def one_by_one(monkeypatch):
    """Takes the kernels over all parameters away: what is left is the operators of each rule."""
    monkeypatch.setattr(optim.optimizer.PerParameter, "_update_together", lambda self, *lists: False)
    monkeypatch.setattr(optim.SGD, "_update_together", lambda self, *lists: False)


@pytest.mark.parametrize("name,options", SEVERAL)
@pytest.mark.parametrize("dtype", [fl.float32, fl.float64])
def test_one_kernel_does_what_the_operators_do(monkeypatch, name, options, dtype):
    together = several(name, options, dtype)
    one_by_one(monkeypatch)
    for a, b in zip(together, several(name, options, dtype)):
        assert a.equal(b)


@pytest.mark.parametrize("dtype", [fl.float16, fl.bfloat16])
def test_halves_are_computed_in_single_precision_when_fused(dtype):
    for a, b in zip(several("AdamW", {"fused": True}, dtype), several("AdamW", {}, dtype)):
        # One operator after the other, a small gradient's square is zero in half precision, and the step endless.
        endless = b.isinf()
        assert a.dtype == dtype and endless.sum() == (3 if dtype == fl.float16 and a.numel() == 700 else 0)
        assert fl.allclose(a[~endless], b[~endless], rtol=0.05, atol=0.05) and a.isfinite().all()


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_scaled_gradients(name):
    def run(scale, found):
        p = fl.ones(3, requires_grad=True)
        optimizer = getattr(optim, name)([p], lr=0.1, fused=True)
        optimizer.grad_scale, optimizer.found_inf = scale, found
        p.grad = fl.tensor([1.0, 2.0, -4.0])
        optimizer.step()
        return p, p.grad, optimizer.state[p].get("step")

    p, grad, _ = run(fl.tensor(2.0), fl.tensor(0.0))
    assert grad.tolist() == [0.5, 1.0, -2.0]
    q, grad, step = run(fl.tensor(2.0), fl.tensor(1.0))
    assert q.tolist() == [1.0] * 3 and grad.tolist() == [1.0, 2.0, -4.0]
    assert p.tolist() != [1.0] * 3 and (name not in ("Adam", "AdamW") or step == 0)


def test_fused_operators_check_their_lists():
    two, adam = [fl.ones(3), fl.ones(3)], dict(lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8)
    steps = [fl.ones(()), fl.ones(())]
    enhance = " to be true, but got false.  (Could this error message be improved?  If so, please report an " \
              "enhancement request to PyTorch.)"

    def call(*lists, amsgrad=False, lr=0.1):
        return fl._fused_adam_(*lists, **{**adam, "lr": lr}, amsgrad=amsgrad, maximize=False)

    assert call(two, two, two, two, [], steps) is None
    assert call(two, two, two, two, [], steps, lr=fl.tensor(0.1)) is None
    meta = [t.to("meta") for t in two]
    assert call(meta, meta, meta, meta, [], steps) is None
    for lists, text in [
        ((two, two[:1], two, two, [], steps), "Expected grads.size() == n_tensors" + enhance),
        ((two, two, two, two, [], steps[:1]), "Expected state_steps.size() == n_tensors" + enhance),
        ((two, two, two, two, two, steps), "Expected max_exp_avg_sqs.empty()" + enhance),
        ((two, [fl.ones(3).double()] * 2, two, two, [], steps), "expected scalar type Float but found Double"),
        ((two, [fl.ones(4)] * 2, two, two, [], steps),
         "_fused_adam_(): expected grads[0] to have its parameter's shape [3], but got [4]"),
    ]:
        with pytest.raises(RuntimeError) as caught:
            call(*lists)
        assert str(caught.value) == text
    whole = [t.long() for t in two]
    with pytest.raises(NotImplementedError) as caught:
        call(whole, whole, whole, whole, [], steps)
    assert str(caught.value) == "\"fused_adam_kernel\" not implemented for 'Long'"


def test_one_parameter_twice_and_shared_memory():
    base = fl.zeros(100_000)
    halves = base[:60_000], base[40_000:]
    fl._fused_sgd_(list(halves), [fl.ones(60_000)] * 2, [], weight_decay=0.0, momentum=0.0, lr=1.0, dampening=0.0,
                   nesterov=False, maximize=False, is_first_step=False)
    assert base.unique(return_counts=True)[1].tolist() == [20_000, 80_000]


def test_operators_on_lists():
    a, b = [fl.tensor([1.0, 2.0]), fl.tensor(3.0)], [fl.tensor([4.0, 6.0]), fl.tensor(8.0)]
    assert [t.tolist() for t in fl._foreach_add(a, b, alpha=2)] == [[9.0, 14.0], 19.0]
    assert [t.tolist() for t in fl._foreach_mul(a, [2.0, 3.0])] == [[2.0, 4.0], 9.0]
    assert [t.tolist() for t in fl._foreach_addcmul(a, a, b, fl.tensor([1.0, 2.0]))] == [[5.0, 14.0], 51.0]
    assert [t.tolist() for t in fl._foreach_pow(2.0, a)] == [[2.0, 4.0], 8.0]
    assert [t.item() for t in fl._foreach_norm(b, 1)] == [10.0, 8.0]
    assert [t.item() for t in fl._foreach_powsum(b, 2)] == [52.0, 64.0]
    assert [t.item() for t in fl._foreach_max(b)] == [6.0, 8.0]
    assert fl._foreach_lerp_(a, b, 0.5) is a and a[0].tolist() == [2.5, 4.0] and a[0]._version == 1
    fl._foreach_copy_(a, b)
    assert a[1] == 8
    x = fl.ones(2, requires_grad=True)
    y = fl._foreach_mul([x], 3.0)[0]
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    for call, text in [
        (lambda: fl._foreach_add(a, a[:1]), "Tensor lists must have the same number of tensors, got 2 and 1"),
        (lambda: fl._foreach_add(a, [1.0]), "Tensor list must have same number of elements as scalar list."),
        (lambda: fl._foreach_abs([]), "Tensor list must have at least one tensor."),
        (lambda: fl._foreach_mul_(a, fl.ones(1)),
         "scalar tensor expected to be 0 dim but it has 1 dimensions and 1 elements."),
        (lambda: fl._foreach_add_([x], 1), "a leaf Variable that requires grad is being used in an in-place operation."),
        (lambda: fl._foreach_max([fl.ones(0)]),
         "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is undefined."),
    ]:
        with pytest.raises(RuntimeError) as caught:
            call()
        assert str(caught.value) == text


@pytest.mark.parametrize("name", list(RECORDED["sched"]))
def test_schedules(name):
    options, rows = RECORDED["sched"][name]
    optimizer = optim.SGD([fl.ones(2, requires_grad=True)], lr=0.1, momentum=0.9)
    schedule = getattr(optim.lr_scheduler, name)(optimizer, **options)
    for lr, momentum in rows:
        assert schedule.get_last_lr()[0] == pytest.approx(lr, rel=1e-12)
        assert optimizer.param_groups[0]["momentum"] == pytest.approx(momentum, rel=1e-12)
        optimizer.step()
        schedule.step()


def sgd(**options):
    return optim.SGD([fl.ones(2, requires_grad=True)], lr=0.1, **options)


def test_sequential_chained_and_plateau():
    s = optim.lr_scheduler
    o = sgd()
    schedule = s.SequentialLR(o, [s.ConstantLR(o, 0.5, 2), s.ExponentialLR(o, 0.9)], [3])
    seen = []
    for _ in range(6):
        seen.append(schedule.get_last_lr()[0])
        o.step()
        schedule.step()
    assert seen == pytest.approx([0.05, 0.05, 0.1, 0.1, 0.09, 0.081])
    o = sgd()
    chained = s.ChainedScheduler([s.StepLR(o, 2), s.ExponentialLR(o, 0.5)])
    for _ in range(2):
        o.step()
        chained.step()
    assert chained.get_last_lr() == pytest.approx([0.0025])
    o = sgd()
    plateau = s.ReduceLROnPlateau(o, patience=1, factor=0.5)
    for metric in (1.0, 1.0, 1.0, 0.5):
        plateau.step(metric)
    assert plateau.get_last_lr() == [0.05]
    state = plateau.state_dict()
    other = s.ReduceLROnPlateau(sgd())
    other.load_state_dict(state)
    assert other.best == 0.5 and other.patience == 1


def test_order_of_steps_is_checked():
    o = sgd()
    schedule = optim.lr_scheduler.StepLR(o, 1)
    with pytest.warns(UserWarning, match="Detected call of `lr_scheduler.step\\(\\)` before"):
        schedule.step()


@pytest.mark.parametrize("make,error,text", [
    (lambda p: optim.SGD([], lr=1), ValueError, "optimizer got an empty parameter list"),
    (lambda p: optim.SGD([1]), TypeError, "optimizer can only optimize Tensors, but one of the params is int"),
    (lambda p: optim.SGD([p * 2]), ValueError, "can't optimize a non-leaf Tensor"),
    (lambda p: optim.SGD([p], lr=-1), ValueError, "Invalid learning rate: -1"),
    (lambda p: optim.SGD([p], nesterov=True), ValueError, "Nesterov momentum requires a momentum and zero dampening"),
    (lambda p: optim.Adam([p], betas=(1.0, 0.9)), ValueError, "Invalid beta parameter at index 0: 1.0"),
    (lambda p: optim.Adam([p], fused=True, foreach=True), RuntimeError,
     "`fused` and `foreach` cannot be `True` together."),
    (lambda p: optim.Muon([fl.ones(3, requires_grad=True)]), ValueError,
     "Muon only supports 2D parameters whereas we found a parameter with size: torch.Size([3])"),
    (lambda p: optim.SGD([{"params": [p]}, {"params": [p]}]), ValueError,
     "some parameters appear in more than one parameter group"),
    (lambda p: optim.SGD([p]).load_state_dict({"state": {}, "param_groups": []}), ValueError,
     "loaded state dict has a different number of parameter groups"),
    (lambda p: optim.lr_scheduler.StepLR(3, 1), TypeError, "int is not an Optimizer"),
    (lambda p: optim.lr_scheduler.OneCycleLR(sgd(momentum=0.9), 0.1), ValueError,
     "You must define either total_steps OR (epochs AND steps_per_epoch)"),
])
def test_errors(make, error, text):
    with pytest.raises(error) as caught:
        make(fl.ones(2, 2, requires_grad=True))
    assert str(caught.value) == text


def test_hooks_groups_and_repr():
    p, q = fl.ones(2, requires_grad=True), fl.ones(2, requires_grad=True)
    o = optim.SGD([("p", p)], lr=0.1)
    o.add_param_group({"params": [("q", q)], "lr": 1.0})
    assert o.state_dict()["param_groups"][1]["param_names"] == ["q"]
    calls = []
    handle = o.register_step_pre_hook(lambda *a: calls.append("pre"))
    o.register_step_post_hook(lambda *a: calls.append("post"))
    o.step()
    handle.remove()
    o.step()
    assert calls == ["pre", "post", "post"]
    assert repr(o).startswith("SGD (\nParameter Group 0\n    dampening: 0\n")


def test_sparse_gradients():
    for name in ("SparseAdam", "Adagrad", "SGD"):
        p = fl.zeros(4, 2, requires_grad=True)
        p.grad = fl.sparse_coo_tensor([[1]], [[1.0, 1.0]], (4, 2), check_invariants=True)
        getattr(optim, name)([p], lr=0.1).step()
        assert p[1].tolist() == pytest.approx([-0.1, -0.1], rel=1e-5)
        assert float(p[[0, 2, 3]].abs().sum()) == 0


def test_averaged_models():
    model = fl.nn.Linear(2, 2)
    averaged = optim.swa_utils.AveragedModel(model)
    ema = optim.swa_utils.AveragedModel(model, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.5))
    for value in (1.0, 2.0, 6.0):
        with fl.no_grad():
            for p in model.parameters():
                p.fill_(value)
        averaged.update_parameters(model)
        ema.update_parameters(model)
    assert averaged.module.weight[0, 0].item() == pytest.approx(3.0)
    assert ema.module.weight[0, 0].item() == pytest.approx(3.75)
    assert int(averaged.n_averaged) == 3


def test_float_step_of_older_state_dicts():
    w, o = run("Adam", {}, steps=1)
    state = copy.deepcopy(o.state_dict())
    state["state"][0]["step"] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        o.load_state_dict(state)
    assert isinstance(o.state[w]["step"], fl.Tensor)


def test_schedules_do_not_keep_themselves_alive():
    import gc
    import weakref

    optimizer = sgd(momentum=0.9)
    gc.collect()
    gc.disable()
    try:
        for name in RECORDED["sched"]:
            options, _ = RECORDED["sched"][name]
            schedule = getattr(optim.lr_scheduler, name)(optimizer, **options)
            alive = weakref.ref(schedule)
            del schedule
            assert alive() is None, name
    finally:
        gc.enable()


def test_schedules_are_imported_when_used():
    import subprocess
    import sys

    code = ("import sys; import flambeau.optim as o; assert 'flambeau.optim.lr_scheduler' not in sys.modules; "
            "assert o.lr_scheduler.StepLR.__module__ == 'flambeau.optim.lr_scheduler'")
    subprocess.run([sys.executable, "-c", code], check=True)
