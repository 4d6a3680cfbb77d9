"""Nested tensors: what PyTorch gives for them, and its errors."""
import copy
import io
import pickle
import subprocess
import sys
import warnings

import pytest

import flambeau as fl
from flambeau import nested, nn
from flambeau.nn import functional as F

A, B = fl.arange(6.0).reshape(2, 3), fl.arange(12.0).reshape(4, 3)


def jagged(*tensors, **options):
    return nested.nested_tensor(list(tensors or (A, B)), layout=fl.jagged, **options)


def holes():
    """Sequences of lengths 1 and 2 in five rows of two."""
    return nested.nested_tensor_from_jagged(fl.arange(12.0).reshape(6, 2), fl.tensor([0, 2, 5]), fl.tensor([1, 2]))


def heads():
    """`(2, 3, j, 4)`: what attention takes."""
    values = fl.randn(6, 3, 4, generator=fl.Generator().manual_seed(0))
    return nested.nested_tensor_from_jagged(values, fl.tensor([0, 2, 6])).transpose(1, 2)


def same(nested_tensor, expected):
    """Whether the sequences are these tensors."""
    return len(nested_tensor) == len(expected) and all(fl.allclose(a, b) for a, b in zip(nested_tensor.unbind(), expected))


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# ---- the jagged layout -----------------------------------------------------------------------------


def test_what_it_is():
    x = jagged()
    j = x.size(1)
    assert repr(x) == f"NestedTensor(size=(2, {j}, 3), offsets=tensor([0, 2, 6]), contiguous=True)"
    assert str(x.shape) == f"torch.Size([2, {j}, 3])" and x.shape == (2, j, 3) and x.stride() == (3 * j, 3, 1)
    assert (x.dim(), x.numel(), len(x), x.dtype, x.layout, x.is_nested) == (3, 18, 2, fl.float32, fl.jagged, True)
    assert x.device == A.device and x.is_floating_point() and not x.requires_grad and x.is_leaf and x.is_contiguous()
    assert fl.equal(x.values(), fl.cat([A, B])) and x.offsets().tolist() == [0, 2, 6] and x.lengths() is None
    assert (x._min_seqlen, x._max_seqlen) == (2, 4)
    assert same(x, [A, B]) and fl.equal(x[1], B) and fl.equal(x[0, 1], A[1]) and [len(s) for s in x] == [2, 4]
    assert isinstance(x, fl.Tensor) and fl.is_tensor(x) and not A.is_nested
    assert isinstance(x, nested._internal.nested_tensor.NestedTensor)


def test_the_ragged_size_is_a_number_known_by_name():
    x, y = jagged(), jagged()
    j, k = x.size(1), y.size(1)
    assert isinstance(j, fl.SymInt) and not isinstance(j, int) and str(j).startswith("j") and repr(2 * j) == f"2*{j}"
    assert j == x.shape[1] == (x + 1).size(1) and j != k and j != 4 and x.shape != y.shape
    assert j >= 2 and j > 1 and 2 * j > j and not j < 2 and hash(j) == hash((x * 2).size(1))
    for compare in (lambda: j < 4, lambda: j >= k, lambda: 4 <= j):
        with pytest.raises(ValueError, match="ge: relation is indeterminate"):
            compare()
    for compute in (lambda: j + 1, lambda: int(j), lambda: [0][j]):
        with pytest.raises(AttributeError, match="'NestedIntNode' object has no attribute"):
            compute()
    from flambeau.fx.experimental.symbolic_shapes import is_nested_int

    assert is_nested_int(j) and not is_nested_int(3)


def test_construction():
    assert jagged(A, A.new_ones(2, 4)).shape[:2] == (2, 2)  # the last dimension is ragged
    assert jagged(A, A).size(1) != 2
    assert same(nested.nested_tensor([[1, 2], [3]], layout=fl.jagged), [fl.tensor([1, 2]), fl.tensor([3])])
    assert jagged(dtype=fl.float64).dtype == fl.float64
    assert same(nested.as_nested_tensor(fl.ones(2, 3, 4), layout=fl.jagged), [fl.ones(3, 4)] * 2)
    x = jagged()
    assert nested.as_nested_tensor(x, layout=fl.jagged) is x
    offsets = fl.tensor([0, 2, 6])
    one, two = (nested.nested_tensor_from_jagged(fl.ones(6, n), offsets) for n in (3, 5))
    assert one.size(1) == two.size(1)
    assert nested.nested_tensor_from_jagged(fl.ones(6, 3), lengths=fl.tensor([2, 4])).offsets().tolist() == [0, 2, 6]
    assert nested.nested_tensor_from_jagged(fl.ones(6, 3), fl.tensor([0, 2, 3]), jagged_dim=2).size(1) == 6
    x = nested.nested_tensor_from_jagged(fl.ones(6, 3), offsets, min_seqlen=1, max_seqlen=5)
    assert (x._min_seqlen, x._max_seqlen) == (1, 5)
    memory = fl.zeros(6, 3)
    nested.nested_tensor_from_jagged(memory, offsets)[1].fill_(1.0)
    assert memory.sum() == 12


