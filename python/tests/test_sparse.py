"""Sparse layouts: coordinates and compressed rows. The numbers were recorded with PyTorch 2.13."""
import copy
import io
import pickle

import flambeau as fl
import pytest

DENSE = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def coo(coalesced=False, **kwargs):
    made = fl.sparse_coo_tensor([[1, 0, 1], [0, 2, 0]], [3.0, 4.0, 5.0], (2, 3), **kwargs)
    return made.coalesce() if coalesced else made


def csr():
    return coo().to_sparse_csr()


def parts(t):
    """Whether it is coalesced, its coordinates and its values."""
    return t.is_coalesced(), t._indices().tolist(), t._values().tolist()


def test_made_and_taken_apart():
    s = coo()
    assert (s.layout, s.is_sparse, s.is_sparse_csr) == (fl.sparse_coo, True, False)
    assert (s._nnz(), s.sparse_dim(), s.dense_dim(), s.numel(), s.shape) == (3, 2, 0, 6, (2, 3))
    assert parts(s) == (False, [[1, 0, 1], [0, 2, 0]], [3.0, 4.0, 5.0])
    assert parts(s.coalesce()) == (True, [[0, 1], [2, 0]], [4.0, 8.0])
    assert s.to_dense().tolist() == [[0, 0, 4], [8, 0, 0]]
    assert fl.sparse_coo_tensor([[1, 0, 1], [0, 2, 0]], [3.0, 4.0, 5.0]).shape == (2, 3)
    empty = fl.sparse_coo_tensor((2, 3))
    assert parts(empty) == (True, [[], []], []) and empty.to_dense().tolist() == [[0] * 3] * 2
    hybrid = fl.sparse_coo_tensor([[0, 2]], [[1.0, 2.0], [3.0, 4.0]], (3, 2))
    assert (hybrid.sparse_dim(), hybrid.dense_dim()) == (1, 1) and hybrid.to_dense().tolist() == [[1, 2], [0, 0], [3, 4]]
    assert fl.zeros(2, 3, layout=fl.sparse_coo)._nnz() == 0
    d = fl.tensor([[0.0, 2.0], [0.0, 0.0], [1.0, 3.0]])
    assert parts(d.to_sparse()) == (True, [[0, 2, 2], [1, 0, 1]], [2.0, 1.0, 3.0])
    assert parts(d.to_sparse(1)) == (True, [[0, 2]], [[0.0, 2.0], [1.0, 3.0]])
    assert fl.tensor(3.0).to_sparse().to_dense().item() == 3
    assert coo().double().dtype == fl.float64 and coo().type() == "torch.sparse.FloatTensor"


@pytest.mark.parametrize("arguments, text", [
    (([[-1]], [1.0], (2,)), "found negative index -1 for dim 0"),
    (([[5]], [1.0], (2,)), "size is inconsistent with indices: for dim 0, size is 2 but found index 5"),
    (([[1, 2]], [1.0], (2,)), "indices and values must have same nnz, but got nnz from indices: 2, nnz from values: 1"),
    (([1], [1.0], (2,)), r"indices must be sparse_dim x nnz, but got: \[1\]"),
    (([[1]], [[1.0, 2.0]], (2, 3)), r"values has incorrect size, expected \[1, 3\], got \[1, 2\]"),
    (([[1]], [1.0], (2, 3, 4)), r"len\(size\) = 3, sparse_dim = 1, dense_dim = 0"),
])  # fmt: skip
def test_wrong_parts(arguments, text):
    with pytest.raises(RuntimeError, match=text):
        fl.sparse_coo_tensor(*arguments, check_invariants=True)


def test_unchecked_indices_never_reach_memory():
    wild = fl.sparse_coo_tensor([[7], [1 << 40]], [1.0], (2, 3), check_invariants=False)
    with pytest.raises((RuntimeError, IndexError)):
        wild.to_dense()
    with pytest.raises((RuntimeError, IndexError)):
        wild.mm(fl.ones(3, 2))
    with fl.sparse.check_sparse_tensor_invariants(), pytest.raises(RuntimeError, match="size is inconsistent"):
        fl.sparse_coo_tensor([[7]], [1.0], (2,))


