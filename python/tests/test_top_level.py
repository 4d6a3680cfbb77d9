"""The names of the top level and of `Tensor`: values and errors as PyTorch 2.13 gives them."""
import subprocess
import sys

import flambeau as torch
import pytest
from recorded import evaluate, load

SETUP, CASES = load("top_level.json")


@pytest.fixture(autouse=True)
def settings():
    """What a test sets is set back."""
    yield
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    torch.set_printoptions(profile="default")
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(("expression", "expected"), CASES, ids=range(len(CASES)))
def test_as_recorded(expression, expected):
    assert evaluate(SETUP, expression) == expected, expression


def test_missing_names_say_so():
    with pytest.raises(AttributeError, match="^module 'flambeau' has no attribute 'nonsense'$"):
        torch.nonsense
    with pytest.raises(AttributeError, match="PyTorch's 'torch.parse_ir' does not exist in Flambeau yet"):
        torch.parse_ir


def test_all_names_exist():
    assert [n for n in torch.__all__ if not hasattr(torch, n)] == []


def test_import_loads_little():
    code = "import sys; before = set(sys.modules); import flambeau; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "numpy" not in loaded and "flambeau.nn" not in loaded
    assert len(loaded) < 30


def test_default_device():
    with torch.device("meta"):
        assert torch.ones(2).device.type == "meta"
        assert torch.tensor([1.0]).device.type == "meta"
        assert torch.ones(2, device="cpu").device.type == "cpu"
        assert torch.get_default_device() == torch.device("meta")
    torch.set_default_device("meta")
    assert torch.empty(3).device.type == "meta"
    # (It takes no device in PyTorch, where nothing else is asked for.)
    mean = torch.zeros(3, device="cpu")
    assert torch.normal(mean, 1.0).device == torch.normal(mean=mean, std=mean + 1).device == torch.device("cpu")
    with torch.device("cpu"):
        assert torch.empty(3).device.type == "cpu"
    torch.set_default_device(None)
    assert torch.empty(3).device.type == "cpu"

    @torch.device("meta")
    def make():
        return torch.zeros(1)

    assert make().device.type == "meta" and torch.zeros(1).device.type == "cpu"


def test_default_dtype():
    torch.set_default_dtype(torch.float64)
    assert torch.tensor(1.5).dtype is torch.float64 and torch.tensor(1j).dtype is torch.complex128
    torch.set_default_tensor_type(torch.FloatTensor)
    assert torch.get_default_dtype() is torch.float32
    torch.set_default_tensor_type("torch.DoubleTensor")
    assert torch.get_default_dtype() is torch.float64


def test_operators_by_overload():
    add = torch.ops.aten.add
    assert add.Tensor(torch.ones(2), torch.ones(2)).tolist() == [2, 2]
    assert "Tensor" in add.overloads() and add.Tensor.overloadpacket is add
    schema = add.Tensor._schema
    assert str(schema) == "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    assert [(a.name, a.kwarg_only, a.has_default_value()) for a in schema.arguments] == [
        ("self", False, False), ("other", False, False), ("alpha", True, True)]  # fmt: skip
    assert torch.ops.aten.add_.Tensor._schema.is_mutable and not schema.is_mutable
    with pytest.raises(AttributeError, match="no overload name 'nonsense'"):
        add.nonsense


def test_version_compares():
    assert torch.__version__ >= "2.1" and torch.__version__ > (1, 13) and torch.__version__ < "10.0"
    assert torch.torch_version.TorchVersion("2.0.0rc1") < "2.0.0" < torch.torch_version.TorchVersion("2.0.1")


def test_typed_classes():
    made = torch.LongTensor([[1, 2]])
    assert made.dtype is torch.int64 and type(made) is torch.Tensor
    assert isinstance(made, torch.LongTensor) and not isinstance(made, torch.FloatTensor)
    assert made.type() == "torch.LongTensor" and made.type(torch.HalfTensor).dtype is torch.float16


def test_random_state():
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first = torch.rand(3)
    torch.set_rng_state(state)
    assert torch.equal(first, torch.rand(3)) and torch.initial_seed() == 5


def test_control_flow():
    assert torch.cond(torch.tensor(False), lambda a: a + 1, lambda a: a - 1, (torch.ones(1),)).item() == 0
    from flambeau._control import while_loop

    assert while_loop(lambda n, s: n < 4, lambda n, s: (n + 1, s + n), (torch.tensor(0), torch.tensor(0)))[1].item() == 6


def test_asarray():
    import numpy as np

    array = np.arange(3.0)
    shared = torch.asarray(array)
    shared[0] = 7
    assert array[0] == 7
    copied = torch.asarray(array, copy=True)
    copied[0] = 1
    assert array[0] == 7
    assert torch.asarray(array, dtype=torch.float32).dtype is torch.float32
    with pytest.raises(ValueError, match="can't alias tensor with dtype 'Double' into dtype 'Float'"):
        torch.asarray(array, dtype=torch.float32, copy=False)
    with pytest.raises(ValueError, match="can't alias arbitrary sequence into a tensor."):
        torch.asarray([1, 2], copy=False)


