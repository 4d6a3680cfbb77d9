"""Module, parameters, containers: registration, state, hooks, errors."""
import copy
import pickle
from collections import OrderedDict

import pytest

import flambeau as fl
import flambeau.nn as nn


def test_parameter_and_buffer_kinds():
    p = nn.Parameter(fl.zeros(2))
    assert isinstance(p, nn.Parameter) and p.requires_grad and p.is_leaf
    assert type(p + 1) is fl.Tensor
    assert repr(p) == "Parameter containing:\ntensor([0., 0.], requires_grad=True)"
    b = nn.Buffer(fl.ones(2))
    assert isinstance(b, nn.Buffer) and not isinstance(b, nn.Parameter)
    assert not isinstance(fl.zeros(2), nn.Buffer)
    with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype can require gradients"):
        nn.Parameter(fl.zeros(2, dtype=fl.int32))
    q = copy.deepcopy(p)
    assert type(q) is nn.Parameter and q is not p and q.requires_grad
    q = pickle.loads(pickle.dumps(nn.Parameter(fl.ones(2), requires_grad=False)))
    assert isinstance(q, nn.Parameter) and not q.requires_grad


def test_uninitialized():
    u = nn.UninitializedParameter()
    assert repr(u) == "<UninitializedParameter>" and u.dtype == fl.float32
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter or buffer"):
        u.shape
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter in"):
        u + 1
    u.materialize((2, 3))
    assert type(u) is nn.Parameter and u.shape == (2, 3)


@pytest.mark.parametrize(
    "name, value, error, message",
    [
        ("weight", fl.zeros(2), TypeError, "cannot assign 'torch.FloatTensor' as parameter 'weight' (torch.nn.Parameter or None expected)"),
        ("weight", 3, TypeError, "cannot assign 'int' as parameter 'weight' (torch.nn.Parameter or None expected)"),
        ("buf", 3, TypeError, "cannot assign 'int' as buffer 'buf' (torch.nn.Buffer, torch.Tensor or None expected)"),
        ("sub", 3, TypeError, "cannot assign 'int' as child module 'sub' (torch.nn.Module or None expected)"),
    ],
)
def test_setattr_errors(name, value, error, message):
    m = nn.Linear(2, 3)
    m.register_buffer("buf", fl.zeros(2))
    m.sub = nn.ReLU()
    with pytest.raises(error) as caught:
        setattr(m, name, value)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda m: m.register_buffer(3, None), TypeError, "buffer name should be a string. Got int"),
        (lambda m: m.register_buffer("a.b", None), KeyError, "buffer name can't contain \".\""),
        (lambda m: m.register_buffer("weight", None), KeyError, "attribute 'weight' already exists"),
        (lambda m: m.register_buffer("b", 3), TypeError, "cannot assign 'int' object to buffer 'b' (torch Tensor or None required)"),
        (lambda m: m.register_parameter("", None), KeyError, 'parameter name can\'t be empty string ""'),
        (lambda m: m.register_parameter("p", fl.zeros(1)), TypeError, "cannot assign 'torch.FloatTensor' object to parameter 'p' (torch.nn.Parameter or None required)"),
        (lambda m: m.add_module("m", 3), TypeError, "int is not a Module subclass"),
        (lambda m: m.add_module("a.b", m), KeyError, "module name can't contain \".\", got: a.b"),
        (lambda m: m.foo, AttributeError, "'Linear' object has no attribute 'foo'"),
        (lambda m: m.get_submodule("weight"), AttributeError, "`weight` is not an nn.Module"),
        (lambda m: m.get_buffer("weight"), AttributeError, "`weight` is not a buffer"),
        (lambda m: m.to(fl.int32), TypeError, "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch.int32"),
        (lambda m: m.train(3), ValueError, "training mode is expected to be boolean"),
        (lambda m: nn.Module()(1), NotImplementedError, 'Module [Module] is missing the required "forward" function'),
        (lambda m: m.load_state_dict([1]), TypeError, "Expected state_dict to be dict-like, got <class 'list'>."),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error) as caught:
        call(nn.Linear(2, 3))
    assert (caught.value.args[0] if error is KeyError else str(caught.value)) == message


