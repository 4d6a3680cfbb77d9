"""Function transforms: derivatives against formulas, vmap against a loop."""
import pytest

import flambeau as fl
from flambeau.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

fl.manual_seed(0)
W, V = fl.randn(3, 5), fl.randn(3)
X = fl.randn(4, 3)

OPERATORS = {
    "elementwise": lambda a: (a.sin() + 1) * V - 2 / (a * a + 1),
    "number meets vector": lambda a: a.sum() * V.double(),
    "reductions": lambda a: fl.stack([a.sum(), a.mean(), a.max(), a.prod(), a.std(), a.logsumexp(0)]),
    "max with index": lambda a: a.max(0).values,
    "softmax": lambda a: a.softmax(-1),
    "matmul": lambda a: a @ W,
    "dot": lambda a: a @ V,
    "outer": lambda a: fl.outer(a, V),
    "einsum": lambda a: fl.einsum("i,ij->j", a, W),
    "indexing": lambda a: fl.cat([a[1:], a[None][0], a[fl.tensor([2, 0])]]),
    "shapes": lambda a: a.reshape(3, 1).expand(3, 2).t().flatten().unsqueeze(0),
    "in place": lambda a: a.clone().add_(1).mul_(a),
    "assignment": lambda a: _assign(a),
    "new_zeros": lambda a: a.new_zeros(2, 3) + a,
    "where": lambda a: fl.where(a > 0, a, V),
    "sorting": lambda a: a.sort().values + a.topk(3).values,
    "chunks": lambda a: a.chunk(3)[1],
    "no rule": lambda a: fl.roll(a, 1) + fl.linalg.cross(a, V),
    "linalg": lambda a: fl.linalg.inv(fl.outer(a, a) + fl.eye(3)),
    "metadata": lambda a: a * a.shape[0] + a.dim() + len(a),
    "constant": lambda a: fl.ones(2),
}


def _assign(a):
    b = a.clone()
    b[0] = a[1] * 2
    return b


@pytest.mark.parametrize("name", list(OPERATORS))
def test_vmap_is_a_loop(name):
    f = OPERATORS[name]
    want = fl.stack([f(x) for x in X])
    assert fl.allclose(vmap(f)(X), want, atol=1e-6)
    assert fl.allclose(vmap(f, in_dims=1, out_dims=0)(X.t()), want, atol=1e-6)
    assert fl.allclose(vmap(vmap(f))(fl.stack([X, X])), fl.stack([want, want]), atol=1e-6)
    assert fl.allclose(vmap(f, chunk_size=3)(X), want, atol=1e-6)


@pytest.mark.parametrize("name", [n for n in OPERATORS if n != "constant"])
def test_vmap_of_derivatives(name):
    f = OPERATORS[name]

    def total(a):
        return f(a * 1.5).sum()

    gradients = fl.stack([grad(total)(x) for x in X])
    assert fl.allclose(vmap(grad(total))(X), gradients, atol=1e-5)
    assert fl.allclose(grad(lambda b: vmap(total)(b).sum())(X), gradients, atol=1e-5)
    jacobians = fl.stack([jacrev(f)(x) for x in X])
    assert fl.allclose(vmap(jacrev(f))(X), jacobians, atol=1e-5)
    assert fl.allclose(jacfwd(f)(X[0]).to(jacobians.dtype), jacobians[0], atol=1e-5)


def test_nested_derivatives():
    assert float(grad(grad(lambda a: a**3))(fl.tensor(2.0))) == 12
    # each transform sees only its own variable
    assert float(grad(lambda a: a * grad(lambda b: a + b)(fl.tensor(1.0)))(fl.tensor(2.0))) == 1
    h = hessian(lambda a: (a**3).sum())(V)
    assert fl.allclose(h, fl.diag(6 * V))
    assert fl.allclose(jacrev(jacrev(lambda a: (a**3).sum()))(V), h)