@pytest.mark.parametrize("make,error,text", [
    (lambda: nested.nested_tensor([], layout=fl.jagged), RuntimeError, "from an empty tensor list"),
    (lambda: jagged(A, fl.ones(3, 4)), RuntimeError, "only allows for a single ragged dimension"),
    (lambda: jagged(A, fl.ones(4)), RuntimeError, "all tensors in list must have the same dim"),
    (lambda: jagged(A, B.double()), RuntimeError, "all tensors in list must have the same dtype"),
    (lambda: jagged(fl.tensor(1.0)), RuntimeError, "from a list of zero-dim tensors"),
    (lambda: nested.nested_tensor([A], layout=fl.sparse_coo), RuntimeError, "unsupported for nested tensors: torch.sparse_coo"),
    (lambda: nested.as_nested_tensor([1.0], layout=fl.jagged), TypeError, "Expected first argument to be a tensor or a list"),
    (lambda: nested.as_nested_tensor(fl.ones(3), layout=fl.jagged), RuntimeError, r"to have dim\(\) > 1"),
    (lambda: nested.as_nested_tensor(jagged()), RuntimeError, "Converting between nested tensor layouts is not supported"),
    (lambda: nested.nested_tensor_from_jagged(A), RuntimeError, "At least one of offsets or lengths is required"),
    (lambda: nested.nested_tensor_from_jagged(A, [0, 2]), TypeError, "must be Tensor, not list"),
    (lambda: nested.nested_tensor_from_jagged(A, fl.tensor([0, 1, 2]), fl.tensor([1])), AssertionError, "batch sizes must match"),
    (lambda: nested.narrow(A, 0, 0, 1, layout=fl.jagged), RuntimeError, "jagged layout only supports dim=1"),
    (lambda: nested.narrow(A, 1, 0, fl.tensor([1, 1])), RuntimeError, "must be integers for the strided layout"),
    (lambda: nested.narrow(A, 1, 0, fl.tensor([1, 1, 1]), layout=fl.jagged), RuntimeError, "broadcast to input.shape"),
    (lambda: nested.masked_select(A, A), RuntimeError, "expected BoolTensor for mask"),
])  # fmt: skip
def test_what_does_not_make_one(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_narrowed_and_selected():
    x = fl.arange(24.0).reshape(2, 4, 3)
    parts = nested.narrow(x, 1, fl.tensor([0, 1]), fl.tensor([2, 3]), layout=fl.jagged)
    assert same(parts, [x[0, :2], x[1, 1:]]) and not parts.is_contiguous()
    assert (parts.values().shape, parts.offsets().tolist(), parts.lengths().tolist()) == ((8, 3), [0, 5, 8], [2, 3])
    parts[1].zero_()
    assert x[1, 1:].sum() == 0
    assert same(nested.narrow(x, 1, 0, 4, layout=fl.jagged), x.unbind()) and nested.narrow(x, 1, 0, 4, layout=fl.jagged).is_contiguous()
    mask = fl.tensor([[False, False, True], [True, False, True], [False, False, False]])
    chosen = nested.masked_select(fl.arange(9.0).reshape(3, 3), mask)
    assert chosen.values().tolist() == [2.0, 3.0, 5.0] and chosen.offsets().tolist() == [0, 1, 3, 3]
    assert nested.masked_select(fl.ones(3, 3), fl.tensor([True, False, True])).offsets().tolist() == [0, 2, 4, 6]


def test_holes():
    x = holes()
    assert same(x, [fl.tensor([[0.0, 1.0]]), fl.tensor([[4.0, 5.0], [6.0, 7.0]])]) and x.numel() == 6
    assert not x.is_contiguous() and same(x + 1, [s + 1 for s in x])
    whole = x.contiguous()
    assert whole.is_contiguous() and whole.offsets().tolist() == [0, 1, 3] and whole.size(1) != x.size(1)
    for use in (lambda: x.sum(1), lambda: x.softmax(1), lambda: x.to_padded_tensor(0.0)):
        with pytest.raises(RuntimeError, match="holes|lengths is not None"):
            use()


POINTWISE = {
    "abs": fl.abs, "neg": lambda x: -x, "sin": fl.sin, "exp": fl.Tensor.exp, "relu": F.relu, "gelu": F.gelu, "silu": F.silu,
    "elu": F.elu, "leaky_relu": F.leaky_relu, "softplus": F.softplus, "sigmoid": fl.sigmoid, "clamp": lambda x: x.clamp(0, 1),
    "power": lambda x: x**2, "halves": lambda x: x / 2, "from one": lambda x: 1 - x, "compared": lambda x: x > 1,
    "not": lambda x: ~(x > 1), "twice": lambda x: x + x, "where": lambda x: fl.where(x > 1, x, 0.0), "round": fl.round,
    "filled": lambda x: x.masked_fill(x > 1, 0.0), "lerp": lambda x: fl.lerp(x, x + 1, 0.25), "hypot": lambda x: fl.hypot(x, x),
    "number": lambda x: x * fl.tensor(2.0), "last": lambda x: x + fl.tensor([1.0, 2.0, 3.0]), "one": lambda x: x + fl.ones(1),
    "right": lambda x: fl.tensor([1.0, 2.0, 3.0]) * x, "maximum": lambda x: fl.maximum(x, 2 - x), "in place": lambda x: x.clone().add_(1),
    "augmented": lambda x: x.clone().__imul__(3), "double": lambda x: x.double(), "to": lambda x: x.to(fl.float64),
    "zeros": fl.zeros_like, "full": lambda x: fl.full_like(x, 2.0), "finite": fl.isfinite, "detached": lambda x: x.detach(),
    "normalized": lambda x: F.layer_norm(x, (3,)), "rms": lambda x: F.rms_norm(x, (3,)), "kept": lambda x: F.dropout(x, 0.0),
    "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: F.log_softmax(x, -1), "along": lambda x: F.softmax(x, -2),
    "linear": lambda x: F.linear(x, fl.ones(5, 3), fl.arange(5.0)), "product": lambda x: x @ fl.ones(3, 2),
    "view": lambda x: x.unsqueeze(-1).squeeze(-1), "flat": lambda x: x.unflatten(-1, (3, 1)).flatten(-2),
    "last item": lambda x: x.select(-1, 1), "ellipsis": lambda x: x[..., 1:], "chunk": lambda x: x.chunk(3, -1)[1],
    "split": lambda x: x.split([1, 2], -1)[1], "cat": lambda x: fl.cat([x, 2 * x], -1), "stack": lambda x: fl.stack([x, x], -1),
    "turned": lambda x: x.transpose(-1, -2), "mT": lambda x: x.mT, "narrow": lambda x: x.narrow(-1, 0, 2),
    "repeat": lambda x: x.repeat_interleave(2, -1), "total": lambda x: x.sum(-1), "kept total": lambda x: x.mean(-1, keepdim=True),
    "largest": lambda x: x.amax(-1), "product of all": lambda x: x.prod(-1), "any": lambda x: (x > 1).any(-1),
    "argmax": lambda x: x.argmax(-1), "max": lambda x: x.max(-1).values, "expanded": lambda x: x.sum(-1, keepdim=True).expand_as(x),
}  # fmt: skip


@pytest.mark.parametrize("name", POINTWISE)
def test_each_sequence_on_its_own(name):
    """What an operator gives for a nested tensor is what it gives for each sequence, also where that is turned."""
    run = POINTWISE[name]
    x = jagged()
    result = run(x)
    assert result.is_nested and result.size(0) == 2 and same(result, [run(A), run(B)])
    assert result.dtype == run(A).dtype and x.size(1) in result.shape


def test_turned():
    q = heads()
    j = q.size(2)
    assert q.shape == (2, 3, j, 4) and q.stride() == (12 * j, 4, 12, 1) and not q.is_contiguous()
    parts = q.unbind()
    assert same(q + q, [p + p for p in parts]) and same(q.sum(1), [p.sum(0) for p in parts])
    assert same(q.softmax(-1), [p.softmax(-1) for p in parts]) and same(q.contiguous(), parts) and q.contiguous().is_contiguous()
    assert fl.allclose(q.sum(2), fl.stack([p.sum(1) for p in parts]))
    assert same(q.transpose(1, 2).flatten(-2), [p.transpose(0, 1).flatten(1) for p in parts])
    assert same(q.transpose(1, 2).reshape(2, -1, 12), [p.transpose(0, 1).reshape(-1, 12) for p in parts])
    assert same(q.permute(0, 2, 3, 1), [p.permute(1, 2, 0) for p in parts]) and q.to_padded_tensor(0.0).shape == (2, 3, 4, 4)
    assert same(q.unsqueeze(1), [p.unsqueeze(0) for p in parts]) and q.unsqueeze(1)._ragged_idx == 3
    assert same(q.select(1, 2), [p[2] for p in parts])


def test_operands_that_are_not_nested():
    x = jagged()
    scale = fl.tensor([10.0, 20.0])
    assert same(x + scale.view(2, 1, 1), [A + 10, B + 20]) and same(x * fl.ones(1, 1, 3), [A, B])
    padded = fl.arange(24.0).reshape(2, 4, 3)
    assert same(x + padded, [A + padded[0, :2], B + padded[1]])
    assert same(x.sum(-1) * scale.view(2, 1), [A.sum(-1) * 10, B.sum(-1) * 20])
    q = heads()
    assert same(q * scale.view(2, 1, 1, 1), [q[0] * 10, q[1] * 20])
    for other, error, text in ((fl.ones(4, 3), RuntimeError, "cannot call binary pointwise function add.Tensor with inputs of "
                                r"shapes torch.Size\(\[2, j\d+, 3\]\) and torch.Size\(\[4, 3\]\)"),
                               (fl.ones(2, 3, 3), RuntimeError, "expanded size of the tensor"),
                               (fl.ones(1, 1, 1, 1), NotImplementedError, "NYI: broadcasting NT with T with larger dim"),
                               (jagged(), RuntimeError, "cannot call binary pointwise function add.Tensor with inputs of shapes")):
        with pytest.raises(error, match=text):
            x + other


def test_reductions():
    x = jagged()
    for name in ("sum", "mean", "amax", "amin", "prod"):
        reduce = getattr(fl, name)
        assert fl.allclose(reduce(x, 1), fl.stack([reduce(A, 0), reduce(B, 0)])), name
        assert reduce(x, 1, keepdim=True).shape == (2, 1, 3)
        assert fl.allclose(reduce(x, (0, 1)) if name != "prod" else fl.ones(1), reduce(x.values(), 0) if name != "prod" else fl.ones(1))
    assert x.sum() == 81 and x.mean() == 4.5 and x.max() == 11 and x.sum((0, 1, 2)) == 81 and x.argmax() == 17
    assert x.sum((0, 1), keepdim=True).shape == (1, 1, 3) and x.sum(1, dtype=fl.float64).dtype == fl.float64
    assert x.max(1).indices.tolist() == [[1, 1, 1], [3, 3, 3]] and (x > 0).all(1).tolist() == [[False, True, True]] * 2
    empty = jagged(fl.ones(0, 3), fl.ones(2, 3))
    assert empty.sum(1).tolist() == [[0.0] * 3, [2.0] * 3] and empty.mean(1)[0].isnan().all()
    for use, error, text in (
            (lambda: x.sum(0), RuntimeError, r"sum\(\): reducing along the batch dimension but not the ragged dimension"),
            (lambda: x.sum((1, 2)), RuntimeError, r"sum\(\): reducing along a ragged and non-batch dimension is not supported"),
            (lambda: x.mean((1, 2)), AssertionError, "Cannot reduce on both ragged and non-batch dimensions"),
            (lambda: x.sum(5), IndexError, r"expected to be in range of \[-3, 2\], but got 5"),
            (lambda: x.softmax(0), RuntimeError, r"softmax\(\): not supported when reducing across the batch dimension"),
            (lambda: x.log_softmax(1), RuntimeError, r"log_softmax\(\): not supported when reducing along the ragged dimension"),
            (lambda: heads().softmax(2), RuntimeError, "for ragged_idx > 1"),
            (lambda: x.cumsum(1), NotImplementedError, r"aten\.cumsum\.default")):
        with pytest.raises(error, match=text):
            use()


def test_padding():
    x = jagged()
    padded = nested.to_padded_tensor(x, -1.0)
    assert padded.shape == (2, 4, 3) and fl.equal(padded[0, :2], A) and (padded[0, 2:] == -1).all() and fl.equal(padded[1], B)
    assert x.to_padded_tensor(0.0, output_size=(2, 6, 3)).shape == (2, 6, 3)
    assert fl.equal(x.to_padded_tensor(0.0, output_size=(2, 3, 3))[1], B[:3])  # cut off
    turned = x.transpose(1, 2).to_padded_tensor(0.0)
    assert fl.equal(turned, x.to_padded_tensor(0.0).transpose(1, 2))
    assert nested.nested_tensor([[1, 2], [3]], layout=fl.jagged).to_padded_tensor(0).tolist() == [[1, 2], [3, 0]]
    with pytest.raises(NotImplementedError, match="Could not run 'aten::to_padded_tensor' with arguments from the 'CPU' backend"):
        nested.to_padded_tensor(A, 0.0)
    inner = nested._internal.nested_tensor.nested_from_padded(padded, x.offsets())
    assert same(inner, [A, B]) and inner.size(1) == x.size(1)


@pytest.mark.parametrize("use,error,text", [
    (lambda x: x.transpose(0, 1), ValueError, "Transpose is not supported on the batch dimension for jagged NT"),
    (lambda x: x.permute(1, 0, 2), ValueError, "Permute is not supported on the batch dimension for jagged NT"),
    (lambda x: x.unsqueeze(0), RuntimeError, r"unsqueeze\(\): not supported for NestedTensor on dim=0"),
    (lambda x: x.squeeze(1), RuntimeError, r"squeeze\(\): not supported for NestedTensor on ragged dim"),
    (lambda x: x.squeeze(), NotImplementedError, r"aten\.squeeze\.default"),
    (lambda x: x.view(-1, 3), RuntimeError, r"view\(\): cannot view shape \(2, j\d+, 3\) as \[-1, 3\]"),
    (lambda x: x.transpose(1, 2).reshape(2, 3, -1), RuntimeError, r"view\(\): does not support ragged_idx != 1"),
    (lambda x: x.flatten(1, 2), RuntimeError, r"flatten\(\): not supported for NestedTensor on ragged dim"),
    (lambda x: x.flatten(0, 1), RuntimeError, r"flatten\(\): not supported for NestedTensor on dim=0"),
    (lambda x: x.unflatten(1, (1, 2)), RuntimeError, r"don't multiply up to the size of dim 1 \(j\d+\)"),
    (lambda x: x.expand(2, 4, 3), RuntimeError, r"expand\(\): cannot expand shape \(2, j\d+, 3\) -> \[2, 4, 3\]"),
    (lambda x: x.chunk(2, 1), RuntimeError, r"chunk\(\): not supported for NestedTensor on ragged dim"),
    (lambda x: x.split(1, 0), RuntimeError, r"split\(\): not supported for NestedTensor on dim=0"),
    (lambda x: fl.cat([x, x], 1), RuntimeError, r"cat\(\): not supported for NestedTensor on ragged dim"),
    (lambda x: fl.cat([x, x]), RuntimeError, r"cat\(\): not supported for NestedTensor on dim=0"),
    (lambda x: fl.stack([x, x]), RuntimeError, r"stack\(\): not supported for NestedTensor on dim=0"),
    (lambda x: fl.stack([x, x], 1), RuntimeError, r"stack\(\): not supported for NestedTensor on ragged dim"),
    (lambda x: x.select(1, 0), RuntimeError, r"select\(\): not supported for NestedTensor on ragged dim"),
    (lambda x: x.narrow(1, 0, 1), RuntimeError, r"narrow\(\): not supported for NestedTensor on ragged dim"),
    (lambda x: x[:, 0], RuntimeError, r"slice\(\): not supported for NestedTensor on dim=0"),
    (lambda x: x[5], IndexError, "tuple index out of range"),
    (lambda x: x[fl.tensor([0])], NotImplementedError, r"aten\.index\.Tensor"),
    (lambda x: x.unbind(1), RuntimeError, r"unbind\(\): only supported for NestedTensor on dim=0"),
    (lambda x: x @ x.transpose(1, 2), RuntimeError, r"matmul\(\): not supported between inputs of shapes \(2, j\d+, 3\) and"),
    (lambda x: x @ fl.ones(3), RuntimeError, r"matmul\(\): not supported between inputs of shapes"),
    (lambda x: F.linear(x.transpose(1, 2), fl.ones(5, 3)), ValueError, "expected input to be a contiguous jagged layout"),
    (lambda x: x.clone().copy_(jagged(B, A)), RuntimeError, r"copy_\(\): expected compatible input and src shapes"),
    (lambda x: fl.where(fl.ones(3) > 0, x, x), ValueError, "expected condition to be a jagged layout NestedTensor"),
    (lambda x: bool(x), RuntimeError, "Boolean value of Tensor with more than one value is ambiguous"),
    (lambda x: x.tolist(), RuntimeError, r"\.tolist\(\) is not supported for tensor subclasses"),
    (lambda x: x.numpy(), RuntimeError, r"\.numpy\(\) is not supported for tensor subclasses"),
    (lambda x: x.sort(-1), NotImplementedError, r"aten\.sort\.default"),
    (lambda x: F.mse_loss(x, x), NotImplementedError, r"aten\.mse_loss\.default"),
])  # fmt: skip
def test_refusals(use, error, text):
    with pytest.raises(error, match=text):
        use(jagged())


def test_parts_of_the_batch():
    first, second = jagged().chunk(2)
    assert same(first, [A]) and same(second, [B]) and second.offsets().tolist() == [0, 4] and first.size(1) != second.size(1)
    x = jagged()
    x[0] = 1.0
    x[1, 2] = fl.tensor([7.0, 8.0, 9.0])
    assert (x[0] == 1).all() and x[1, 2].tolist() == [7.0, 8.0, 9.0]


def test_products():
    x = jagged()
    w = fl.randn(2, 3, 5)
    assert same(x @ w, [A @ w[0], B @ w[1]]) and same(fl.bmm(x, w), [A @ w[0], B @ w[1]])
    inner = x.transpose(1, 2) @ x
    assert not inner.is_nested and fl.allclose(inner, fl.stack([A.T @ A, B.T @ B]))
    outer = x.unsqueeze(-1) @ x.unsqueeze(-2)
    assert same(outer, [A.unsqueeze(-1) @ A.unsqueeze(-2), B.unsqueeze(-1) @ B.unsqueeze(-2)])


def test_attention():
    q = heads()
    for options in ({}, {"is_causal": True}, {"scale": 0.5}):
        result = F.scaled_dot_product_attention(q, q, q, **options)
        assert result.shape == q.shape and same(result, [F.scaled_dot_product_attention(p, p, p, **options) for p in q.unbind()])
        assert same(result.transpose(1, 2).flatten(-2), [p.transpose(0, 1).flatten(1) for p in result.unbind()])
    memory = nested.nested_tensor_from_jagged(fl.randn(5, 3, 4), fl.tensor([0, 1, 5])).transpose(1, 2)
    crossed = F.scaled_dot_product_attention(q, memory, memory)
    assert same(crossed, [F.scaled_dot_product_attention(a, b, b) for a, b in zip(q.unbind(), memory.unbind())])
    for call, text in ((lambda: F.scaled_dot_product_attention(q, q, q, attn_mask=fl.ones(1)), "Masks are not yet supported!"),
                       (lambda: F.scaled_dot_product_attention(q, q, fl.ones(2, 3, 4, 4)), "value.is_nested: False instead"),
                       (lambda: F.scaled_dot_product_attention(q, q.double(), q), "to have the same dtype")):
        with pytest.raises(ValueError, match=text):
            call()


def test_gradients():
    x = jagged(requires_grad=True)
    assert x.is_leaf and x.requires_grad and "requires_grad=True" in repr(x) and x.grad is None
    assert not x.values().is_leaf
    (x * x).sum().backward()
    assert x.grad.shape == x.shape and same(x.grad, [2 * A, 2 * B])
    x.grad = None
    y = x * 3
    assert y.grad_fn is not None and not y.is_leaf and "grad_fn=<" in repr(y)
    seen = []
    y.register_hook(seen.append)
    y.retain_grad()
    y.backward(fl.ones_like(y))
    assert same(x.grad, [A * 0 + 3, B * 0 + 3]) and same(y.grad, [A * 0 + 1, B * 0 + 1]) and seen[0].is_nested
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()
    (grad,) = fl.autograd.grad((x * x).sum(), x)
    assert same(grad, [2 * A, 2 * B])
    assert not x.detach().requires_grad and jagged().requires_grad_().requires_grad


@pytest.mark.parametrize("use", [
    lambda x: x.sum(1), lambda x: x.mean(1), lambda x: x.amax(1), lambda x: x.softmax(1), lambda x: x.softmax(-1),
    lambda x: x.to_padded_tensor(0.0), lambda x: x + fl.ones(2, 4, 3), lambda x: x @ fl.ones(2, 3, 2, dtype=x.dtype), lambda x: x.transpose(1, 2) @ x,
    lambda x: x[1], lambda x: x.contiguous().chunk(2)[1], lambda x: F.layer_norm(x, (3,)), lambda x: fl.cat([x, x], -1),
    lambda x: F.scaled_dot_product_attention(*(x.unsqueeze(2).transpose(1, 2),) * 3), lambda x: x * fl.tensor([2.0, 3.0]).view(2, 1, 1),
])  # fmt: skip
def test_gradients_are_those_of_the_sequences(use):
    """Through a nested tensor made of two, against the sum over each alone in a batch of one."""
    weights = fl.tensor([0.3, -0.7, 1.1])
    one, two = (t.clone().double().requires_grad_() for t in (A, B))
    made = nested.as_nested_tensor([one * weights, two * weights], layout=fl.jagged)
    result = use(made)
    total = (result.values() if result.is_nested else result).sin().sum()
    total.backward()
    step = 1e-6
    for leaf in (one, two):
        with fl.no_grad():
            around = []
            for sign in (1, -1):
                leaf[-1, 1] += sign * step
                moved = use(nested.as_nested_tensor([one * weights, two * weights], layout=fl.jagged))
                around.append((moved.values() if moved.is_nested else moved).sin().sum().item())
                leaf[-1, 1] -= sign * step
        assert leaf.grad[-1, 1].item() == pytest.approx((around[0] - around[1]) / (2 * step), abs=1e-5)


def test_views_share_history_with_their_values():
    values = fl.randn(6, 3, requires_grad=True)
    x = nested.nested_tensor_from_jagged(values, fl.tensor([0, 2, 6]))
    assert x.requires_grad and not x.is_leaf
    x.sum().backward()
    assert (values.grad == 1).all()
    one = A.clone().requires_grad_()
    assert not nested.nested_tensor([one, B], layout=fl.jagged).requires_grad  # copies


def test_layers():
    fl.manual_seed(0)
    words = nested.nested_tensor([fl.tensor([1, 2]), fl.tensor([3, 0, 4])], layout=fl.jagged)
    model = nn.Sequential(nn.Embedding(5, 8), nn.LayerNorm(8), nn.Linear(8, 6), nn.GELU(), nn.Dropout(0.0), nn.Linear(6, 2), nn.Softmax(-1))
    result = model(words)
    assert same(result, [model(s) for s in words.unbind()])
    result.sum(1).square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    parameter = nn.Parameter(jagged())
    assert isinstance(parameter, nn.Parameter) and parameter.requires_grad
    bags = F.embedding_bag(words, model[0].weight)
    assert fl.allclose(bags, fl.stack([model[0](s).mean(0) for s in words.unbind()]))
    assert F.one_hot(words).shape[2] == 5


def test_comparison_and_conversion():
    x = jagged()
    assert fl.equal(x, jagged()) and not fl.equal(x, jagged(B, A)) and not fl.equal(x, x + 1) and fl.allclose(x, x + 1e-9)
    assert x.to(fl.float32) is x and x.half().dtype == fl.float16 and x.contiguous() is x and x.type() == "torch.FloatTensor"
    assert A.type_as(x.double()).dtype == fl.float64
    assert fl.randn_like(x).shape == x.shape and fl.zeros_like(x, dtype=fl.int8).dtype == fl.int8


def test_copies_and_files():
    x = jagged()
    for copied in (copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x))):
        assert fl.equal(copied, x) and copied.size(1) != x.size(1)
    copied = copy.deepcopy(x)
    copied[0] = 9.0
    assert same(x, [A, B])
    for saved in (x, holes(), heads(), nested.nested_tensor([A, B])):
        for weights_only in (True, False):
            file = io.BytesIO()
            fl.save({"x": saved}, file)
            file.seek(0)
            read = fl.load(file, weights_only=weights_only)["x"]
            assert type(read) is type(saved) and same(read, saved.unbind())


