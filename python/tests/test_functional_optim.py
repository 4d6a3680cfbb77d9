"""Optimisers as functions of lists, which are the same code as the classes, and what other optimisers import."""
import inspect
import itertools

import pytest

import flambeau as fl
from flambeau import optim
from flambeau.optim import _adafactor, _functional, _muon, optimizer

STEPS = 4


def numbers(seed, dtype=fl.float32):
    """A matrix, a vector and a number."""
    generator = fl.Generator().manual_seed(seed)
    return [fl.randn(shape, generator=generator, dtype=dtype) for shape in ((3, 4), (5,), ())]


# For each: the class and its options, the function's lists by the state's names, and the function's options.
ADAM = ("exp_avgs", "exp_avg"), ("exp_avg_sqs", "exp_avg_sq")
CASES = {
    "adam": (optim.Adam, dict(lr=0.1, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.1, amsgrad=True, maximize=True),
             (*ADAM, ("max_exp_avg_sqs", "max_exp_avg_sq")),
             dict(lr=0.1, beta1=0.8, beta2=0.9, eps=1e-6, weight_decay=0.1, amsgrad=True, maximize=True)),
    "adamw": (optim.AdamW, dict(lr=0.1, weight_decay=0.1), (*ADAM, ("max_exp_avg_sqs", None)),
              dict(lr=0.1, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.1, amsgrad=False, maximize=False)),
    "sgd": (optim.SGD, dict(lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.1),
            (("momentum_buffer_list", "momentum_buffer"),),
            dict(lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.1, nesterov=False, maximize=False)),
    "adagrad": (optim.Adagrad, dict(lr=0.1, lr_decay=0.1, weight_decay=0.1), (("state_sums", "sum"),),
                dict(lr=0.1, lr_decay=0.1, weight_decay=0.1, eps=1e-10, maximize=False)),
    "rmsprop": (optim.RMSprop, dict(lr=0.1, momentum=0.5, centered=True, weight_decay=0.1),
                (("square_avgs", "square_avg"), ("grad_avgs", "grad_avg"), ("momentum_buffer_list", "momentum_buffer")),
                dict(lr=0.1, alpha=0.99, eps=1e-8, weight_decay=0.1, momentum=0.5, centered=True)),
    "adadelta": (optim.Adadelta, dict(lr=0.5, weight_decay=0.1), (("square_avgs", "square_avg"), ("acc_deltas", "acc_delta")),
                 dict(lr=0.5, rho=0.9, eps=1e-6, weight_decay=0.1, maximize=False)),
    "adamax": (optim.Adamax, dict(lr=0.1, weight_decay=0.1), (("exp_avgs", "exp_avg"), ("exp_infs", "exp_inf")),
               dict(lr=0.1, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.1)),
    "nadam": (optim.NAdam, dict(lr=0.1, weight_decay=0.1), (*ADAM, ("mu_products", "mu_product")),
              dict(lr=0.1, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.1, momentum_decay=4e-3)),
    "radam": (optim.RAdam, dict(lr=0.1, weight_decay=0.1), ADAM,
              dict(lr=0.1, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.1)),
    "asgd": (optim.ASGD, dict(lr=0.1, lambd=0.1, t0=1, weight_decay=0.1), (("axs", "ax"), ("mus", "mu"), ("etas", "eta")),
             dict(lr=0.1, lambd=0.1, t0=1, alpha=0.75, weight_decay=0.1)),
    "rprop": (optim.Rprop, dict(lr=0.1), (("prevs", "prev"), ("step_sizes", "step_size")),
              dict(etaminus=0.5, etaplus=1.2, step_size_min=1e-6, step_size_max=50)),
    "adafactor": (optim.Adafactor, dict(lr=0.1, weight_decay=0.1),
                  (("row_vars", "row_var"), ("col_vars", "col_var"), ("variances", "variance")),
                  dict(lr=0.1, beta2_decay=-0.8, weight_decay=0.1, eps1=None, eps2=1e-3, d=1.0, maximize=False)),
}
SKEWED = dict.fromkeys(("mus", "mu_products"), 1.0) | dict.fromkeys(("etas", "step_sizes"), 0.1)


def function(name):
    return getattr(_functional, name, None) or getattr(_adafactor, name)