def test_vjp_jvp_linearize():
    out, pull = vjp(fl.sin, V)
    assert fl.allclose(pull(V)[0], V.cos() * V) and not out.requires_grad
    assert fl.allclose(jvp(fl.sin, (V,), (V,))[1], V.cos() * V)
    assert fl.allclose(linearize(fl.sin, V)[1](V), V.cos() * V)
    assert fl.allclose(vmap(pull)(X)[0], V.cos() * X)


def test_grad_and_value_with_aux_and_trees():
    gradient, (value, aux) = grad_and_value(lambda p: ((p["a"] * p["b"]).sum(), p["a"]), has_aux=True)({"a": V, "b": V * 2})
    assert fl.allclose(gradient["a"], V * 2) and fl.allclose(value, (2 * V * V).sum()) and fl.equal(aux, V)


def test_per_sample_gradients():
    y = fl.randn(4)
    got = vmap(grad(lambda w, a, b: ((a @ w).sum() - b) ** 2), (None, 0, 0))(W, X, y)
    assert got.shape == (4, 3, 5)
    assert fl.allclose(got[2], grad(lambda w: ((X[2] @ w).sum() - y[2]) ** 2)(W), atol=1e-4)


def test_graph_to_outer_parameters():
    p = fl.randn(3, requires_grad=True)
    g = grad(lambda a: (a * p).sin().sum())(V)
    assert g.requires_grad
    assert not grad(lambda a: (a * V).sin().sum())(V).requires_grad
    (second,) = fl.autograd.grad(g.sum(), p)
    assert fl.allclose(second, (p * V).cos() - p * V * (p * V).sin(), atol=1e-5)


def test_randomness():
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda a: a + fl.randn(3))(X)
    different = vmap(lambda a: fl.randn(3), randomness="different")(X)
    same = vmap(lambda a: a * 0 + fl.randn(3), randomness="same")(X)
    assert not fl.equal(different[0], different[1]) and fl.equal(same[0], same[1])


def test_errors():
    with pytest.raises(ValueError, match="got no inputs"):
        vmap(fl.sin)()
    with pytest.raises(ValueError, match="same size in the mapped dimension"):
        vmap(fl.add)(X, fl.ones(3))
    with pytest.raises(RuntimeError, match="data-dependent control flow"):
        vmap(lambda a: a if a.sum() > 0 else -a)(X)
    with pytest.raises(RuntimeError, match="Expected f.*to return a scalar Tensor"):
        grad(lambda a: a)(V)
    assert not fl.autograd.function._vmap_levels


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8])
def test_associative_scan(size):
    from flambeau._higher_order_ops.associative_scan import associative_scan

    x = fl.randn(2, size, 3, dtype=fl.float64)
    assert fl.allclose(associative_scan(fl.add, x, 1), x.cumsum(1))
    assert fl.allclose(associative_scan(fl.mul, x, 1, reverse=True), x.flip(1).cumprod(1).flip(1))
    # a linear recurrence: y[i] = a[i] y[i-1] + b[i]
    a, b = fl.rand(size), fl.rand(size)
    _, y = associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, b), 0)
    assert abs(y[-1].item() - _recurrence(a.tolist(), b.tolist())) < 1e-5


def _recurrence(a, b):
    y = 0
    for i in range(len(a)):
        y = a[i] * y + b[i]
    return y


