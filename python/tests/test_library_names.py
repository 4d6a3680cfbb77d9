"""Names that libraries take from PyTorch's less public modules."""
import subprocess
import sys

import pytest

import flambeau
from flambeau import nn

FUNCTORCH = """
import warnings
warnings.simplefilter("error")
import torch, torch._functorch.vmap, functorch.experimental
from torch._C._functorch import is_batchedtensor
from functorch import make_functional, make_functional_with_buffers, combine_state_for_ensemble, vmap
linear = torch.nn.Linear(2, 3)
try:
    make_functional(linear)
except FutureWarning as warning:
    assert "`functorch.make_functional` is deprecated" in str(warning)
warnings.simplefilter("ignore")
f, params = make_functional(linear)
assert torch.equal(f(params, torch.ones(1, 2)), linear(torch.ones(1, 2)))
assert repr(f) == "FunctionalModule(\\n  (stateless_model): Linear(in_features=2, out_features=3, bias=True)\\n)"
f, params, buffers = make_functional_with_buffers(torch.nn.BatchNorm1d(2))
f(params, buffers, torch.randn(5, 2))
assert buffers[0].any() and not f.stateless_model.training is False
models = [torch.nn.Linear(2, 3) for _ in range(4)]
f, params, buffers = combine_state_for_ensemble(models)
x = torch.randn(5, 2)
assert torch.allclose(vmap(f, (0, 0, None))(params, buffers, x), torch.stack([m(x) for m in models]))
seen = []
vmap(lambda t: seen.append(is_batchedtensor(t)) or t)(x)
assert seen == [True] and not is_batchedtensor(x)
print("fine")
"""


def test_functorch_comes_along():
    done = subprocess.run([sys.executable, "-m", "flambeau", "-c", FUNCTORCH], capture_output=True, text=True)
    assert done.stdout == "fine\n", done.stderr


def test_parts_of_vmap_can_be_replaced(monkeypatch):
    from flambeau._functorch import vmap as parts

    monkeypatch.setattr(parts, "_unwrap_batched", lambda outputs, *rest: rest)
    assert flambeau.vmap(lambda x: x, out_dims=1)(flambeau.ones(3, 2))[:3] == (1, 1, 3)


def test_weak_dictionaries_compare_by_identity():
    from flambeau.utils.weak import TensorWeakRef, WeakTensorKeyDictionary

    first, second = flambeau.ones(2), flambeau.ones(2)
    table = WeakTensorKeyDictionary({first: 1, second: 2})
    assert table[first] == 1 and second in table and flambeau.ones(2) not in table and table.copy() == table
    reference = TensorWeakRef(first)
    assert reference() is first
    del first
    assert len(table) == 1 and reference() is None and table.pop(second) == 2
    with pytest.raises(AssertionError, match="expected torch.Tensor, got <class 'int'>"):
        TensorWeakRef(3)


def test_swap_tensors():
    first, second = nn.Parameter(flambeau.ones(2)), flambeau.zeros(3)
    first.note = 1
    flambeau.utils.swap_tensors(first, second)
    assert type(first) is flambeau.Tensor and first.shape == (3,) and not first.requires_grad
    assert type(second) is nn.Parameter and second.requires_grad and second.note == 1 and not hasattr(first, "note")
    import weakref

    keep = weakref.ref(first)
    with pytest.raises(RuntimeError, match="Cannot swap t2 because it has weakref associated with it"):
        flambeau.utils.swap_tensors(second, keep())


def test_products_with_a_sparse_matrix():
    sparse = flambeau.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2))
    assert flambeau.spmm(sparse, flambeau.ones(2, 2)).tolist() == [[1, 1], [2, 2]]
    assert flambeau.dsmm is flambeau.mm and isinstance(flambeau.ones(1).untyped_storage(), flambeau.StorageBase)