def test_no_kernel_for_strided_memory_sees_one():
    s = coo()
    for name, call in {
        "view": lambda: s.view(6), "exp": lambda: s.exp(), "eq.Tensor": lambda: s == s, "fill_.Scalar": lambda: s.fill_(1),
        "where.self": lambda: s.where(s, s), "flip": lambda: s.flip(0), "cumsum": lambda: s.cumsum(0),
    }.items():  # fmt: skip
        text = f"Could not run 'aten::{name}' with arguments from the 'SparseCPU' backend"
        with pytest.raises(NotImplementedError, match=text.replace(".", r"\.")):
            call()
    for call in (s.untyped_storage, s.data_ptr, s.numpy, s.tolist, s.contiguous, s.__dlpack__):
        with pytest.raises((RuntimeError, TypeError, BufferError)):
            call()
    with pytest.raises(RuntimeError, match=r"add\(sparse, dense\) is not supported. Use add\(dense, sparse\) instead."):
        s + fl.ones(2, 3)
    with pytest.raises(RuntimeError, match="reshape is not implemented for sparse tensors"):
        s.reshape(6)
    with pytest.raises(RuntimeError, match=r"copy_\(\) between dense and sparse Tensors is not implemented!"):
        fl.ones(2, 3).copy_(s)
    assert s.stride() == (0, 0) and not s.is_contiguous()


def test_text():
    assert repr(coo()) == (
        "tensor(indices=tensor([[1, 0, 1],\n                       [0, 2, 0]]),\n       values=tensor([3., 4., 5.]),\n"
        "       size=(2, 3), nnz=3, layout=torch.sparse_coo)"
    )
    assert repr(fl.sparse_coo_tensor((2, 3))) == (
        "tensor(indices=tensor([], size=(2, 0)),\n       values=tensor([], size=(0,)),\n"
        "       size=(2, 3), nnz=0, layout=torch.sparse_coo)"
    )
    assert repr(csr()) == (
        "tensor(crow_indices=tensor([0, 1, 2]),\n       col_indices=tensor([2, 0]),\n"
        "       values=tensor([4., 8.]), size=(2, 3), nnz=2, layout=torch.sparse_csr)"
    )


def test_elementwise():
    s, c, d = coo(), coo(True), fl.tensor(DENSE)
    assert parts(-s) == (False, [[1, 0, 1], [0, 2, 0]], [-3.0, -4.0, -5.0])
    assert parts(s.abs()) == (True, [[0, 1], [2, 0]], [4.0, 8.0])
    assert parts(s * 2) == (False, [[1, 0, 1], [0, 2, 0]], [6.0, 8.0, 10.0])
    assert parts(c / 2) == (True, [[0, 1], [2, 0]], [2.0, 4.0])
    assert parts(s.pow(2)) == (True, [[0, 1], [2, 0]], [16.0, 64.0])
    assert parts(s + s) == (False, [[1, 0, 1], [0, 2, 0]], [6.0, 8.0, 10.0])
    assert parts(c + s) == (False, [[0, 1, 0, 1], [2, 0, 2, 0]], [4.0, 11.0, 4.0, 5.0])
    assert (c + s).to_dense().tolist() == [[0, 0, 8], [16, 0, 0]]
    assert parts(c + c) == (True, [[0, 1], [2, 0]], [8.0, 16.0])
    assert (c - s).to_dense().tolist() == [[0] * 3] * 2
    assert (d + s).tolist() == [[1, 2, 7], [12, 5, 6]] and (d - s).tolist() == [[1, 2, -1], [-4, 5, 6]]
    assert parts(s * d) == (False, [[1, 0, 1], [0, 2, 0]], [12.0, 12.0, 20.0])
    assert parts(d * c) == (True, [[0, 1], [2, 0]], [12.0, 32.0])
    assert parts(c * fl.tensor([1.0, 2.0, 3.0])) == (True, [[0, 1], [2, 0]], [12.0, 8.0])
    assert parts(s * s) == (False, [[1, 0, 1], [0, 2, 0]], [24.0, 16.0, 40.0])
    assert parts(c * c) == (True, [[0, 1], [2, 0]], [16.0, 64.0])
    assert s.any().item() and s.norm().item() == pytest.approx(8.9442720)