# What a sample may be asked for, in every spelling; samples that are numbers have a dimension only in name.
OF_NUMBERS = [
    "t.softmax(0)", "t.log_softmax(-1)", "t.cumsum(0)", "t.cummax(0)", "t.sort(0)", "t.argsort(0)", "t.topk(1, 0)",
    "t.kthvalue(1)", "t.max(0, True)", "t.sum(-1, keepdim=True)", "t.logsumexp((0,), True)", "t.all(dim=())",
    "t.count_nonzero(dim=())", "t.amax((), True)", "t.transpose(0, 0)", "t.movedim(0, 0)", "t.flip(0)", "t.permute(())",
    "t.expand(())", "t.broadcast_to(())", "t.max(fl.tensor(1.0))", "t.std(0, False, True)",
]  # fmt: skip
OF_MATRICES = [
    "t.flip(0, 1)", "t.flip((0, 1))", "fl.flip(t, dims=[0])", "t.std(False)", "t.var(True)", "t.var(unbiased=False)",
    "t.sum(axis=0)", "t.sum(axis=(0, 1), keepdims=True)", "t.softmax(axis=0)", "t.mean(())", "t.sum(None, True)",
    "t.amax((), True)", "t.prod(dtype=fl.float64)", "t.max(M)", "fl.max(t, other=M)", "t.any(0, True)",
    "fl.cat([t, t], axis=1)", "t.unfold(dimension=0, size=2, step=1)", "t.swapaxes(axis0=0, axis1=1)",
    "t.argmax(None, True)", "fl.cat([t, fl.zeros(0)], dim=1)", "fl.linalg.vector_norm(t, dim=0)", "t.permute(dims=(1, 0))", "t.expand(size=(2, 2, 3))",
]  # fmt: skip
M = fl.tensor([[0.1, -2.0, 0.3], [5.0, 0.2, -0.6]])


def _leaves(result):
    return [result] if isinstance(result, fl.Tensor) else list(result)


@pytest.mark.parametrize("text", OF_NUMBERS)
def test_vmap_over_numbers(text):
    batch = fl.tensor([0.5, -1.0, 2.0, 0.0])
    _as_in_a_loop(text, batch)


@pytest.mark.parametrize("text", OF_MATRICES)
def test_vmap_takes_dimensions_in_every_spelling(text):
    batch = fl.arange(24.0).reshape(4, 2, 3).sin()
    _as_in_a_loop(text, batch)
    _as_in_a_loop(text, batch.permute(1, 2, 0).contiguous(), 2)


@pytest.mark.parametrize("text", [
    "fl.where(M > 0, t.sum(), M)", "fl.where(t.sum() > 0, M, t)", "fl.where(M > 0, t.sum().double(), M)",
    "fl.where(t.sum() > 0, M[0], M[:, :1])", "M.masked_fill(M > 0, t.sum())", "t.masked_fill(M > 0, t.sum())",
    "M.to(t.double())", "M.double().type_as(t)", "t.sum().double() * M * (M > 0)",
])  # fmt: skip
def test_vmap_of_numbers_that_meet_masks(text):
    _as_in_a_loop(text, fl.arange(24.0).reshape(4, 2, 3).sin())


def test_vmap_of_memory():
    batch = fl.arange(24.0).reshape(4, 6)
    for given in ({}, {"storage_offset": 1}):
        got = vmap(lambda t: t.as_strided((2, 2), (2, 1), **given))(batch)
        assert got.equal(batch[:, given.get("storage_offset", 0) :][:, [[0, 1], [2, 3]]])
    images = fl.arange(48.0).reshape(2, 1, 2, 3, 4)
    assert vmap(lambda t: t.contiguous(memory_format=fl.channels_last) * 2)(images).equal(images * 2)


@pytest.mark.parametrize("text", [
    "fl.normal(t, t.abs())", "fl.normal(t, 2.0)", "fl.normal(2.7, t.abs())", "fl.normal(mean=2.7, std=t.abs())",
    "fl.bernoulli(t.abs())", "fl.poisson(t.abs())", "fl.binomial((9 * t.abs()).round(), t.abs())",
    "fl.multinomial(t.abs(), 2)", "fl.multinomial(t.abs(), 5, replacement=True)",
])  # fmt: skip
def test_vmap_draws_for_the_whole_batch_at_once(text):
    batch = fl.arange(24.0).reshape(4, 2, 3).sin()
    f = lambda t: eval(text, {"t": t, "fl": fl})  # noqa: E731
    fl.manual_seed(0)
    got = vmap(f, randomness="different")(batch)
    fl.manual_seed(0)
    rows = batch.flatten(0, 1) if "multinomial" in text else batch
    assert got.equal(f(rows).unflatten(0, batch.shape[:2]) if "multinomial" in text else f(rows))


