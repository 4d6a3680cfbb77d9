"""The compiled half: arguments, errors, indexing, shared memory, overriding classes, threads."""

import gc
import math
import sys
import threading
import weakref

import numpy as np
import pytest

import flambeau as torch

x = torch.tensor([1.0, 2.0, 3.0])
i = torch.arange(6).reshape(2, 3)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: torch.add(x, "a"), "add(): argument 'other' (position 2) must be Tensor, not str"),
        (lambda: x.add("a"), "add(): argument 'other' (position 1) must be Tensor, not str"),
        (lambda: torch.relu(1), "relu(): argument 'input' (position 1) must be Tensor, not int"),
        (lambda: torch.relu(x, foo=1), "relu() got an unexpected keyword argument 'foo'"),
        (lambda: torch.relu(x, x), "relu() takes 1 positional argument but 2 were given"),
        (lambda: torch.relu(), 'relu() missing 1 required positional arguments: "input"'),
        (lambda: torch.relu(input=3), "relu(): argument 'input' must be Tensor, not int"),
        (lambda: x.transpose(0), 'transpose() missing 1 required positional arguments: "dim1"'),
        (lambda: torch.zeros("a"), "zeros(): argument 'size' (position 1) must be tuple of ints, not str"),
        (lambda: torch.zeros(2, dtype="a"), "zeros(): argument 'dtype' must be torch.dtype, not str"),
        (lambda: torch.zeros(2, requires_grad=3), "zeros(): argument 'requires_grad' must be bool, not int"),
        (lambda: torch.cat(x), "cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor"),
        (lambda: torch.cat([x, 3]), "expected Tensor as element 1 in argument 0, but got int"),
        (lambda: torch.full((2,), "a"), "full(): argument 'fill_value' (position 2) must be Number, not str"),
        (lambda: torch.add(x, x, alpha="s"), "add(): argument 'alpha' must be Number, not str"),
        (lambda: torch.add(x, other=x, input=x), "add() got multiple values for argument 'input'"),
        (lambda: torch.mm(i, 3), "mm(): argument 'mat2' (position 2) must be Tensor, not int"),
        (lambda: x.size("a"), "size(): argument 'dim' (position 1) must be int, not str"),
        (lambda: x.add(x, out=3), "add() got an unexpected keyword argument 'out'"),
        (lambda: x + "a", "unsupported operand type(s) for +: 'Tensor' and 'str'"),
        (lambda: x < None, "'<' not supported between instances of 'Tensor' and 'NoneType'"),
        (lambda: torch.tensor(), 'tensor() missing 1 required positional arguments: "data"'),
        (lambda: len(torch.tensor(1.0)), "len() of a 0-d tensor"),
        (lambda: torch.sum(x, "a"), "sum() received an invalid combination of arguments - got (Tensor, str)"),
    ],
)
def test_wrong_arguments_are_type_errors(call, text):
    with pytest.raises(TypeError) as e:
        call()
    assert text in str(e.value)


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (lambda: x[5], IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
        (lambda: x[1.5], IndexError, "only integers, slices"),
        (lambda: x[::-1], ValueError, "step must be greater than zero"),
        (lambda: x[0, 0], IndexError, "too many indices for tensor of dimension 1"),
        (lambda: torch.tensor(1)[0], IndexError, "invalid index of a 0-dim tensor"),
        (lambda: bool(x), RuntimeError, "Boolean value of Tensor with more than one value is ambiguous"),
        (lambda: torch.tensor([[1], [1, 2]]), ValueError, "expected sequence of length 1 at dim 1 (got 2)"),
        (lambda: torch.tensor(object()), RuntimeError, "Could not infer dtype of object"),
        (lambda: torch.ones(2, device="foo"), RuntimeError, "device type at start of device string: foo"),
        (lambda: torch.ones(2, 3) @ torch.ones(2, 3), RuntimeError, "mat1 and mat2 shapes cannot be multiplied"),
        (lambda: torch.tensor(300, dtype=torch.uint8), RuntimeError, "without overflow"),
        (lambda: x.reshape(2, 2), RuntimeError, "shape '[2, 2]' is invalid for input of size 3"),
        (lambda: torch.ones(2, requires_grad=True).numpy(), RuntimeError, "Can't call numpy() on Tensor that requires"),
        (lambda: torch.ones(2, dtype=torch.int64, requires_grad=True), RuntimeError, "Only Tensors of floating point"),
    ],
)
def test_errors_have_pytorchs_type_and_wording(call, kind, text):
    with pytest.raises(kind) as e:
        call()
    assert text in str(e.value)