def test_grouping_by_device_and_dtype():
    from flambeau.utils._foreach_utils import _group_tensors_by_device_and_dtype

    a, b, c = flambeau.ones(1), flambeau.ones(1).double(), flambeau.zeros(1)
    groups = _group_tensors_by_device_and_dtype([[a, b, c], [c, a, b], []], with_indices=True)
    cpu = flambeau.device("cpu")
    (lists, indices), (others, other_indices) = groups[cpu, flambeau.float32], groups[cpu, flambeau.float64]
    assert indices == [0, 2] and lists[0][0] is a and lists[0][1] is c and lists[1][1] is b and lists[2] == []
    assert other_indices == [1] and others[0][0] is b


def test_module_tracker():
    from flambeau.utils.module_tracker import ModuleTracker

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x):
            seen.append((sorted(tracker.parents), tracker.is_bw))
            return self.inner(x)

    seen, tracker = [], ModuleTracker()
    x = flambeau.ones(1, 2, requires_grad=True)
    with tracker:
        y = nn.Sequential(Layer(), nn.Sequential(nn.ReLU()))(x)
        assert tracker.parents == {"Global"}
        y.register_hook(lambda grad: seen.append((sorted(tracker.parents), tracker.is_bw)))
        y.sum().backward()
    assert seen == [
        (["Global", "Sequential", "Sequential.0"], False),
        (["Global", "Sequential", "Sequential.1", "Sequential.1.0"], True),
    ]


def test_make_subclass():
    class Sub(flambeau.Tensor):
        def __init__(self, *arguments):
            raise AssertionError

    data = flambeau.ones(2, requires_grad=True) * 2
    made = flambeau.Tensor._make_subclass(Sub, data, True)
    assert type(made) is Sub and made.is_leaf and made.requires_grad and made.data_ptr() == data.data_ptr()
    assert not flambeau.Tensor._make_subclass(Sub, data).requires_grad
    with pytest.raises(TypeError, match="does not inherit from Tensor"):
        flambeau.Tensor._make_subclass(int, data)
    with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype can require gradients"):
        flambeau.Tensor._make_subclass(Sub, flambeau.ones(2).long(), True)
    with pytest.raises(NotImplementedError, match="__torch_dispatch__"):
        flambeau.Tensor._make_wrapper_subclass(Sub, (2,))


def test_named_members():
    from flambeau.nn.utils._named_member_accessor import NamedMemberAccessor

    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    members = NamedMemberAccessor(model)
    before = members.swap_tensor("0.weight", flambeau.zeros(3, 2))
    assert isinstance(before, nn.Parameter) and not model[0].weight.any()
    assert members.check_keys(["0.weight", "x"])[1] == ["x"]
    with pytest.raises(AttributeError, match="BatchNorm1d has no attribute `nothing`"):
        members.swap_tensor("1.nothing", flambeau.ones(1))
    assert isinstance(members.swap_submodule("1", nn.ReLU()), nn.BatchNorm1d)