def test_before_init():
    class Early(nn.Module):
        def __init__(self, value):
            self.p = value

    for value, message in (
        (nn.Parameter(fl.zeros(1)), "cannot assign parameters before Module.__init__() call"),
        (nn.ReLU(), "cannot assign module before Module.__init__() call"),
        (nn.Buffer(fl.zeros(1)), "cannot assign buffer before Module.__init__() call"),
    ):
        with pytest.raises(AttributeError) as caught:
            Early(value)
        assert str(caught.value) == message


def test_state_dict_round_trip_and_mismatch():
    m = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    state = m.state_dict()
    assert list(state) == ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked"]
    assert state._metadata == OrderedDict([("", {"version": 1}), ("0", {"version": 1}), ("1", {"version": 2})])
    assert repr(m.load_state_dict(state)) == "<All keys matched successfully>"
    bad = OrderedDict(state)
    bad["0.weight"], bad["foo"], bad["0.bar.x"], bad["0.bias"] = fl.zeros(3, 4), fl.zeros(2), fl.zeros(2), 3
    del bad["1.running_mean"]
    with pytest.raises(RuntimeError) as caught:
        m.load_state_dict(bad)
    assert str(caught.value) == (
        'Error(s) in loading state_dict for Sequential:\n\tMissing key(s) in state_dict: "1.running_mean". \n\tUnexpected key(s) '
        'in state_dict: "foo", "0.bar.x". \n\tsize mismatch for 0.weight: copying a param with shape torch.Size([3, 4]) from '
        "checkpoint, the shape in current model is torch.Size([3, 2]).\n\tWhile copying the parameter named \"0.bias\", expected "
        "torch.Tensor or Tensor-like object from checkpoint but received <class 'int'>"
    )
    partial = OrderedDict((k, v) for k, v in state.items() if not k.startswith("0"))
    partial["z"] = 1
    keys = m.load_state_dict(partial, strict=False)
    assert keys.missing_keys == ["0.weight", "0.bias"] and keys.unexpected_keys == ["z"]


def test_assign_extra_state_and_hooks():
    class Extra(nn.Module):
        def __init__(self):
            super().__init__()
            self.note = "a"

        def get_extra_state(self):
            return self.note

        def set_extra_state(self, state):
            self.note = state

    m = nn.Sequential(Extra(), nn.Linear(1, 1))
    seen = []
    m.register_state_dict_pre_hook(lambda *a: seen.append(("save", a[1])))
    m.register_load_state_dict_pre_hook(lambda module, state, prefix, *rest: seen.append(("load", prefix)))
    m.register_load_state_dict_post_hook(lambda module, keys: seen.append(tuple(keys)))
    state = m.state_dict(prefix="p.")
    assert list(state) == ["p.0._extra_state", "p.1.weight", "p.1.bias"]
    state = m.state_dict()
    state["0._extra_state"] = "b"
    m.load_state_dict(state, assign=True)
    assert m[0].note == "b"
    assert seen == [("save", "p."), ("save", ""), ("load", ""), ([], [])]
    m.register_state_dict_post_hook(lambda *a: 3)
    with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
        m.state_dict()


def test_non_persistent_buffer_and_double():
    m = nn.Linear(2, 2)
    m.register_buffer("np", fl.zeros(2), persistent=False)
    weight = m.weight
    m.weight.grad = fl.ones(2, 2)
    assert list(m.state_dict()) == ["weight", "bias"] and [n for n, _ in m.named_buffers()] == ["np"]
    assert m.double().weight is weight and weight.dtype == weight.grad.dtype == m.np.dtype == fl.float64
    m.zero_grad()
    assert m.weight.grad is None


def test_forward_hooks_order_and_replacement():
    calls = []

    class Double(nn.Module):
        def forward(self, x, y=None):
            return x * 2

    m = Double()
    m.register_forward_pre_hook(lambda m, a: (a[0] + 1,))
    m.register_forward_pre_hook(lambda m, a, k: calls.append(("pre", k)), with_kwargs=True)
    m.register_forward_hook(lambda m, a, o: calls.append("first"))
    m.register_forward_hook(lambda m, a, o: calls.append("zeroth"), prepend=True)
    handle = m.register_forward_hook(lambda m, a, k, o: o + 1, with_kwargs=True)
    assert m(fl.zeros(1), y=3).item() == 3.0
    assert calls == [("pre", {"y": 3}), "zeroth", "first"]
    handle.remove()
    assert m(fl.zeros(1)).item() == 2.0
    m.register_forward_pre_hook(lambda m, a, k: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="forward pre-hook must return None or a tuple of"):
        m(fl.zeros(1))


