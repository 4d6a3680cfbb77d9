"""Methods of Tensor that are written in Python: subclasses, copies, pickles, storages."""
import copy
import inspect
import io
import operator
import pickle
import warnings

import flambeau as torch
import pytest


class Tagged(torch.Tensor):
    """A subclass that leaves all to the default `__torch_function__`."""


def test_results_have_the_subclass():
    t = torch.arange(6.0).reshape(2, 3).as_subclass(Tagged)
    for made in (t + 1, 1 + t, t[0], t.sum(), t.T, torch.relu(t), t.max(0).values, t.split(1)[0], torch.stack([t, t])):
        assert type(made) is Tagged
    assert type(t.max(0)).__name__ == "max"
    assert type(t.shape) is torch.Size and type(t.tolist()) is list and t.numel() == 6


def test_a_subclass_sees_every_call():
    seen = []

    class Watched(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    t = torch.ones(2).as_subclass(Watched)
    torch.add(t, 1)
    t.norm()
    torch.functional.meshgrid(t, indexing="ij")
    t.shape
    assert torch.add in seen and torch.Tensor.shape.__get__ in seen
    assert torch.functional.meshgrid in seen


class Asked(torch.Tensor):
    """Its `seen` has the names of the functions that it was asked about."""

    seen = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def _seen(call, tensor):
    tensor = tensor.as_subclass(Asked)
    Asked.seen.clear()
    call(tensor)
    return [*Asked.seen]


def test_a_subclass_is_asked_for_methods_in_python_by_their_names():
    x = torch.ones(2, 2)
    for call, names in (
        (lambda t: t.new_tensor([1.0]), ["new_tensor"]),
        (lambda t: t.new(2), ["new"]),
        (lambda t: t.__reduce_ex__(2), ["__reduce_ex__"]),
        (copy.copy, ["__reduce_ex__"]),
        (lambda t: torch.save(t, io.BytesIO()), ["__reduce_ex__"]),
        (dir, ["__dir__"]),
        (torch.asarray, []),
        (lambda t: torch.asarray(t, dtype=torch.float64), []),
    ):
        assert _seen(call, x) == names
    tagged, file = x.as_subclass(Tagged), io.BytesIO()
    assert type(tagged.new_tensor([1.0])) is type(copy.copy(tagged)) is Tagged
    torch.save([tagged, x.as_subclass(Asked)], file)
    file.seek(0)
    assert [type(t) for t in torch.load(file, weights_only=False)] == [Tagged, Asked]


def test_warnings_of_copies_name_the_callers_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.ones(2).new_tensor(torch.ones(1))
        line = inspect.currentframe().f_lineno - 1
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, line)]