def test_imported_when_used():
    code = "import sys, flambeau; assert 'flambeau.nested' not in sys.modules; flambeau.nested.nested_tensor"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_multihead_attention():
    fl.manual_seed(0)
    parts = [fl.randn(2, 4), fl.randn(3, 4)]
    x = nested.nested_tensor(parts)
    attention = nn.MultiheadAttention(4, 2, batch_first=True).eval()
    layers = nn.ModuleList(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, norm_first=first).eval() for first in (False, True))
    with fl.no_grad():
        out, weights = attention(x, x, x)
        assert same(out, [attention(p[None], p[None], p[None])[0][0] for p in parts]) and weights.shape == (2, 3, 3)
        assert fl.allclose(weights.sum(-1), fl.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]))
        assert attention(x, x, x, need_weights=False)[1] is None
        assert attention(x, x, x, average_attn_weights=False)[1].shape == (2, 2, 3, 3)
        for layer in layers:
            assert same(layer(x), [layer(p[None])[0] for p in parts])
        for module, tensors, options, why in (
                (nn.MultiheadAttention(4, 2, batch_first=True), (x, x, x), {}, "training is enabled"),
                (nn.MultiheadAttention(4, 2).eval(), (x, x, x), {}, "batch_first was not True"),
                (nn.MultiheadAttention(4, 1, batch_first=True).eval(), (x, x, x), {}, "self.num_heads is not even"),
                (attention, (x, x * 2, x), {}, "non-self attention was used"), (attention, (jagged(fl.ones(2, 4)),) * 3, {}, "has_torch_function"),
                (attention, (x, x, x), {"attn_mask": fl.ones(3, 3) > 0}, "supplying both src_key_padding_mask and src_mask")):
            with pytest.raises(AssertionError, match="outside of its fast path. The fast path was not hit because .*" + why):
                module(*tensors, **options)
    with pytest.raises(AssertionError, match="grad is enabled and at least one of query"):
        attention(x, x, x)