def lists_of(name, params):
    """What the function takes beside parameters and gradients, as the class makes it at first."""
    lists = {}
    for argument, state in CASES[name][2]:
        if state is None:
            lists[argument] = []
        elif argument in ("mus", "etas", "mu_products"):
            lists[argument] = [fl.tensor(SKEWED[argument]) for _ in params]
        elif name == "adafactor":
            shapes = {"row_var": (3, 1), "col_var": (1, 4)}
            wanted = [(p.dim() > 1) == (state in shapes) for p in params]
            lists[argument] = [fl.zeros(shapes.get(state, p.shape)) if there else None for p, there in zip(params, wanted)]
        elif name == "sgd":
            lists[argument] = [None for _ in params]
        else:
            lists[argument] = [fl.full_like(p, SKEWED.get(argument, 0.0)) for p in params]
    if name != "sgd":
        lists["state_steps"] = [fl.tensor(0.0) for _ in params]
    return lists


def updated(name, dtype=fl.float32, **options):
    """Parameters and lists after some steps of the function."""
    params = numbers(0, dtype)
    lists = lists_of(name, params)
    for step in range(STEPS):
        with fl.no_grad():
            gradients = "d_p_list" if name == "sgd" else "grads"
            function(name)(params=params, **{gradients: numbers(1 + step, dtype)}, **lists, **CASES[name][3], **options)
    return params, lists


@pytest.mark.parametrize("name", CASES)
def test_functions_do_what_the_classes_do(name):
    cls, options, states, _ = CASES[name]
    params, lists = updated(name)
    same = [p.requires_grad_() for p in numbers(0)]
    optimizer_ = cls(same, **options)
    for step in range(STEPS):
        for p, grad in zip(same, numbers(1 + step)):
            p.grad = grad
        optimizer_.step()
    for i, p in enumerate(same):
        assert fl.equal(p.detach(), params[i])
        assert not fl.equal(p.detach(), numbers(0)[i])
        for argument, state in states:
            kept = optimizer_.state[p].get(state)
            assert kept is None if state is None or lists[argument][i] is None else fl.equal(kept, lists[argument][i])
        if name != "sgd":
            assert lists["state_steps"][i] == STEPS


