"""Traced graphs: the code that PyTorch writes for them, editing, running, copying."""
import copy
import operator
import pickle

import flambeau as torch
import flambeau.fx as fx
import pytest
from flambeau import nn
from flambeau.fx.passes.shape_prop import ShapeProp


@fx.wrap
def opaque(x):
    return x if x.sum() > 0 else -x


fx.wrap("len")


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 4)
        self.w = nn.Parameter(torch.ones(4))
        self.register_buffer("scale", torch.full((4,), 2.0))

    def forward(self, x, y=2, *, factor: float = 1.5):
        a = self.lin(x).relu() + self.w
        b, c = torch.split(a, 2, dim=-1)
        d = nn.functional.relu(torch.cat([b, c], dim=1)[:, 1:3, None], inplace=False) * y
        a = 3 - -a
        return {"x": d.sum((0, 1)), "y": (b @ c.T, d.shape[0], a * self.scale)}


CODE = """


def forward(self, x, y = 2, factor : float = 1.5):
    lin = self.lin(x);  x = None
    relu = lin.relu();  lin = None
    w = self.w
    add = relu + w;  relu = w = None
    split = torch.functional.split(add, 2, dim = -1)
    getitem = split[0]
    getitem_1 = split[1];  split = None
    cat = torch.cat([getitem, getitem_1], dim = 1)
    getitem_2 = cat[(slice(None, None, None), slice(1, 3, None), None)];  cat = None
    relu_1 = torch.nn.functional.relu(getitem_2, inplace = False);  getitem_2 = None
    mul = relu_1 * y;  relu_1 = y = None
    neg = -add;  add = None
    sub = 3 - neg;  neg = None
    sum_1 = mul.sum((0, 1))
    getattr_1 = getitem_1.T;  getitem_1 = None
    matmul = getitem @ getattr_1;  getitem = getattr_1 = None
    getattr_2 = mul.shape;  mul = None
    getitem_3 = getattr_2[0];  getattr_2 = None
    scale = self.scale
    mul_1 = sub * scale;  sub = scale = None
    return {'x': sum_1, 'y': (matmul, getitem_3, mul_1)}
    """


def same(a, b):
    return torch.equal(a["x"], b["x"]) and torch.equal(a["y"][0], b["y"][0]) and torch.equal(a["y"][2], b["y"][2])


def test_code_and_copies():
    module = Small()
    x = torch.randn(2, 3)
    traced = fx.symbolic_trace(module)
    assert traced.code == CODE and traced.lin is module.lin
    for other in (traced, copy.deepcopy(traced), pickle.loads(pickle.dumps(traced)), copy.copy(traced)):
        assert other.code == CODE and same(other(x, 3), module(x, 3))
    assert same(fx.Interpreter(traced).run(x, 3), module(x, 3)) and same(fx.Transformer(traced).transform()(x), module(x))


def code(function, **options):
    return [line.strip() for line in fx.symbolic_trace(function, **options).code.split("\n") if line.strip()]


def test_code_of_functions():
    assert code(lambda x: opaque(x) + len(x))[:4] == [
        'torch.fx._symbolic_trace.wrap("test_fx_opaque")', 'torch.fx._symbolic_trace.wrap("len")', "def forward(self, x):",
        "opaque = test_fx_opaque(x)",
    ]  # fmt: skip
    assert code(lambda x, *args, **kw: x + args[0] + kw["z"])[:4] == [
        "def forward(self, x, *args, **kw):", "_args = args", "_kw = kw", "getitem = _args[0];  _args = None"
    ]  # fmt: skip
    assert code(lambda x, y: x + y, concrete_args={"y": 3})[1:3] == [
        "eq = y_1 == 3;  y_1 = None",
        "_assert = torch._assert(eq, 'y has been specialized to have value 3 but got another value');  eq = _assert = None",
    ]
    assert code(lambda x: x.to(torch.float16, device=torch.device("cpu")).clamp(0, float("inf")))[1:3] == [
        "to = x.to(torch.float16, device = device(type='cpu'));  x = None", "clamp = to.clamp(0, inf);  to = None"
    ]  # fmt: skip
    assert code(lambda x: torch.ones(2) + x)[1:3] == [
        "_tensor_constant0 = self._tensor_constant0", "add = _tensor_constant0.add(x);  _tensor_constant0 = x = None"
    ]  # fmt: skip
    assert code(nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU())))[1:4] == [
        "input_1 = input", '_0 = getattr(self, "0")(input_1);  input_1 = None',
        '_1_0 = getattr(getattr(self, "1"), "0")(_0);  _0 = None',
    ]  # fmt: skip


def test_nested_arguments():
    def f(a, b):
        return {"r": a[0] + a[1]["k"] * b}

    traced = fx.symbolic_trace(f, concrete_args={"a": (fx.PH, {"k": fx.PH}), "b": fx.PH})
    assert traced((1, {"k": 2}), 3) == {"r": 7}


def test_graph_as_text_and_by_hand():
    graph = fx.Graph()
    x = graph.placeholder("x")
    relu = graph.call_function(torch.relu, (x,))
    output = graph.output(graph.call_method("neg", (relu,)))
    assert str(graph) == (
        "graph():\n    %x : [num_users=1] = placeholder[target=x]\n"
        "    %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})\n"
        "    %neg : [num_users=1] = call_method[target=neg](args = (%relu,), kwargs = {})\n    return neg"
    )
    with graph.inserting_after(relu):
        doubled = graph.call_function(operator.mul, (relu, 2))
    relu.replace_all_uses_with(doubled, delete_user_cb=lambda user: user is not doubled)
    with graph.inserting_before(output):
        graph.call_function(torch.abs, (x,))
    assert graph.eliminate_dead_code() and [n.name for n in graph.nodes] == ["x", "relu", "mul", "neg", "output"]
    assert fx.GraphModule({}, graph)(torch.tensor([1.0, -1.0])).tolist() == [-2, 0]
    assert list(doubled.users) == [output.prev] and relu < doubled and graph.output_node() is output
    graph.lint()