# ---- the strided layout ----------------------------------------------------------------------------


def test_strided():
    x = nested.nested_tensor([A, B])
    assert repr(x) == """nested_tensor([
  tensor([[0., 1., 2.],
          [3., 4., 5.]]),
  tensor([[ 0.,  1.,  2.],
          [ 3.,  4.,  5.],
          [ 6.,  7.,  8.],
          [ 9., 10., 11.]])
])"""
    assert x.is_nested and x.layout == fl.strided and x.dim() == 3 and x.numel() == 18 and (x.size(0), x.size(2)) == (2, 3)
    assert same(x + x, [A + A, B + B]) and same(x * 2, [2 * A, 2 * B]) and same(F.gelu(x), [F.gelu(A), F.gelu(B)])
    assert same(x.softmax(1), [A.softmax(0), B.softmax(0)]) and same(x.sum(-1, keepdim=True), [A.sum(-1, keepdim=True), B.sum(-1, keepdim=True)])
    assert same(x.transpose(1, 2), [A.T, B.T]) and same(x @ x.transpose(1, 2), [A @ A.T, B @ B.T])
    assert same(x.view(2, -1, 3, 1), [A.view(2, 3, 1), B.view(4, 3, 1)]) and same(fl.cat([x, x]), [A, B, A, B])
    assert same(x.chunk(3, -1)[1], [A[:, 1:2], B[:, 1:2]]) and same(x.select(1, 0), [A[0], B[0]])
    assert same(x.clone().mul_(2), [2 * A, 2 * B]) and x.double().dtype == fl.float64 and x.to(fl.float32) is x
    assert same(nested.nested_tensor([A, fl.ones(3, 5)]), [A, fl.ones(3, 5)])
    padded = x.to_padded_tensor(-1.0, (3, 5, 4))
    assert padded.shape == (3, 5, 4) and fl.equal(padded[0, :2, :3], A) and (padded[2] == -1).all()
    assert repr(nested.nested_tensor([])) == "nested_tensor([\n\n])"
    layer = nn.Linear(3, 2)
    assert same(layer(x), [layer(A), layer(B)])