def test_arguments_convert_as_in_pytorch():
    assert torch.zeros(2, 3).shape == torch.zeros((2, 3)).shape == torch.zeros(size=[2, 3]).shape == (2, 3)
    assert x.view(3, 1).shape == x.view((3, 1)).shape == (3, 1)
    assert torch.sum(i, axis=1, keepdims=True).shape == (2, 1)
    assert torch.add(input=x, other=2).tolist() == [3, 4, 5]
    assert x.add(np.float64(1)).tolist() == x.add(torch.tensor(1)).tolist() == [2, 3, 4]
    assert torch.mul(2, x).tolist() == [2, 4, 6]
    assert x.view(torch.tensor(3), np.int64(1)).shape == (3, 1)
    assert (2**x).tolist() == [2, 4, 8] and (1 - x).tolist() == [0, -1, -2] and (6 // i[1]).tolist() == [2, 1, 1]
    assert torch.zeros(2, dtype=float).dtype == torch.float64 and x.to("cpu", torch.int32).dtype == torch.int32
    assert (x == None) is False and (x != "a") is True  # noqa: E711


def test_out_is_resized_and_returned_and_in_place_gives_the_object():
    out = torch.empty(0)
    assert torch.add(x, 1, out=out) is out and out.tolist() == [2, 3, 4]
    y = x.clone()
    assert y.add_(1) is y and y.tolist() == [2, 3, 4]
    before = y
    y += 1
    assert y is before and y.resize_(2) is y and y.shape == (2,)
    values, indices = torch.empty(0), torch.empty(0, dtype=torch.int64)
    result = torch.max(torch.tensor([[1.0, 2], [4, 3]]), 1, out=(values, indices))
    assert values.tolist() == [2, 4] and indices.tolist() == [1, 0] and result.values is values


def test_several_results_have_names():
    result = torch.max(torch.tensor([[1.0, 5.0], [4.0, 3.0]]), dim=1)
    assert result.values.tolist() == [5, 4] and result[1].tolist() == [1, 0]
    assert type(result).__name__ == "max" and isinstance(result, tuple)


def test_indices_of_no_dims_and_values_with_leading_ones():
    byte = lambda v: torch.tensor(v, dtype=torch.uint8)
    x = torch.arange(12.0).view(3, 4)
    assert x[byte(1)].shape == (1, 3, 4) and x[byte(0)].shape == (0, 3, 4) and x[byte(2), 1].tolist() == [[4, 5, 6, 7]]
    assert x[torch.tensor(1, dtype=torch.int8)].data_ptr() == x[1].data_ptr()
    x[byte(0)] = 9
    x[torch.tensor([0, 1])] = torch.ones(1, 1, 1, 4)
    x[torch.tensor([0, 1]), torch.tensor([1, 2])] = torch.full((1, 1, 2), 5.0)
    assert x.tolist() == [[1, 5, 1, 1], [1, 1, 5, 1], [8, 9, 10, 11]]
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x[torch.tensor([0, 1])] = torch.ones(1, 2, 1, 4)


@pytest.mark.parametrize("call", [
    lambda x: x.nonzero(), lambda x: x.median(), lambda x: x.kthvalue(3), lambda x: x.unbind(), lambda x: x.split(1),
    lambda x: x.masked_select(x > 0), lambda x: torch.histc(torch.zeros(3), bins=1 << 45),
    lambda x: torch.zeros(4).tensor_split(1 << 62),
])
def test_memory_that_is_not_there_is_an_error(call):
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        call(torch.zeros(1).expand(1 << 45))


def test_indexing_reads_and_writes():
    t = torch.arange(24).reshape(2, 3, 4)
    a = np.arange(24).reshape(2, 3, 4)
    mask = a % 5 == 0
    for index in [
        0, -1, slice(1), (0, 1), (..., 0), (..., None, slice(None)), (slice(None), None, 1),
        (slice(None), slice(0, 3, 2)), [0, 1], [1, 0, 1],
        (slice(None), [0, 2]), ([0, 1], [2, 1]), (None, ..., None), True, False, (0, slice(1, None), 1), mask,
        (np.array([0, 1]), slice(None), np.array([3, 0])), (slice(None, None, None), np.int64(1)),
    ]:  # fmt: skip
        expected = a[index]
        ours = t[torch.from_numpy(index) if isinstance(index, np.ndarray) and index.dtype == bool else index]
        assert ours.tolist() == expected.tolist(), index
        u, b = t.clone(), a.copy()
        u[index] = -7
        b[index] = -7
        assert u.tolist() == b.tolist(), index
    t[0] += 1
    assert t[0, 0, 0].item() == 1
    t[:, 0] = torch.tensor([9, 9, 9, 9])
    assert t[1, 0].tolist() == [9] * 4


def test_numpy_shares_memory_both_ways():
    a = np.arange(6.0).reshape(2, 3)
    t = torch.from_numpy(a)
    a[0, 0] = 7
    t[1, 1] = 8
    assert t[0, 0] == 7 and a[1, 1] == 8 and t.numpy()[1, 1] == 8
    assert torch.from_numpy(a.T).stride() == (1, 3) and torch.from_numpy(a[:, ::2]).tolist() == a[:, ::2].tolist()
    with pytest.raises(ValueError, match="negative"):
        torch.from_numpy(a[::-1])
    with pytest.raises(TypeError, match="can't convert np.ndarray of type numpy.object_"):
        torch.from_numpy(np.array([object()]))
    assert np.sum(t.numpy()) == a.sum() and np.asarray(t).shape == (2, 3)
    for name in "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 complex64 complex128".split():
        array = np.zeros(3, dtype=name)
        assert torch.from_numpy(array).numpy().dtype == array.dtype and str(torch.from_numpy(array).dtype) == "torch." + name


def test_memory_outlives_its_first_owner():
    t = torch.from_numpy(np.arange(1000.0))
    view = t[10:20].numpy()
    del t
    gc.collect()
    assert view.tolist() == list(range(10, 20))
    b = bytearray(8)
    f = torch.frombuffer(b, dtype=torch.int32)
    f[1] = 5
    assert b[4] == 5
    with pytest.raises(ValueError, match="must not be greater than actual"):
        torch.frombuffer(b, dtype=torch.int32, count=3)


def test_dlpack_both_ways():
    t = torch.arange(6).reshape(2, 3)
    a = np.from_dlpack(t)
    a[0, 0] = 9
    assert t[0, 0] == 9
    back = torch.from_dlpack(np.arange(4.0))
    assert back.tolist() == [0, 1, 2, 3] and t.__dlpack_device__() == (1, 0)
    capsule = t.__dlpack__()
    assert torch.from_dlpack(capsule).tolist() == t.tolist()
    with pytest.raises(RuntimeError, match="only once"):
        torch.from_dlpack(capsule)


def test_a_class_takes_calls_over():
    seen = []

    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    loud = torch.ones(2).as_subclass(Loud)
    total = (loud + 1).sum()
    assert type(total) is Loud and total.item() == 4 and seen[:2] == ["add", "sum"]
    assert loud.shape == (2,) and "__get__" in seen

    class Stranger:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__

    assert torch.add(x, Stranger()) == "add" and torch.cat([x, Stranger()]) == "cat"


def test_objects_are_one_per_tensor_and_die():
    t = torch.ones(2)
    t.note = "kept"
    assert t.add_(1).note == "kept" and {t: 1}[t] == 1
    ref = weakref.ref(t)
    t.cycle = t
    del t
    gc.collect()
    assert ref() is None


def test_threads_share_tensors():
    total = torch.zeros(1000, dtype=torch.float64)
    lock = threading.Lock()

    def work():
        for _ in range(20):
            part = torch.ones(1000, dtype=torch.float64) @ torch.ones(1000, 1000, dtype=torch.float64)
            with lock:
                total.add_(part)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert total.eq(80_000).all()


def test_every_operator_is_callable_by_its_registered_name():
    assert torch.ops.aten.add.Tensor(x, x).tolist() == [2, 4, 6]
    assert torch.ops.aten.relu.default(x).tolist() == x.tolist() and "Scalar" in torch.ops.aten.add.overloads()
    with pytest.raises(AttributeError):
        torch.ops.aten.no_such_operator
    assert "Tensor self" in torch.relu.__doc__


def test_storages():
    t = torch.arange(4, dtype=torch.int32)
    s = t.untyped_storage()
    assert s.nbytes() == 16 and len(s[4:8]) == 4 and t[1:].untyped_storage() == s and s.data_ptr() == t.data_ptr()
    u = torch.empty(0, dtype=torch.int32).set_(s, 1, (2,), (1,))
    u[0] = 50
    assert t[1] == 50
    t.data = torch.zeros(2)
    assert t.shape == (2,) and t.dtype == torch.float32


def test_numbers_convert():
    assert int(torch.tensor(3.7)) == 3 and float(torch.tensor(2)) == 2.0 and complex(torch.tensor(1j)) == 1j
    assert [10, 20, 30][torch.tensor(1)] == 20 and math.isnan(float(torch.tensor(float("nan"))))
    assert torch.tensor([1, 2.5]).dtype == torch.float32 and torch.tensor([1, 2j]).dtype == torch.complex64
    assert torch.tensor(np.float32(1)).dtype == torch.float32 and torch.tensor([True]).dtype == torch.bool
    assert sys.getsizeof(x) > 0 and format(torch.tensor(1.5), ".2f") == "1.50"


def test_tensors_of_one_integer_in_lists():
    one = torch.tensor([5], dtype=torch.int32)
    x = torch.rand(1, 3, 8, 8)
    for size in ([one, one], (one[0], 5), [np.int64(5), np.int32(5)]):
        assert torch.nn.functional.interpolate(x, size=size, mode="bilinear").shape == (1, 3, 5, 5)
    assert torch.nn.functional.pad(x, [one, 1, 0, one]).shape == (1, 3, 13, 14)
    assert torch.zeros(one, 2).shape == torch.zeros([one, 2]).shape == (5, 2) and torch.zeros(one).shape == (5,)
    assert torch.zeros(torch.tensor(3), one).shape == (3, 5)
    with pytest.raises(TypeError, match="pos 2 with error \"type must be tuple of ints,but got Tensor\""):
        torch.zeros([2, torch.tensor([1, 2])])
    with pytest.raises(TypeError, match="expected size to be one of int"):
        torch.nn.functional.interpolate(x, size=[one.double(), one])


@pytest.mark.filterwarnings("ignore:This overload of")
def test_old_orders_take_numbers_in_tensors():
    x, y, two = torch.ones(3), torch.full((3,), 2.0), torch.tensor(2.0)
    assert x.add(two, y).tolist() == x.clone().add_(two, y).tolist() == torch.add(x, two, y).tolist() == [5, 5, 5]
    assert x.addcmul(two, y, y).tolist() == [9, 9, 9] and x.sub(-two, y).tolist() == [5, 5, 5]
    with pytest.raises(TypeError):
        x.add(y, y)


def test_memory_of_other_devices_is_refused_before_it_is_shown():
    class Elsewhere:
        def __dlpack_device__(self):
            return 2, 0

        def __dlpack__(self, **options):
            raise AssertionError("never asked")

    with pytest.raises((BufferError, RuntimeError)):
        torch.from_dlpack(Elsewhere())