def test_from_file(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(bytes(16))
    written = torch.from_file(str(path), shared=True, size=4, dtype=torch.float32)
    written[2] = 1.0
    assert torch.from_file(str(path), size=4).tolist() == [0, 0, 1, 0]


def test_processes_do_not_train_together():
    import flambeau.distributed.tensor  # noqa: F401

    distributed = torch.distributed

    assert not distributed.is_available() and not distributed.is_initialized()
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        distributed.get_rank()
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    with pytest.raises(RuntimeError, match="no processes that train together"):
        distributed.init_device_mesh("cpu", (2,))
    assert not isinstance(torch.zeros(1), distributed.tensor.DTensor) and torch.torch is torch


def test_unravel_index_takes_places_apart():
    flat = torch.tensor([[0, 23, 7], [-1, 59, 24]])
    parts = torch.unravel_index(flat, (2, 3, 4))
    assert [p.tolist() for p in parts] == [
        [[0, 1, 0], [1, 0, 0]],
        [[0, 2, 1], [2, 2, 0]],
        [[0, 3, 3], [3, 3, 0]],
    ]
    assert all(p.stride() == (9, 3) for p in parts)
    assert torch.unravel_index(flat, ()) == ()


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
def test_ranges_with_their_end():
    assert torch.range(0, 3).tolist() == [0, 1, 2, 3] and torch.range(0, 3).dtype == torch.float32
    assert torch.range(5, 1, -2, dtype=torch.int64).tolist() == [5, 3, 1] and len(torch.range(0, 0.3, 0.1)) == 3
    assert torch.range(0, 2, out=torch.empty(1, dtype=torch.float64)).tolist() == [0, 1, 2] and torch.range(2, 2).tolist() == [2]
    for args, message in (((1, 4, 0), "step must be nonzero"), ((4, 1), "upper bound and lower bound inconsistent"),
                          ((1.0, float("inf")), "unsupported range: 1 -> inf")):
        with pytest.raises(RuntimeError, match=message):
            torch.range(*args)
    with pytest.raises(TypeError, match='missing 1 required positional arguments: "end"'):
        torch.range(3)
    with pytest.raises(NotImplementedError, match="\"range_cpu\" not implemented for 'Bool'"):
        torch.range(0, 3, dtype=torch.bool)


def test_asarray_keeps_the_graph():
    leaf = torch.ones(2, requires_grad=True)
    result = leaf + 1
    with pytest.warns(UserWarning, match="unspecified requires_grad now defaults to obj.requires_grad"):
        assert torch.asarray(result).grad_fn is not None
    assert torch.asarray(result, requires_grad=False).grad_fn is None
    assert torch.asarray(leaf, requires_grad=True, copy=True).grad_fn is not None
    assert torch.asarray(leaf, requires_grad=False) is leaf and not leaf.requires_grad
    assert torch.asarray([1.0], requires_grad=True).requires_grad and not torch.asarray(torch.ones(1)).requires_grad


def test_out_of_other_names():
    x = torch.arange(9.0).view(3, 3)
    out = torch.empty(0)
    assert torch.diag(x, 1, out=out) is out and out.tolist() == [1.0, 5.0]
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but got double instead"):
        torch.diag(x, out=out.double())
    assert torch.equal(torch.linalg.matmul(x, x, out=torch.empty(3, 3)), x @ x)
    assert torch.empty(2, 3, out=out) is out and out.shape == (2, 3)
    with pytest.raises(RuntimeError, match="'memory_format' argument is incompatible with 'out' tensor argument"):
        torch.empty((1, 2, 3, 4), out=out, memory_format=torch.channels_last)


def test_there_is_one_host_memory():
    """A device may be named with a number, which tensors on it do not have."""
    x, shapes = torch.ones(2), torch.empty(2, device="meta")
    for kind in ("cpu", "meta"):
        plain, device = torch.device(kind), torch.device(kind, 1)
        assert device.index == 1 and device != plain
        for named in (f"{kind}:1", device):
            made = [f(2, device=named) for f in (torch.ones, torch.empty, torch.arange, torch.randn, torch.eye, x.new_zeros)]
            made += [torch.zeros_like(x, device=named), torch.full((2,), 1.0, device=named), torch.tensor([1], device=named),
                     torch.as_tensor(x, device=named), torch.asarray(x, device=named), x.to(named), x.to(device=named),
                     torch.nn.Linear(2, 2, device=named).weight, torch.nn.Linear(2, 2).to(named).weight]  # fmt: skip
            assert {(t.device, t.device.index) for t in made} == {(plain, None)}
            assert torch.UntypedStorage(4, device=named).device == plain
            with device:
                assert torch.ones(2).device == plain
    assert x.to("cpu") is x and x.to("cpu:0") is not x and x.to("cpu:0", copy=False) is not x
    assert shapes.to("meta") is shapes and shapes.to("meta:0") is not shapes
    assert torch.as_tensor(x, device="cpu") is x and torch.as_tensor(x, device="cpu:0").data_ptr() != x.data_ptr()