def test_strided_gradients():
    x = nested.nested_tensor([A, B], requires_grad=True)
    assert x.is_leaf and repr(x).endswith("], requires_grad=True)")
    (x * x).to_padded_tensor(0.0).sum().backward()
    assert same(x.grad, [2 * A, 2 * B])
    one = A.clone().requires_grad_()
    made = nested.as_nested_tensor([one, B])
    assert not made.is_leaf and "grad_fn=<" in repr(made)
    (made * 2).to_padded_tensor(0.0).sum().backward()
    assert (one.grad == 2).all()


@pytest.mark.parametrize("use,error,text", [
    (lambda x: x.shape, RuntimeError, "NestedTensorImpl doesn't support sizes"),
    (lambda x: x.size(1), RuntimeError, "Given dimension 1 is irregular and does not have a size."),
    (lambda x: nested.nested_tensor(A), TypeError, r"Only lists \(List\[Tensor\] and List\[List...\[Scalar\]\]\) are accepted"),
    (lambda x: nested.nested_tensor([A, fl.ones(3)]), RuntimeError, "Found dimension 1 for Tensor at index 1 and dimension 2"),
    (lambda x: x + fl.ones(3), RuntimeError, "Expected both self and other to be nested, but got a nested self and non-nested"),
    (lambda x: x @ fl.ones(3, 2), RuntimeError, "Expected both to be nested, but got a nested self and non-nested other"),
    (lambda x: x.transpose(0, 1), RuntimeError, "Nested tensor dimension 0 cannot be transposed"),
    (lambda x: x.sum(-1), RuntimeError, "NestedTensor always requires keepdim=True for now."),
    (lambda x: x.sum(1), RuntimeError, "only be reduced across the last dimension for now got dimension 1 instead."),
    (lambda x: x.softmax(0), RuntimeError, "Cannot apply softmax across nested dimension 0"),
    (lambda x: x.unbind(1), RuntimeError, "only be unbound along dimension 0 got dimension 1 instead."),
    (lambda x: x.view(-1, 3), RuntimeError, "For now nested view cannot change or infer the implicit batch dimension"),
    (lambda x: x.chunk(2), RuntimeError, "only supported for the last dimension."),
    (lambda x: x.to_padded_tensor(0.0, (2, 3, 4)), RuntimeError, "Truncation is not supported."),
    (lambda x: F.layer_norm(x, (3,)), ValueError, "NestedTensor layer_norm requires weight and bias"),
    (lambda x: x.cumsum(-1), NotImplementedError, "Could not run 'aten::cumsum' with arguments from the 'NestedTensorCPU' backend"),
])  # fmt: skip
def test_strided_refusals(use, error, text):
    with pytest.raises(error, match=text):
        use(nested.nested_tensor([A, B]))