@pytest.mark.parametrize("text", [
    "D.Normal(t, 1.0).log_prob(t)", "D.Categorical(t.abs()).log_prob(fl.tensor(1))", "D.Gamma(t.abs(), 1.0).entropy()",
    "D.MultivariateNormal(t, fl.eye(3)).log_prob(t + 1)", "D.Dirichlet(t.abs()).log_prob(fl.full((3,), 1 / 3))",
])  # fmt: skip
def test_vmap_over_parameters_of_distributions(text):
    import flambeau.distributions as D

    batch = fl.arange(1.0, 13.0).reshape(4, 3).sin()
    f = lambda t: eval(text, {"t": t, "fl": fl, "D": D})  # noqa: E731
    fl.testing.assert_close(vmap(f)(batch), fl.stack([f(t) for t in batch]))
    with pytest.raises(ValueError, match="Expected parameter scale .* to satisfy the constraint"):
        vmap(lambda t: D.Normal(0.0, t).mean)(batch)


def _as_in_a_loop(text, batch, dim=0):
    f = lambda t: eval(text, {"t": t, "fl": fl, "M": M})  # noqa: E731
    got = _leaves(vmap(f, in_dims=dim)(batch))
    want = [fl.stack(column) for column in zip(*(_leaves(f(t)) for t in batch.unbind(dim)))]
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        fl.testing.assert_close(a, b, equal_nan=True)


def test_vmap_over_the_gradients_of_an_outer_graph():
    """How libraries have a Hessian: a product with each row of the identity."""
    x, w = fl.tensor([1.0, 8.0], requires_grad=True), fl.ones(2, requires_grad=True)
    value = 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
    (grad,) = fl.autograd.grad(value, x, create_graph=True)
    rows = vmap(lambda v: fl.autograd.grad(grad, x, v, retain_graph=True)[0])(fl.eye(2))
    assert fl.equal(rows, fl.stack([fl.autograd.grad(grad, x, v, retain_graph=True)[0] for v in fl.eye(2)]))
    assert fl.equal(rows, fl.tensor([[-1998.0, -400.0], [-400.0, 200.0]]))
    unused = vmap(lambda v: fl.autograd.grad(grad, (x, w), v, retain_graph=True, materialize_grads=True))(fl.eye(2))
    assert fl.equal(unused[0], rows) and not unused[1].any()
    nested = vmap(vmap(lambda v: fl.autograd.grad(grad, x, v, retain_graph=True)[0]))(fl.eye(2).expand(3, 2, 2))
    assert fl.equal(nested, rows.expand(3, 2, 2))


def test_vmap_of_functions_that_classes_are_not_asked_about():
    x = fl.arange(6.0).reshape(2, 3)
    for made in (vmap(lambda row: fl.as_tensor(row, dtype=fl.float64))(x), vmap(lambda row: fl.asarray(row, dtype=fl.float64))(x)):
        assert fl.equal(made, x.double())
    assert fl.equal(vmap(lambda row: sum(row))(x), x.sum(1)) and fl.equal(vmap(lambda row: fl.stack([*row]))(x), x)
    assert fl.equal(vmap(lambda row: row.long() & 1)(x), x.long() & 1) and fl.equal(vmap(lambda row: row == 3)(x), x == 3)