def test_in_place():
    s = coo()
    t = s
    t += coo()
    t *= 2
    assert t is s and s.to_dense().tolist() == [[0, 0, 16], [32, 0, 0]]
    assert s.zero_() is s and parts(s) == (True, [[], []], [])
    assert s.copy_(coo()) is s and s._nnz() == 3
    with pytest.raises(RuntimeError, match="abs_ requires coalesced input"):
        s.abs_()
    d = fl.tensor(DENSE)
    assert d.add_(coo(), alpha=2) is d and d.tolist() == [[1, 2, 11], [20, 5, 6]]
    turned = fl.zeros(3, 2).t()
    assert turned.add_(coo()).tolist() == [[0, 0, 4], [8, 0, 0]]


def test_arrangements():
    s, c = coo(), coo(True)
    assert parts(s.t()) == (False, [[0, 2, 0], [1, 0, 1]], [3.0, 4.0, 5.0])
    assert parts(s.unsqueeze(0)) == (False, [[0, 0, 0], [1, 0, 1], [0, 2, 0]], [3.0, 4.0, 5.0])
    assert parts(s[1]) == (False, [[0, 0]], [3.0, 5.0]) and parts(c.select(1, 0)) == (True, [[1]], [8.0])
    assert s[1, 0].item() == 8
    assert parts(s.index_select(0, fl.tensor([1, 0]))) == (False, [[0, 0, 1], [0, 0, 2]], [3.0, 5.0, 4.0])
    assert parts(s.index_select(1, fl.tensor([0, 0]))) == (False, [[1, 1, 1, 1], [0, 0, 1, 1]], [3.0, 5.0, 3.0, 5.0])
    assert parts(c.narrow_copy(1, 0, 2)) == (True, [[1], [0]], [8.0])
    assert parts(fl.cat([c, c], 1)) == (False, [[0, 1, 0, 1], [2, 0, 5, 3]], [4.0, 8.0, 4.0, 8.0])
    assert fl.stack([s, s]).shape == (2, 2, 3)
    assert s.sum().item() == 12 and fl.sparse.sum(s).item() == 12
    assert parts(s.sum(0)) == (True, [[0, 2]], [8.0, 4.0])
    assert parts(s.sum(0, keepdim=True)) == (False, [[0, 0], [0, 2]], [8.0, 4.0])
    assert fl.sparse.sum(s, [0, 1]).item() == 12 and fl.sparse.sum(s, 0, dtype=fl.float64).dtype == fl.float64
    d = fl.tensor(DENSE)
    assert parts(d.sparse_mask(s)) == (False, [[1, 0, 1], [0, 2, 0]], [4.0, 3.0, 4.0])
    assert parts(s.sparse_mask(fl.eye(2, 3).to_sparse())) == (True, [[0, 1], [0, 1]], [0.0, 0.0])


def test_products():
    s, d = coo(), fl.tensor(DENSE)
    want = [[12.0, 24.0], [8.0, 32.0]]
    for product in (s.mm(d.t()), s @ d.t(), fl.sparse.mm(s, d.t()), csr() @ d.t(), fl.sparse.mm(csr(), d.t())):
        assert product.tolist() == want
    assert (d @ s.t()).tolist() == [[12, 8], [24, 32]] and (s @ fl.ones(3)).tolist() == [4, 8]
    assert parts(fl.sparse.mm(s, s.t())) == (True, [[0, 1], [0, 1]], [16.0, 64.0])
    assert fl.addmm(fl.ones(2, 2), s, d.t()).tolist() == [[13, 25], [9, 33]]
    assert fl.sparse.addmm(fl.ones(2, 2), s, d.t(), beta=0.5, alpha=2).tolist() == [[24.5, 48.5], [16.5, 64.5]]
    with pytest.raises(RuntimeError, match=r"addmm: Argument #3 \(dense\): Expected dim 0 size 3, got 2"):
        s.mm(d)
    assert parts(fl.sparse.softmax(s, 1)) == (True, [[0, 1], [2, 0]], [1.0, 1.0])
    t = fl.sparse_coo_tensor([[0, 0, 1], [0, 2, 1]], [1.0, 2.0, 3.0], (2, 3))
    assert fl.sparse.softmax(t, 1)._values().tolist() == pytest.approx([0.26894143, 0.73105860, 1.0])
    assert fl.sparse.log_softmax(t, 1)._values().tolist() == pytest.approx([-1.3132616, -0.31326166, 0.0])