def test_full_backward_hooks():
    m = nn.Linear(2, 2)
    seen = []
    m.register_full_backward_pre_hook(lambda m, go: seen.append("pre"))
    m.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,))
    x = fl.ones(1, 2, requires_grad=True)
    m(x).sum().backward()
    assert fl.equal(x.grad, 2 * m.weight.detach().sum(0, keepdim=True)) and seen == ["pre"]
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full backward hooks"):
        m.register_backward_hook(lambda *a: None)


def test_global_hooks():
    seen = []
    with nn.modules.module.register_module_forward_hook(lambda m, a, o: seen.append(type(m).__name__)):
        nn.Sequential(nn.ReLU())(fl.zeros(1))
    nn.ReLU()(fl.zeros(1))
    assert seen == ["ReLU", "Sequential"]
    with nn.modules.module.register_module_parameter_registration_hook(lambda m, n, p: seen.append(n)):
        nn.Linear(1, 1)
    assert seen[2:] == ["weight", "bias"]


def test_containers():
    s = nn.Sequential(nn.ReLU(), nn.Tanh())
    assert repr(s[0:1]) == "Sequential(\n  (0): ReLU()\n)" and len(s * 2) == 4
    with pytest.raises(IndexError, match="index 5 is out of range"):
        s[5]
    assert repr(nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1), nn.ReLU()])) == (
        "ModuleList(\n  (0-1): 2 x Linear(in_features=1, out_features=1, bias=True)\n  (2): ReLU()\n)"
    )
    d = nn.ModuleDict({"a": nn.ReLU()})
    with pytest.raises(KeyError):
        d["b"]
    with pytest.raises(TypeError, match="ModuleDict update sequence element #0 should be Iterable; isint"):
        d.update([3])
    pl = nn.ParameterList([fl.zeros(2), 3])
    assert repr(pl) == (
        "ParameterList(\n    (0): Parameter containing: [torch.float32 of size 2]\n    (1): Object of type: int\n)"
    )
    pd = nn.ParameterDict({"b": fl.zeros(2), "a": 3})
    assert list(pd) == ["a", "b"] and isinstance(pd["b"], nn.Parameter) and list(pd.state_dict()) == ["b"]


def test_lazy_becomes_and_loads():
    m = nn.LazyLinear(3)
    done = nn.Linear(2, 3)
    assert repr(m) == "LazyLinear(in_features=0, out_features=3, bias=True)"
    m.load_state_dict(done.state_dict())
    assert m(fl.ones(1, 2)).shape == (1, 3) and type(m) is nn.Linear and m.in_features == 2


def test_old_batch_norm_files():
    state = OrderedDict(nn.BatchNorm1d(3).state_dict())
    del state["num_batches_tracked"]
    nn.BatchNorm1d(3).load_state_dict(state)
    state._metadata = OrderedDict([("", {"version": 2})])
    with pytest.raises(RuntimeError, match='Missing key\\(s\\) in state_dict: "num_batches_tracked"'):
        nn.BatchNorm1d(3).load_state_dict(state)


def test_walks_each_once():
    shared = nn.Linear(1, 1)
    m = nn.Sequential(shared, nn.Sequential(shared), nn.ReLU())
    assert [n for n, _ in m.named_parameters()] == ["0.weight", "0.bias"]
    assert [n for n, _ in m.named_modules()] == ["", "0", "1", "2"]
    assert len(list(m.named_parameters(remove_duplicate=False))) == 4
    copied = pickle.loads(pickle.dumps(m))
    assert copied[0] is copied[1][0]