def test_values_have_no_history_of_transforms_inside():
    """An inner transform's own inputs are leaves of the graph of an outer one's result."""
    weights, points = fl.tensor([0.5, -1.0]), fl.tensor([0.3, 0.7])

    def loss(w):
        return vmap(lambda x: fl.func.grad(lambda t: (w * t).sin().sum())(x) ** 2)(points).sum()

    grads, value = fl.func.grad_and_value(loss)(weights)
    assert not value.requires_grad and not grads.requires_grad
    _, value = fl.func.grad_and_value(lambda w: fl.func.vjp(lambda t: w * t, weights)[1](fl.ones(2))[0].sum())(weights)
    assert not value.requires_grad
    # What the program differentiates with respect to itself stays connected.
    outside = fl.ones(2, requires_grad=True)
    _, value = fl.func.grad_and_value(lambda w: loss(w) * outside.sum())(weights)
    assert value.requires_grad


@pytest.mark.parametrize(
    "pattern, sizes, same",
    [
        ("a b c -> c b a", {}, lambda x: x.permute(2, 1, 0)),
        ("a b c -> (b a) c", {}, lambda x: x.transpose(0, 1).reshape(6, 4)),
        ("a (b1 b2) c -> b1 a b2 c", {"b1": 3}, lambda x: x.view(2, 3, 1, 4).transpose(0, 1)),
        ("a b (c d) -> a b d c", {"c": 2, "d": 2}, lambda x: x.view(2, 3, 2, 2).transpose(2, 3)),
        ("a ... -> ... a", {}, lambda x: x.permute(1, 2, 0)),
        ("a ... c -> (c ... a)", {}, lambda x: x.permute(2, 1, 0).reshape(24)),
        ("a b c d ... -> a b c d ...", {}, lambda x: None),
        ("a b c -> () a 1 (b c)", {}, lambda x: x.view(1, 2, 1, 12)),
    ],
)
def test_rearrange(pattern, sizes, same):
    x = fl.arange(24.0).view(2, 3, 4)
    if same(x) is None:
        with pytest.raises(ValueError, match=r"Number of dimensions in pattern \(4\) must be at most"):
            fl.func.rearrange(x, pattern, **sizes)
    else:
        assert fl.equal(fl.func.rearrange(x, pattern, **sizes), same(x))
        assert fl.equal(fl.func.rearrange([*x], pattern, **sizes), same(x))


@pytest.mark.parametrize(
    "pattern, sizes, says",
    [
        ("a b -> b a", {}, r"Number of dimensions in pattern \(2\) must be equal to the number of dimensions in the tensor \(3\)"),
        ("a b c -> a b", {}, r"Identifiers only on one side of rearrange expression \(should be on both\): \{'c'\}"),
        ("a a c -> a c", {}, "Indexing expression contains duplicate dimension 'a'"),
        ("a b c a b c", {}, "Pattern must contain a single '->' separator"),
        ("a b (c d) -> a b c d", {}, "cannot infer the sizes of 2 dimensions at once"),
        ("a b (c d) -> a b c d", {"c": 3}, "inferred dimension does not evenly fit into larger dimension: 4 vs"),
        ("a b c -> a b c", {"z": 1}, r"Identifiers not found in rearrange expression: \{'z'\}"),
        ("a (b c -> a b c", {}, "Imbalanced parentheses in expression"),
        ("... a ... -> a ...", {}, "only one ellipsis for tensor"),
        ("(...) c -> c (...)", {}, "Ellipsis is parenthesis in the left side is not allowed"),
        ("a b c -> (a ...) b c", {}, "Ellipsis found in right side, but not left side"),
        ("a _ c -> a _ c", {}, "Invalid axis identifier: _"),
        ("a b c -> 2 a b c", {}, "rearrange only supports unnamed axes of size 1"),
        ("1 b c -> b c", {}, "inferred dimension does not evenly fit"),
    ],
)
def test_patterns_that_do_not_fit(pattern, sizes, says):
    with pytest.raises(ValueError, match=says):
        fl.func.rearrange(fl.zeros(2, 3, 4), pattern, **sizes)