def test_gradients():
    def leaf():
        return coo().requires_grad_(), fl.tensor(DENSE, requires_grad=True)

    def check(function, sparse, dense=None):
        s, d = leaf()
        result = function(s, d)
        (result.to_dense() if result.is_sparse else result).pow(2).sum().backward()
        g = s.grad
        assert (parts(g)[1:] if g.is_sparse else g.tolist()) == sparse
        assert dense is None or d.grad.tolist() == dense

    place = [[0, 1], [2, 0]]
    from_dense = [[128.0, 0.0, 96.0], [512.0, 0.0, 192.0]]
    check(lambda s, d: s.to_dense(), (place, [8.0, 16.0]))
    check(lambda s, d: s.coalesce().values(), (place, [8.0, 16.0]))
    check(lambda s, d: s * 2, (place, [32.0, 64.0]))
    check(lambda s, d: -s, (place, [8.0, 16.0]))
    check(lambda s, d: s.t(), ([[1, 0], [0, 2]], [16.0, 8.0]))
    check(lambda s, d: fl.sparse.sum(s, 0), (place, [8.0, 16.0]))
    check(lambda s, d: fl.sparse.mm(s, d.t()), (place, [360.0, 272.0]), from_dense)
    check(lambda s, d: s.mm(d.t()), [[216.0, 288.0, 360.0], [272.0, 352.0, 432.0]], from_dense)
    check(lambda s, d: d + s, [[2.0, 4.0, 14.0], [24.0, 10.0, 12.0]], [[2.0, 4.0, 14.0], [24.0, 10.0, 12.0]])
    v = fl.tensor([3.0, 4.0, 5.0], requires_grad=True)
    s = fl.sparse_coo_tensor([[1, 0, 1], [0, 2, 0]], v, (2, 3))
    assert s.grad_fn.name() == "SparseCooTensorWithDimsAndTensorsBackward0"
    s.to_dense().pow(2).sum().backward()
    assert v.grad.tolist() == [16, 8, 16]


def test_sparse_gradients_of_tables():
    table = fl.nn.Embedding(5, 2, sparse=True)
    table(fl.tensor([[1, 2], [1, 0]])).sum().backward()
    assert parts(table.weight.grad) == (False, [[1, 2, 1, 0]], [[1.0, 1.0]] * 4)
    table(fl.tensor([3])).sum().backward()
    assert table.weight.grad._indices().tolist() == [[1, 2, 1, 0, 3]]
    (table.weight * 1).sum().backward()
    assert table.weight.grad.tolist() == [[2, 2], [3, 3], [2, 2], [2, 2], [1, 1]]
    table(fl.tensor([3])).sum().backward()
    assert table.weight.grad[3].tolist() == [3, 3]
    w = fl.ones(3, 2, requires_grad=True)
    fl.gather(w, 0, fl.tensor([[0, 1]]), sparse_grad=True).sum().backward()
    assert parts(w.grad) == (False, [[0, 1], [0, 1]], [1.0, 1.0])


@pytest.mark.parametrize("make", [coo, lambda: coo(True), csr])
def test_copies_and_files(make):
    s = make()
    buffer = io.BytesIO()
    fl.save(s, buffer)
    buffer.seek(0)
    for t in (s.clone(), s.detach(), copy.deepcopy(s), pickle.loads(pickle.dumps(s)), fl.load(buffer)):
        assert t.layout == s.layout and t.to_dense().tolist() == s.to_dense().tolist()
        assert not s.is_sparse or t.is_coalesced() == s.is_coalesced()