@pytest.mark.parametrize("name", CASES)
def test_recorded_gradients_do_not_change_the_numbers(name):
    expected, _ = updated(name)
    params = numbers(0)
    lists = lists_of(name, params)
    for step in range(STEPS):  # one by one, as gradients could be recorded
        gradients = "d_p_list" if name == "sgd" else "grads"
        function(name)(params=params, **{gradients: numbers(1 + step)}, **lists, **CASES[name][3])
    for p, q in zip(params, expected):
        assert fl.allclose(p, q, rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad|don't support automatic differentiation"):
        function(name)(params=[p.requires_grad_() for p in params], **{gradients: numbers(1)}, **lists, **CASES[name][3])


@pytest.mark.parametrize("name", ["adamw", "sgd", "adagrad"])  # (Adam's case has amsgrad: the next test.)
def test_fused_and_scaled(name):
    expected, _ = updated(name)
    params, _ = updated(name, fused=True)
    for p, q in zip(params, expected):
        assert fl.allclose(p, q, rtol=1e-5, atol=1e-6)
    halved, _ = updated(name, fused=True, grad_scale=fl.tensor(1.0), found_inf=fl.tensor(0.0))
    assert all(fl.equal(p, q) for p, q in zip(params, halved))
    stopped, lists = updated(name, fused=True, found_inf=fl.tensor(1.0))
    assert all(fl.equal(p, q) for p, q in zip(stopped, numbers(0)))
    with pytest.raises(AssertionError, match="Expected grad_scale and found_inf to be None"):
        updated(name, found_inf=fl.tensor(1.0))


def test_gradients_through_a_step():
    rate = fl.tensor(0.1, requires_grad=True)
    start, grad = fl.tensor([1.0, 2.0]), fl.tensor([3.0, -4.0])
    moved = start.clone()
    lists = [[fl.zeros(2)], [fl.zeros(2)], [], [fl.tensor(0.0)]]
    _functional.adam([moved], [grad], *lists, differentiable=True, amsgrad=False, beta1=0.9, beta2=0.999, lr=rate,
                     weight_decay=0.0, eps=1e-8, maximize=False)
    moved.sum().backward()
    assert rate.grad.item() == pytest.approx(0.0, abs=1e-6)  # -sign(3) - sign(-4)
    assert fl.allclose(moved.detach(), fl.tensor([0.9, 2.1]))


OPTIONS = [name for name in CASES if "capturable" in inspect.signature(function(name)).parameters]


@pytest.mark.parametrize("name,foreach", list(itertools.product(OPTIONS, (False, True))))
def test_what_cannot_go_together(name, foreach):
    with pytest.raises(AssertionError, match=r"If capturable=True, params.* must be on supported devices: \['cuda', "):
        updated(name, capturable=True, foreach=foreach)
    with pytest.raises(AssertionError, match="_foreach ops don't support autograd"):
        updated(name, differentiable=True, foreach=True)


def test_wrong_lists():
    options = dict(CASES["adamw"][3])
    lists = lists_of("adamw", numbers(0))
    with pytest.raises(RuntimeError, match="API has changed, `state_steps` argument must contain a list of singleton"):
        _functional.adamw(numbers(0), numbers(1), **{**lists, "state_steps": [1, 2, 3]}, **options)
    params = numbers(0)
    with pytest.raises(IndexError, match="list index out of range"):
        _functional.adamw(params, numbers(1)[:2], **lists, **options)
    assert all(fl.equal(p, q) for p, q in zip(params, numbers(0)))  # nothing was written
    with pytest.raises(IndexError, match="list index out of range"):
        _functional.adamw(params, numbers(1), **lists, **{**options, "amsgrad": True})
    with pytest.raises(ValueError, match=r"zip\(\) argument 2 is shorter than argument 1"):
        _functional.adagrad(params, numbers(1)[:2], **lists_of("adagrad", params), **CASES["adagrad"][3])
    with pytest.raises(RuntimeError, match="lr as a Tensor is not supported for capturable=False and foreach=True"):
        _functional.adamw(params, numbers(1), **lists, **{**options, "lr": fl.tensor(0.1)}, foreach=True)
    with pytest.raises(ValueError, match="beta1 as a Tensor is not supported for capturable=False and foreach=True"):
        _functional.adamw(params, numbers(1), **lists, **{**options, "beta1": fl.tensor(0.1)}, foreach=True)
    with pytest.raises(RuntimeError, match="`fused` does not support sparse grad or complex param"):
        _functional.adagrad(params, numbers(1), **lists_of("adagrad", params), **CASES["adagrad"][3], fused=True, has_complex=True)
    with pytest.raises(RuntimeError, match="Adam with fused=True does not support differentiable=True"):
        _functional.adamw(params, numbers(1), **lists, **options, fused=True, differentiable=True)
    with pytest.raises(AssertionError, match="Grad scaling should occur outside of optimizer.step"):
        updated("adafactor", found_inf=fl.tensor(0.0))
    _functional.adamw([], [], [], [], [], [], **options)
    with pytest.raises(RuntimeError, match="Foreach is not supported for Muon yet"):
        _muon.muon([], [], [], foreach=True, lr=0.1, weight_decay=0.1, momentum=0.9, nesterov=True, eps=1e-7,
                   ns_coefficients=(1.0, 1.0, 1.0), ns_steps=1, adjust_lr_fn=None, has_complex=False)


def test_sparse_adam_counts_outside():
    grad = fl.sparse_coo_tensor([[1]], fl.tensor([2.0]), (3,))
    weight = fl.tensor([1.0, 1.0, 1.0])
    steps = [1]
    _functional.sparse_adam([weight], [grad], [fl.zeros(3)], [fl.zeros(3)], steps, eps=1e-8, beta1=0.9, beta2=0.999, lr=0.1,
                            maximize=False)
    assert steps == [1] and fl.allclose(weight, fl.tensor([1.0, 0.9, 1.0]))
    own = optim.SparseAdam([fl.nn.Parameter(fl.ones(3))], lr=0.1)
    own.param_groups[0]["params"][0].grad = grad
    own.step()
    assert fl.allclose(own.param_groups[0]["params"][0].detach(), weight)


def test_groups_are_collected_as_subclasses_of_the_optimizers_expect():
    weight, unused = fl.nn.Parameter(fl.ones(2)), fl.nn.Parameter(fl.ones(2))
    weight.grad = fl.ones(2)
    for cls, count, flags in ((optim.Adam, 4, False), (optim.SGD, 1, False), (optim.Adagrad, 2, (False, False)),
                              (optim.RMSprop, 4, False), (optim.ASGD, 4, False), (optim.Adafactor, 4, False)):
        made = cls([weight, unused])
        params, grads, lists = [], [], [[] for _ in range(count)]
        assert made._init_group(made.param_groups[0], params, grads, *lists) == flags
        assert params == [weight] and params[0] is weight and grads[0] is weight.grad
        assert all(len(values) <= 1 for values in lists)
        if cls is optim.Adam:
            assert [len(values) for values in lists] == [1, 1, 0, 1]
        if cls is optim.Adafactor:
            assert lists[0] == [None] and lists[2][0].shape == (2,)


def test_an_optimizer_written_as_pytorchs_are():
    class Signs(optimizer.Optimizer):
        """Moves by the sign of the gradient."""

        def __init__(self, params: optimizer.ParamsT, lr=0.1, foreach=None):
            super().__init__(params, dict(lr=lr, differentiable=False, foreach=foreach))

        @optimizer._use_grad_for_differentiable
        def step(self, closure=None):
            self._cuda_graph_capture_health_check()
            for group in self.param_groups:
                params = [p for p in group["params"] if p.grad is not None]
                grads = [p.grad for p in params]
                groups = optimizer.Optimizer._group_tensors_by_device_and_dtype([params, grads])
                for (device, dtype), ((ps, gs), _) in groups.items():
                    assert str(device) == "cpu" and dtype in (fl.float32, fl.float64)
                    optimizer._view_as_real(ps, gs)
                    fl._foreach_add_(ps, fl._foreach_sign(gs), alpha=-optimizer._get_value(group["lr"]))

        step.__doc__ = "One step." + optimizer._maximize_doc + optimizer._params_doc + optimizer._foreach_doc

    weights = [fl.nn.Parameter(fl.ones(2)), fl.nn.Parameter(fl.ones(3, dtype=fl.float64))]
    (weights[0].sum() - weights[1].sum()).backward()
    Signs(weights, lr=fl.tensor(0.5)).step()
    assert weights[0].tolist() == [0.5, 0.5] and weights[1].tolist() == [1.5, 1.5, 1.5]


def test_small_helpers():
    assert optimizer._to_scalar(fl.tensor([2.0])).shape == () and optimizer._to_scalar(2.0) == 2.0
    assert optimizer._stack_if_compiling([1, 2]) == [1, 2]
    assert optimizer._get_scalar_dtype() == fl.float32 and optimizer._get_value(fl.tensor(3.0)) == 3.0
    assert optimizer._default_to_fused_or_foreach([fl.ones(1)], False, True) == (True, False)
    assert "xla" not in optimizer._get_capturable_supported_devices(supports_xla=False)
    assert optimizer._disable_dynamo_if_unsupported(single_tensor_fn=None)(len) is len
    plain, complex_ = fl.ones(2), fl.ones(2, dtype=fl.complex64)
    params, averages = [plain, complex_], [fl.zeros(2), fl.zeros(2, dtype=fl.complex64)]
    optimizer._view_as_real(params, averages)
    assert params[0] is plain and params[1].shape == (2, 2) and averages[1].shape == (2, 2)
    with pytest.raises(RuntimeError, match="requires all the params to be floating point Tensors of supported devices"):
        optimizer._device_dtype_check_for_fused(fl.ones(1, dtype=fl.int32))


def test_groups_by_device_and_dtype_hold_what_belongs_together():
    group = optimizer._group_tensors_by_device_and_dtype
    one, two = fl.ones(1), fl.ones(1, dtype=fl.float64)
    lists = group([[one, two], [None, fl.tensor(1.0)], []], with_indices=True)
    assert lists[(one.device, fl.float64)][0][1] == [fl.tensor(1.0)] and lists[(one.device, fl.float64)][1] == [1]
    with pytest.raises(RuntimeError, match="the 1-th Tensor is not"):
        group([[one, None]])
    with pytest.raises(RuntimeError, match="same device and the same dtype except `step`"):
        group([[one], [fl.ones(1, dtype=fl.float16)]])
    with pytest.raises(RuntimeError):
        group([[one, two], [one]])