def test_hooks_that_remove_themselves():
    layer, calls, handles = nn.Linear(1, 1), [], []
    for place in (layer.register_forward_pre_hook, layer.register_forward_hook):
        handles.append(place(lambda *_: (handles.pop().remove(), calls.append("once"))[0]))
        place(lambda *_: calls.append("always"))
        layer(fl.ones(1))
        layer(fl.ones(1))
    assert calls.count("once") == 2 and calls.count("always") == 6


@pytest.mark.parametrize("swap, overwrite, same", [(False, False, True), (False, True, False), (True, False, True)])
def test_ways_of_conversion(swap, overwrite, same):
    future = fl.__future__
    future.set_swap_module_params_on_conversion(swap)
    future.set_overwrite_module_params_on_conversion(overwrite)
    try:
        m = nn.Linear(2, 2)
        weight = m.weight
        m(fl.ones(1, 2)).sum().backward()
        grad = weight.grad
        m.double()
        assert (m.weight is weight) is same and (m.weight.grad is grad) is same
        assert m.weight.dtype is m.weight.grad.dtype is fl.float64 and m.weight.requires_grad
        assert weight.dtype is (fl.float64 if same else fl.float32)
        m.load_state_dict(nn.Linear(2, 2).state_dict())
        assert (m.weight.grad is None) is swap and m.weight.dtype is fl.float64
    finally:
        future.set_swap_module_params_on_conversion(False)
        future.set_overwrite_module_params_on_conversion(False)


def test_methods_of_ones_own_for_walking_and_saving():
    class Renamed(nn.Linear):
        def named_parameters(self, *args, **kwargs):
            yield "only", self.weight

    class Hidden(nn.Sequential):
        def named_modules(self, memo=None, prefix="", remove_duplicate=True):
            yield prefix, self

    class Silent(nn.Linear):
        def state_dict(self, *args, destination, prefix, keep_vars):
            destination[prefix + "nothing"] = None

    renamed, shared = Renamed(1, 1), nn.Linear(1, 1)
    assert list(renamed.parameters()) == [renamed.weight]
    m = nn.Sequential(shared, Hidden(nn.ReLU(), shared), nn.Sequential(shared, Silent(1, 1)))
    assert [name for name, _ in m.named_modules()] == ["", "0", "1", "2", "2.1"]
    assert [name for name, _ in m.named_modules(remove_duplicate=False)] == ["", "0", "1", "2", "2.0", "2.1"]
    assert [name for name, _ in m.named_parameters("m")] == ["m.0.weight", "m.0.bias", "m.2.1.weight", "m.2.1.bias"]
    assert [id(p) for p in m.parameters()] == [id(p) for _, p in m.named_parameters()]
    assert list(m.parameters(recurse=False)) == [] and list(shared.buffers()) == []
    assert list(m.state_dict()) == [f"{at}.{name}" for at in ("0", "1.1", "2.0") for name in ("weight", "bias")] + ["2.1.nothing"]
    shared.named_modules = lambda *_, **__: iter([("own", shared)])
    assert [name for name, _ in m.named_modules()] == ["", "own", "1", "2", "own", "2.1"]


def test_layers_read_what_their_attributes_are():
    class Doubled(nn.Linear):
        @property
        def weight(self):
            return self._parameters["weight"] * 2

    layer, x = nn.Linear(2, 2), fl.ones(1, 2)
    own, bias = layer.weight.detach(), layer.bias.detach()
    layer.__class__ = Doubled  # a class's attribute comes before the parameter
    assert fl.equal(layer(x), nn.functional.linear(x, own * 2, bias))
    layer.__class__ = nn.Linear
    layer.__dict__["bias"] = fl.zeros(2)  # and so does the module's own
    assert fl.equal(layer(x), nn.functional.linear(x, own))
    del layer.__dict__["bias"]
    layer._parameters["weight"] = nn.Parameter(own + 1)
    assert fl.equal(layer(x), nn.functional.linear(x, own + 1, bias))
    del layer.weight
    layer.weight = own * 3  # no parameter any more
    assert fl.equal(layer(x), nn.functional.linear(x, own * 3, bias))
    norm = nn.BatchNorm1d(2).eval()
    norm._buffers["running_mean"] = fl.ones(2)
    assert fl.equal(norm(x), fl.zeros(1, 2))
    del norm.bias
    with pytest.raises(AttributeError, match="bias"):
        norm(x)