def test_a_transform_may_be_a_module():
    class Flow(flambeau.distributions.Transform, nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(flambeau.ones(()))

        __hash__ = object.__hash__

    assert len(list(Flow().parameters())) == 1


def test_parts_of_a_printed_tensor():
    from flambeau import _tensor_str

    assert _tensor_str._tensor_str(flambeau.ones(2, 3), 4) == "[[1., 1., 1.],\n     [1., 1., 1.]]"
    assert _tensor_str._tensor_str(flambeau.tensor(2.5), 4) == "2.5000"
    assert _tensor_str._add_suffixes("abc", ["x=1", "y"], 2, False) == "abc, x=1, y)"
    assert _tensor_str._str(flambeau.ones(2).double(), tensor_contents="[...]") == "tensor([...], dtype=torch.float64)"
    assert _tensor_str.PRINT_OPTS.edgeitems == 3


def test_what_cannot_be_there_says_so():
    from flambeau.distributed.fsdp import FullyShardedDataParallel
    from flambeau.distributed.optim import ZeroRedundancyOptimizer
    from flambeau.utils import cpp_extension

    for make in (FullyShardedDataParallel, ZeroRedundancyOptimizer):
        with pytest.raises(RuntimeError, match="no processes that train together"):
            make([])
    with pytest.raises(RuntimeError, match="Ninja is required|Error building extension 'x'"):
        cpp_extension.load("x", [])
    assert cpp_extension.CUDA_HOME is None


def test_ranges_for_profilers_decorate_and_enclose():
    from flambeau.cuda import nvtx

    @nvtx.range("work {}", 1)
    def work(x):
        return x + 1

    with nvtx.range("outer"):
        assert work(1) == work(1) == 2


def test_no_device_is_in_use():
    from flambeau import cuda

    assert cuda._initialized is False and not cuda.is_initialized() and not cuda._is_in_bad_fork()
    called = []
    cuda._lazy_call(lambda: called.append(1), seed=True)
    assert not called


def test_types_that_lists_of_tensors_hold():
    from flambeau.utils._foreach_utils import _foreach_supported_types

    assert _foreach_supported_types == [flambeau.Tensor, nn.Parameter]


def test_functions_under_the_name_of_their_module():
    """Recurrent modules written for PyTorch call `_VF.lstm`."""
    from flambeau import _VF

    lstm = nn.LSTM(3, 4)
    x, state = flambeau.randn(5, 2, 3), (flambeau.zeros(1, 2, 4), flambeau.zeros(1, 2, 4))
    output, h, _ = _VF.lstm(x, state, lstm._flat_weights, True, 1, 0.0, False, False, False)
    assert flambeau.equal(output, lstm(x)[0]) and flambeau.equal(h, lstm(x)[1][0])
    assert flambeau._VF is _VF and "gru_cell" in dir(_VF)
    with pytest.raises(AttributeError, match="module 'flambeau._VF' has no attribute 'nothing'"):
        _VF.nothing


def test_modules_on_parts_of_a_batch():
    from flambeau.nn.parallel import gather, parallel_apply, replicate, scatter
    from flambeau.nn.parallel.data_parallel import DataParallel
    from flambeau.nn.parallel.parallel_apply import get_a_var

    inner = nn.Linear(3, 2)
    module = nn.Sequential(inner, nn.ReLU())
    x = flambeau.randn(6, 3)
    copies = replicate(module, ["cpu", "cpu"])
    assert all(type(c) is nn.Sequential and c is not module and c[0] is not inner for c in copies)
    parts = scatter(x, ["cpu", "cpu"])
    whole = gather(parallel_apply(copies, parts), "cpu")
    assert flambeau.equal(whole, module(x)) and flambeau.equal(whole, DataParallel(module)(x))
    whole.sum().backward()
    assert inner.weight.grad is not None and inner.weight.grad.abs().sum() > 0
    assert not replicate(module, ["cpu"], detach=True)[0](x).requires_grad
    assert get_a_var({"a": [1, (x,)]}) is x and get_a_var([1, "a"]) is None
    with pytest.raises(AssertionError, match="The number of modules 1 is not equal to the number of inputs 2"):
        parallel_apply(copies[:1], parts)


def test_what_a_report_of_a_fault_says(capsys):
    from flambeau.utils import collect_env

    collect_env.main()
    text = capsys.readouterr().out
    assert f"PyTorch version: {flambeau.__version__}" in text and "Is CUDA available: False" in text
    assert collect_env.run(["no such command"])[0] == 127 and "numpy" in collect_env.get_env_info().pip_packages


def test_parts_of_the_benchmark_module():
    from flambeau.utils import benchmark
    from flambeau.utils.benchmark.utils import common, compare, timer

    assert timer.Timer is benchmark.Timer and common.Measurement is benchmark.Measurement
    assert compare.Compare is benchmark.Compare


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages_say_how_much_memory_they_take():
    import sys

    small, large = (flambeau.zeros(n, dtype=flambeau.float64).untyped_storage() for n in (0, 100))
    assert sys.getsizeof(large) - sys.getsizeof(small) == 800
    assert sys.getsizeof(flambeau.zeros(100).storage()) - sys.getsizeof(flambeau.zeros(0).storage()) == 400