def test_a_subclass_is_asked_about_pythons_syntax_by_its_names():
    x, i = torch.ones(2, 2), torch.ones(2, 2, dtype=torch.int64)
    for name, seen in [(n, n) for n in ("ne", "lt", "le", "gt", "ge")] + [("eq", "__eq__"), ("floordiv", "__floordiv__")]:
        assert _seen(lambda t: getattr(operator, name)(t, 1), x) == [seen]
    assert _seen(lambda t: x == t, x) == ["__eq__"] and _seen(lambda t: x // t, x) == ["__floordiv__"]
    for name in ("and_", "or_", "xor"):
        seen = [f"__{name.strip('_')}__"]
        assert _seen(lambda t: getattr(operator, name)(t, 1), i) == _seen(lambda t: getattr(operator, name)(i, t), i) == seen
    for name in ("iand", "ior", "ixor"):
        assert _seen(lambda t: getattr(operator, name)(t, 1), i.clone()) == [f"__{name}__"]
    assert _seen(lambda t: ~t, i) == ["__invert__"] and _seen(lambda t: 1 / t, x) == ["__rdiv__"]
    assert _seen(lambda t: t + 1, x) == ["add"] and _seen(lambda t: t.eq(1), x) == ["eq"]
    assert ((x.as_subclass(Tagged) == 1).sum(), (1 // x.as_subclass(Tagged)).sum()) == (4, 4)


def test_iterating_over_a_subclass_gives_it():
    t = torch.arange(6.0).reshape(2, 3).as_subclass(Tagged)
    first, second = t
    assert {type(part) for part in (first, second, next(iter(t)), sum(t), *t, min(first))} == {Tagged}
    assert sorted(_seen(list, torch.ones(2, 3))) == ["__len__", "dim", "unbind"]
    assert _seen(lambda t: next(iter(t)), torch.ones(2, 3)) == ["dim", "unbind"]
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(torch.tensor(1.0).as_subclass(Tagged))


def test_classes_are_not_asked_whether_they_are_left():
    x = torch.ones(2, 2)
    assert type(x.as_subclass(Tagged).as_subclass(torch.Tensor)) is torch.Tensor
    for call in (lambda t: t.as_subclass(torch.Tensor), torch.as_tensor, lambda t: torch.tensor(t)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert _seen(call, x) == []

    class Described(torch.Tensor):
        def __repr__(self):
            return "described " + repr(self.as_subclass(torch.Tensor))

    assert repr(torch.ones(1).as_subclass(Described)) == "described tensor([1.])"
    tagged = x.as_subclass(Tagged)
    assert torch.as_tensor(tagged) is tagged
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = torch.tensor(tagged)
        line = inspect.currentframe().f_lineno - 1
    assert type(made) is torch.Tensor and [(w.filename, w.lineno) for w in caught] == [(__file__, line)]


def test_a_number_for_each_tensor():
    x, y = torch.ones(3), torch.ones(3)
    assert type(x._cdata) is int and x._cdata == x._cdata
    assert len({x._cdata, y._cdata, x[:]._cdata, x.detach()._cdata}) >= 2 and x._cdata != y._cdata
    parameter = torch.nn.Parameter(x)
    before = parameter._cdata
    parameter.data = torch.zeros(5)
    assert parameter._cdata == before != x._cdata
    with pytest.raises(AttributeError):
        x._cdata = 3
    assert x.untyped_storage()._cdata == x[1:].untyped_storage()._cdata != y.untyped_storage()._cdata
    assert x._typed_storage()._cdata == x.untyped_storage()._cdata


def test_unrelated_subclasses_are_refused():
    class Other(torch.Tensor):
        pass

    with pytest.raises(TypeError):
        torch.ones(2).as_subclass(Tagged) + torch.ones(2).as_subclass(Other)


def test_the_left_operand_comes_first():
    """A subclass on the right is no reason for its reflected method: `x / parameter` is a quotient, not a product."""
    x, p = torch.rand(100) + 0.1, torch.nn.Parameter(torch.rand(100) + 0.1)
    assert (x / p).equal(x / p.detach())
    names = [type(r.grad_fn).__name__ for r in (x / p, x - p, x % p, x**p)]
    assert names == ["DivBackward0", "SubBackward0", "RemainderBackward1", "PowBackward1"]
    tagged = x.as_subclass(Tagged)
    assert type(x / tagged) is Tagged and (x / tagged).as_subclass(torch.Tensor).equal(x / x)
    assert Tagged.__rsub__ is torch.Tensor.__rsub__ and "__rsub__" not in vars(Tagged)
    torch.testing.assert_close(3 - p, torch.full((100,), 3.0) - p)

    class Mine(torch.Tensor):
        def __init_subclass__(cls, mark=None, **kwargs):
            super().__init_subclass__(**kwargs)
            cls.mark = mark

        def __rsub__(self, other):
            return "mine"

    class Marked(Mine, mark=3):
        pass

    for kind in (Mine, Marked):
        assert x - x.as_subclass(kind) == "mine" and 3 - x.as_subclass(kind) == "mine"
        assert type(x.as_subclass(kind) - x) is kind
    assert Marked.mark == 3


def test_deepcopy_keeps_shared_memory():
    base = torch.arange(6.0)
    copied, view = copy.deepcopy([base, base[2:4]])
    copied[2] = 50
    assert view[0] == 50 and base[2] == 2
    assert view.storage_offset() == 2


def test_deepcopy_takes_attributes_and_class():
    t = torch.ones(2).as_subclass(Tagged)
    t.tag = ["a"]
    with pytest.raises(RuntimeError, match="only works for subclass types that implement new_empty"):
        copy.deepcopy(t)
    plain = torch.ones(2)
    plain.tag = ["a"]
    made = copy.deepcopy(plain)
    assert made.tag == ["a"] and made.tag is not plain.tag


def test_pickle_of_views_and_attributes():
    t = torch.arange(12).reshape(3, 4)[:, 1]
    again = pickle.loads(pickle.dumps(t))
    assert torch.equal(again, t) and again.stride() == t.stride()
    u = torch.ones(2).as_subclass(Tagged)
    u.tag = 3
    again = pickle.loads(pickle.dumps(u))
    assert type(again) is Tagged and again.tag == 3


def test_names_of_types():
    t = torch.ones(2)
    assert t.type() == "torch.FloatTensor" and t.bool().type() == "torch.BoolTensor"
    assert torch.empty(1, device="meta").type() == "torch.meta.FloatTensor"
    assert t.type("torch.LongTensor").dtype is torch.int64 and t.type(torch.int8).dtype is torch.int8
    with pytest.raises(ValueError, match="invalid type: 'torch.NoTensor'"):
        t.type("torch.NoTensor")


def test_new():
    t = torch.ones(2, dtype=torch.float64)
    assert t.new(3).dtype is torch.float64 and t.new([1, 2]).tolist() == [1, 2]
    assert t.new_tensor([1, 2]).dtype is torch.float64
    assert t.new_tensor([1], dtype=torch.int8).dtype is torch.int8


def test_functions_element_by_element():
    t = torch.arange(4.0).reshape(2, 2)
    assert t.apply_(lambda v: v * 2).tolist() == [[0, 2], [4, 6]]
    assert t.map_(torch.ones(2), lambda a, b: a + b).tolist() == [[1, 3], [5, 7]]
    assert t.map2_(torch.ones(1), torch.ones(2, 2), lambda a, b, c: a - b - c).tolist() == [[-1, 1], [3, 5]]


def test_dim_order():
    image = torch.empty(2, 3, 4, 5)
    assert image.dim_order() == (0, 1, 2, 3)
    assert image.permute(0, 2, 3, 1).dim_order() == (0, 3, 1, 2)


def test_typed_storage():
    t = torch.arange(4.0)
    storage = t.storage()
    assert isinstance(storage, torch.FloatStorage) and len(storage) == 4 and storage[2] == 2
    storage[0] = 9
    assert t[0] == 9 and storage.tolist() == [9, 1, 2, 3]
    assert torch.is_storage(storage) and torch.is_storage(t.untyped_storage()) and not torch.is_storage(t)
    assert t.storage_type() is torch.FloatStorage
    assert torch.LongStorage([1, 2]).tolist() == [1, 2]


def test_shared_memory_reaches_a_forked_process():
    import os

    t = torch.zeros(3)
    assert not t.is_shared()
    assert t.share_memory_() is t and t.is_shared()
    child = os.fork()
    if child == 0:
        t[1] = 5
        os._exit(0)
    os.waitpid(child, 0)
    assert t.tolist() == [0, 5, 0]


def test_numpy_gives_tensors_back():
    np = pytest.importorskip("numpy")
    t = torch.tensor([1.0, 4.0])
    assert isinstance(np.sqrt(t), torch.Tensor) and np.sqrt(t).tolist() == [1, 2]
    assert np.asarray(t, dtype=np.int64).tolist() == [1, 4]
    assert (np.float64(2) * t).tolist() == [2, 8]


def test_removed_functions_say_what_to_use():
    for name in ("eig", "symeig", "solve", "lstsq"):
        with pytest.raises(RuntimeError, match="deprecated since version 1.9 and is now removed"):
            getattr(torch, name)(torch.ones(2, 2))


def test_no_interface_of_another_device():
    assert not hasattr(torch.ones(1), "__cuda_array_interface__")
    assert "__cuda_array_interface__" not in dir(torch.ones(1))
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        torch.ones(1).cuda()


def test_memory_that_numpy_knows_stays():
    np = pytest.importorskip("numpy")
    x = torch.ones(3)
    array = x.numpy()
    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
        x.resize_(1000)
    array[0] = 5
    assert x.tolist() == [5, 1, 1] and array.base is not None
    swapped = np.ones(3, ">f8")
    with pytest.raises(ValueError, match="byte order different from the native"):
        torch.from_numpy(swapped)
    for name in ("bool", "uint16", "int64", "float16", "complex64"):
        t = torch.ones(2, 3, dtype=getattr(torch, name)).t()
        assert t.numpy().dtype.name == name and torch.from_numpy(t.numpy()).data_ptr() == t.data_ptr()


def test_numbers_of_a_parameter_where_nothing_is_recorded():
    p = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert p.numpy().tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        p.numpy()


def test_addbmm_grows():
    x = torch.ones(1)
    assert x.addbmm_(torch.ones(2, 3, 4), torch.ones(2, 4, 5)).shape == x.shape == (3, 5)
    assert x.tolist() == [[9.0] * 5] * 3


def test_many_parts_side_by_side():
    parts = [torch.full((5, n), float(n)) for n in range(1, 20)]
    whole = torch.cat(parts, 1)
    assert whole.shape == (5, 190) and all(p.equal(w) for p, w in zip(parts, whole.split(list(range(1, 20)), 1)))


def test_rounding_to_bfloat16():
    # Ties to even, overflow to infinity, subnormals, and NaN, in whole blocks and in the rest.
    x = torch.tensor([1.00390625, 1.01171875, 3.4e38, -3.4e38, 1e-40, float("nan"), float("inf"), -0.0] * 9)
    y = x.to(torch.bfloat16).float()
    want = [1.0, 1.015625, float("inf"), -float("inf"), 9.183549615799121e-41, None, float("inf"), 0.0] * 9
    for got, w in zip(y.tolist(), want):
        assert got != got if w is None else got == w


def test_shapes_read_again_and_again():
    shapes = [tuple(range(k % 5, k % 5 + k % 8)) for k in range(40)] + [(k, 3) for k in range(300)] + [(2**40, 3)]
    for shape in shapes * 2:
        found = torch.empty(shape, device="meta").shape
        assert type(found) is torch.Size and found == shape and hash(found) == hash(shape)
    x = torch.ones(2, 3)
    before = x.shape
    assert x.resize_(4, 5).shape == (4, 5) and before == (2, 3)


def test_tolist_of_any_shape():
    assert torch.ones(0).tolist() == torch.ones(0, 3).tolist() == [] and torch.ones(2, 0).tolist() == [[], []]
    assert torch.arange(6).reshape(1, 2, 3).transpose(1, 2).tolist() == [[[0, 3], [1, 4], [2, 5]]]
    assert torch.ones(2, requires_grad=True).tolist() == (torch.ones(2, requires_grad=True) * 1).tolist() == [1.0, 1.0]


def test_orders_of_dims_that_are_not_the_only_ones():
    """A dim of one element, or of the same one again and again, could stand anywhere."""
    assert torch.empty(2, 3).t().dim_order(ambiguity_check=True) == (1, 0)
    assert torch.empty(2, 3, 4, 1).dim_order(ambiguity_check=[torch.contiguous_format, torch.channels_last]) == (0, 1, 2, 3)
    for x in (torch.empty(1, 2, 3, 4), torch.empty(3, 1), torch.empty(1), torch.empty(3).expand(2, 3)):
        assert x.dim_order() == tuple(range(x.dim())) or x.stride(0) == 0
        with pytest.raises(RuntimeError, match="does not have unique dim order"):
            x.dim_order(ambiguity_check=True)