def test_writes_are_not_dead_code():
    # PyTorch removes the first two, and with them their effect.
    def f(x):
        x.add_(1)
        torch.relu_(x)
        torch._assert(x.shape[0] == 2, "two")
        return x

    traced = fx.symbolic_trace(f)
    assert not traced.graph.eliminate_dead_code() and traced(torch.tensor([-3.0, 1.0])).tolist() == [0, 2]
    with pytest.raises(AssertionError, match="^two$"):
        traced(torch.ones(3))


def test_patterns():
    def f(x, w1, w2):
        return x + torch.cat([w1, w2]).sum() + torch.cat([w1, w2]).sum()

    traced = fx.symbolic_trace(f)
    matches = fx.replace_pattern(traced, lambda a, b: torch.cat([a, b]).sum(), lambda a, b: torch.stack([a, b]).mean())
    assert len(matches) == 2 and matches[0].anchor.name == "sum_1" and "cat" not in traced.code
    assert traced(torch.ones(1), torch.ones(2), 2 * torch.ones(2)).tolist() == [4]
    layers = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))

    class One(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x)

    fx.replace_pattern(layers, fx.symbolic_trace(One(nn.ReLU())), fx.symbolic_trace(One(nn.GELU())))
    assert "self.layer(" in layers.code and isinstance(layers.layer, nn.GELU)


def test_shapes():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 4), nn.ReLU()))
    ShapeProp(traced).propagate(torch.ones(3, 2))
    meta = [n.meta["tensor_meta"] for n in traced.graph.nodes]
    assert [tuple(m.shape) for m in meta] == [(3, 2), (3, 4), (3, 4), (3, 4)] and meta[1].requires_grad
    assert next(iter(traced.graph.find_nodes(op="call_module"))).meta["nn_module_stack"]["0"] == ("0", nn.Linear)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: x if x > 0 else -x, fx.proxy.TraceError, "symbolically traced variables cannot be used as inputs"),
        (lambda x: [i for i in x], fx.proxy.TraceError, "Proxy object cannot be iterated"),
        (lambda x: {x: 3}, RuntimeError, "Keys for dictionaries used as an argument cannot contain a Node. Got key: x"),
        (lambda x: object(), NotImplementedError, "argument of type: <class 'object'>"),
    ],
)
def test_what_cannot_be_traced(function, error, message):
    with pytest.raises(error, match=message):
        fx.symbolic_trace(function)


def test_errors():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch.relu, (x,))
    with pytest.raises(RuntimeError, match="Tried to erase Node x but it still had 1 users in the graph"):
        graph.erase_node(x)
    with pytest.raises(AssertionError, match="op 'bad' is not in _legal_ops"):
        graph.create_node("bad", "x")
    with pytest.raises(ValueError, match="target x has type str but a Callable is expected"):
        graph.call_function("x")
    graph.call_function(torch.relu, (fx.Graph().placeholder("q"),))
    with pytest.raises(RuntimeError, match="Argument 'q' of Node 'relu_1' does not belong to this Graph"):
        graph.lint()
    with pytest.raises(TypeError, match="'immutable_dict' object does not support mutation"):
        x.kwargs.update(a=3)
    traced = fx.symbolic_trace(lambda x: x.foo)
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x, but one was not passed in!"):
        fx.Interpreter(traced).run()
    with pytest.raises(AttributeError, match=r"no attribute 'foo'\n\nWhile executing %getattr_1"):
        fx.Interpreter(traced).run(3)
    with pytest.raises(NotImplementedError, match="wrap must be called at the top level of a module"):
        fx.wrap("len")


def test_tracer_of_older_form():
    class Older(fx.Tracer):
        def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None):
            return super().create_proxy(kind, target, args, kwargs, name, type_expr)

    assert [n.op for n in Older().trace(Small()).nodes][4:6] == ["call_method", "get_attr"]


def test_functions_are_named_as_pytorchs_code_names_them():
    from flambeau.fx.node import _get_qualified_name as name

    functional = torch.nn.functional
    assert name(functional.linear) == "torch._C._nn.linear" and name(functional.relu) == "torch.nn.functional.relu"
    assert name(torch.linalg.norm) == "torch._C._linalg.linalg_norm" and name(torch.relu) == "torch.relu"
    traced = torch.fx.symbolic_trace(lambda x, w: functional.gelu(functional.linear(x, w)) + torch.special.erf(x))
    assert "torch._C._nn.gelu(" in traced.code and "torch._C._nn.linear(" in traced.code
    x = torch.randn(2, 2)
    assert torch.equal(traced(x, x), functional.gelu(functional.linear(x, x)) + torch.special.erf(x))


def test_arguments_of_functions_as_declared():
    traced = fx.symbolic_trace(lambda x: nn.functional.dropout(nn.functional.layer_norm(x, (2,), None, None, 1e-3), 0.1, False))
    calls = [(node.args[1:], node.kwargs) for node in traced.graph.nodes if node.op == "call_function"]
    assert calls == [(((2,),), {"weight": None, "bias": None, "eps": 1e-3}),
                     ((), {"p": 0.1, "training": False, "inplace": False})]  # fmt: skip
    x = torch.tensor([[1.0, 3.0]])
    assert torch.equal(traced(x), nn.functional.layer_norm(x, (2,), eps=1e-3))