def test_compressed_rows():
    c, d = csr(), fl.tensor(DENSE)
    assert (c.layout, c.is_sparse, c.is_sparse_csr, c._nnz()) == (fl.sparse_csr, False, True, 2)
    assert (c.crow_indices().tolist(), c.col_indices().tolist(), c.values().tolist()) == ([0, 1, 2], [2, 0], [4.0, 8.0])
    assert c.to_dense().tolist() == [[0, 0, 4], [8, 0, 0]] and parts(c.to_sparse()) == (True, [[0, 1], [2, 0]], [4.0, 8.0])
    made = fl.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0])
    assert made.shape == (2, 2) and made.to_dense().tolist() == [[1, 0], [0, 2]]
    assert (c * 2).values().tolist() == [8, 16] and (c + c).values().tolist() == [8, 16]
    assert (c * d).values().tolist() == [12, 32] and (c + d).tolist() == [[1, 2, 7], [12, 5, 6]]
    assert c.sum().item() == 12 and c.sin().layout == fl.sparse_csr
    sampled = fl.sparse.sampled_addmm(c, d, d.t() @ fl.ones(2, 3), beta=0.5)
    assert sampled.values().tolist() == [48, 113]
    assert fl.sparse.mm(c, d.t(), "mean").tolist() == [[12, 24], [8, 32]]
    for arguments, text in (
        (([0, 1, 3], [0, 1], [1.0, 2.0], (2, 2)), r"`crow_indices\[..., -1\] == nnz` is not satisfied."),
        (([0, 1, 2], [0, 5], [1.0, 2.0], (2, 2)), "`0 <= col_indices < ncols` is not satisfied."),
        (([1, 1, 2], [0, 1], [1.0, 2.0], (2, 2)), r"`crow_indices\[..., 0\] == 0` is not satisfied."),
        (([0, 1, 2], [0, 1], [1.0, 2.0], (3, 2)), r"number of rows \+ 1 \(=4\), but got 3"),
    ):
        with pytest.raises(RuntimeError, match=text):
            fl.sparse_csr_tensor(*arguments, check_invariants=True)
    with pytest.raises(RuntimeError, match="Sparse CSR tensors do not have strides"):
        c.stride()
    x = csr().requires_grad_()
    w = fl.tensor(DENSE, requires_grad=True)
    fl.sparse.mm(x, w.t()).pow(2).sum().backward()
    assert x.grad.values().tolist() == [360, 272] and w.grad.tolist() == [[128, 0, 96], [512, 0, 192]]


def test_layouts_that_are_names_only():
    assert isinstance(fl.jagged, fl.layout) and repr(fl.sparse_bsc) == "torch.sparse_bsc" and fl.ones(2).layout is not fl.jagged
    with pytest.raises(NotImplementedError, match="Flambeau has no tensors of layout torch.sparse_csc yet"):
        fl.zeros(2, layout=fl.sparse_csc)


def test_a_selection_out_of_range_is_refused_as_for_dense_tensors():
    for x in (fl.ones(2, 3), fl.ones(2, 3).to_sparse()):
        with pytest.raises(IndexError, match=r"select\(\): index 3 out of range for tensor of size \[2, 3\] at dimension 1"):
            x.select(-1, 3)


def test_diagonals():
    values = fl.arange(9).view(3, 3)
    made = fl.sparse.spdiags(values, fl.tensor([0, -1, 2]), (3, 3))
    assert made.to_dense().tolist() == [[0, 0, 8], [3, 1, 0], [0, 4, 2]] and made.coalesce().values().dtype == fl.int64
    rows = fl.sparse.spdiags(values, fl.tensor([0, -1, 2]), (3, 3), layout=fl.sparse_csr)
    assert rows.layout == fl.sparse_csr and fl.equal(rows.to_dense(), made.to_dense())
    assert fl.sparse.spdiags(values[0], fl.tensor(0), (2, 3)).to_dense().tolist() == [[0, 0, 0], [0, 1, 0]]
    assert fl.eye(2).to_sparse_coo()._nnz() == 2
    for offsets, shape, message in (([0, 0, 1], (3, 3), "duplicate values"), ([0, 1], (3, 3), r"diagonals \(3\) does not match"),
                                    ([0, 1, 2], (3, 3, 3), "shape must be 2d"), ([[0, 1, 2]], (3, 3), "scalar or vector")):
        with pytest.raises(RuntimeError, match=message):
            fl.sparse.spdiags(values, fl.tensor(offsets), shape)
    with pytest.raises(RuntimeError, match="are supported, got Strided"):
        fl.sparse.spdiags(values, fl.tensor([0, 1, 2]), (3, 3), layout=fl.strided)
