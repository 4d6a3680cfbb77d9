"""What libraries import beside the documented interface: `_grouped_mm`, `_check`, `export`, `cpp_extension`, settings."""
import pickle

import pytest

import flambeau as fl
import flambeau.nn.functional as F


def test_grouped_mm_multiplies_groups():
    fl.manual_seed(0)
    ends = [3, 3, 10]
    offs = fl.tensor(ends, dtype=fl.int32)
    spans = list(zip([0, *ends], ends))
    a, b = fl.randn(10, 16), fl.randn(3, 16, 8)
    rows = fl.cat([a[s:e] @ m for (s, e), m in zip(spans, b)])
    assert fl.equal(F.grouped_mm(a, b, offs=offs), rows)
    assert fl.equal(fl._grouped_mm(a, b, offs), rows) and fl.equal(fl.ops.aten._grouped_mm(a, b, offs), rows)
    a, b = fl.randn(3, 8, 16), fl.randn(16, 12)
    columns = fl.cat([m @ b[:, s:e] for (s, e), m in zip([(0, 3), (3, 3), (3, 12)], a)], 1)
    assert fl.equal(F.grouped_mm(a, b, offs=fl.tensor([3, 3, 12], dtype=fl.int32)), columns)
    a, b = fl.randn(8, 12), fl.randn(12, 16)
    inner = fl.stack([a[:, :4] @ b[:4], fl.zeros(8, 16), a[:, 4:] @ b[4:]])
    assert fl.equal(F.grouped_mm(a, b, offs=fl.tensor([4, 4, 12], dtype=fl.int32)), inner)
    a, b = fl.randn(3, 8, 16), fl.randn(3, 16, 12)
    assert fl.equal(F.grouped_mm(a, b), a @ b)


def test_grouped_mm_has_gradients_and_leaves_the_rest_zero():
    a = fl.randn(10, 16, requires_grad=True)
    b = fl.randn(2, 16, 8, requires_grad=True)
    out = F.grouped_mm(a, b, offs=fl.tensor([4, 7], dtype=fl.int32))
    assert out.shape == (10, 8) and not out[7:].any()
    out.sum().backward()
    assert fl.allclose(a.grad[:4], b[0].sum(1).expand(4, 16)) and not a.grad[7:].any()
    assert fl.allclose(b.grad[1], a[4:7].sum(0)[:, None].expand(16, 8))


@pytest.mark.parametrize("shapes, offs, message", [
    (((10, 16), (3, 16, 8)), None, "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"),
    (((3, 8, 16), (3, 16, 8)), [1, 2, 3], "Have to provide offsets if there is a 2d matrix"),
    (((10, 16), (3, 12, 8)), [3, 3, 10], "contraction dimension of mat_a and mat_b must match"),
    (((10, 16), (3, 16, 8)), [3, 10], "matrix batch sizes have to match"),
    (((2, 8, 16), (3, 16, 8)), None, "batched dimension has to match"),
    (((10, 15), (3, 15, 8)), [3, 3, 10], "strides should be multiple of 16 bytes"),
    (((16,), (3, 16, 8)), [3, 3, 10], "mat_a has to be 2 or 3d"),
])  # fmt: skip
def test_grouped_mm_refuses(shapes, offs, message):
    a, b = map(fl.zeros, shapes)
    with pytest.raises(RuntimeError, match=message):
        F.grouped_mm(a, b, offs=None if offs is None else fl.tensor(offs, dtype=fl.int32))


def test_grouped_mm_takes_some_dtypes():
    offs = fl.tensor([3, 10], dtype=fl.int32)
    a, b = fl.randn(10, 16), fl.randn(2, 16, 8)
    assert F.grouped_mm(a.bfloat16(), b.bfloat16(), offs=offs).dtype == fl.bfloat16
    with pytest.raises(RuntimeError, match="Expected mat_a to be Float32, BFloat16 or Float16 matrix, got Double"):
        F.grouped_mm(a.double(), b.double(), offs=offs)
    with pytest.raises(RuntimeError, match="Offsets have to be int32"):
        F.grouped_mm(a, b, offs=offs.long())
    with pytest.raises(RuntimeError, match="Grouped gemm output dtype must match `mat_a` dtype"):
        F.grouped_mm(a, b, offs=offs, out_dtype=fl.bfloat16)


def test_checks():
    fl._check(True, lambda: 1 / 0)
    for check, error in ((fl._check, RuntimeError), (fl._check_index, IndexError), (fl._check_value, ValueError),
                         (fl._check_type, TypeError), (fl._check_not_implemented, NotImplementedError)):  # fmt: skip
        with pytest.raises(error, match="^Expected cond to be True, but got False"):
            check(False)
        with pytest.raises(error, match="^3$"):
            check(False, lambda: 3)
    with pytest.raises(TypeError, match="message must be a callable"):
        fl._check(False, "text")
    with pytest.raises(TypeError, match="cond must be a bool, but got <class 'int'>"):
        fl._check(1)
    with pytest.raises(TypeError, match="use torch._check_tensor_all"):
        fl._check(fl.tensor(True))
    fl._check_tensor_all(fl.tensor([True, True]))
    with pytest.raises(TypeError, match="cond tensor must have dtype torch.bool, but got torch.int64"):
        fl._check_tensor_all(fl.tensor([1]))
    with pytest.raises(KeyError):
        fl._check_tensor_all_with(KeyError, fl.tensor([True, False]))
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError):
        fl._check_is_size(3, max=2)


def test_export_declares_sizes_and_refuses_to_export():
    from flambeau.export import Dim, ExportedProgram, dims, export

    d = Dim("b", min=2, max=8)
    assert repr((d, 2 * d - 1, Dim.AUTO, Dim.DYNAMIC(min=2))) == "(Dim('b', max=8), 2*b - 1, DimHint(AUTO), DimHint(DYNAMIC, min=2))"
    assert ((2 * d + 1).min, (2 * d + 1).max) == (5, 17)
    assert [repr(x) for x in dims("x", "y", min=1)] == ["Dim('x', min=1)", "Dim('y', min=1)"]
    with pytest.raises(AssertionError, match="Cannot create Dim with inconsistent min=5, max=2"):
        Dim("x", min=5, max=2)
    with pytest.raises(NotImplementedError, match="a positive integer was expected"):
        d * 1.5
    assert isinstance(ExportedProgram, type)
    with pytest.raises(NotImplementedError, match="does not trace"):
        export(fl.nn.Linear(1, 1), (fl.ones(1),))
    with pytest.raises(ValueError, match="Expected `mod` to be an instance of `torch.nn.Module`"):
        export(len, ())


def test_extensions_are_not_built(tmp_path):
    from flambeau.utils import cpp_extension

    assert cpp_extension.include_paths() == [] and cpp_extension.LIB_EXT
    with pytest.raises(FileNotFoundError):
        cpp_extension.load(name="x", sources=[str(tmp_path / "none.cpp")])
    with pytest.raises(RuntimeError):
        cpp_extension.load_inline(name="x", cpp_sources="int f() { return 1; }", functions=["f"])


def test_settings_of_the_compiler_are_kept():
    from flambeau._dynamo import config as dynamo
    from flambeau._inductor import config, list_mode_options

    with config.patch({"triton.cudagraphs": True, "max_autotune": True}):
        assert config.triton.cudagraphs and config.max_autotune
    assert not config.triton.cudagraphs and not config.max_autotune
    with dynamo.patch(suppress_errors=True), dynamo.patch("recompile_limit", 1):
        assert dynamo.suppress_errors and dynamo.recompile_limit == 1
    assert not dynamo.suppress_errors and dynamo.recompile_limit == 8
    assert list_mode_options("max-autotune")["max_autotune"]


def test_containers_by_spec():
    from flambeau.fx import _pytree
    from flambeau.utils._pytree import tree_flatten

    spec = tree_flatten({"a": (1, [2]), "b": 0})[1]
    assert _pytree.tree_flatten_spec({"b": 1, "a": (2, [3])}, spec) == [2, 3, 1]
    with pytest.raises(RuntimeError, match="Cannot flatten pytree"):
        _pytree.tree_flatten_spec({"b": 1, "a": (2, [3]), "c": 4}, spec)


def test_operators_that_take_functions():
    from flambeau._ops import HigherOrderOperator

    class Twice(HigherOrderOperator):
        def __init__(self):
            super().__init__("twice_for_test")

        def __call__(self, fn, x):
            return super().__call__(fn, x)

    twice = Twice()
    with pytest.raises(NotImplementedError):
        twice(abs, -1)
    twice.py_impl(fl._C.DispatchKey.CompositeExplicitAutograd)(lambda fn, x: fn(fn(x)))
    assert twice(lambda x: x + 1, 1) == 3 and fl.ops.higher_order.twice_for_test is twice
    with pytest.raises(RuntimeError):
        HigherOrderOperator("none")


def test_what_optimisers_of_others_ask():
    from flambeau.optim.optimizer import _default_to_fused_or_foreach, _use_grad_for_differentiable

    assert _default_to_fused_or_foreach([fl.ones(1)], False) == (False, False)
    assert _default_to_fused_or_foreach([fl.ones(1)], False, True) == (True, False)

    class Plain(fl.optim.Optimizer):
        @_use_grad_for_differentiable
        def step(self, closure=None):
            return fl.is_grad_enabled()

    assert [Plain([fl.ones(1)], {"differentiable": wanted}).step() for wanted in (False, True)] == [False, True]


def test_sizes_as_tensors_and_names():
    from flambeau.onnx import TrainingMode, operators, select_model_mode_for_export

    x = fl.arange(6)
    assert operators.reshape_from_tensor_shape(x, fl.tensor([2, 3])).shape == (2, 3)
    assert operators.shape_as_tensor(x).tolist() == [6]
    assert fl.legacy_contiguous_format is fl.contiguous_format
    model = fl.nn.Linear(1, 1)
    with select_model_mode_for_export(model, TrainingMode.EVAL):
        assert not model.training
    assert model.training
    assert fl.accelerator.memory_allocated() == 0 or fl.accelerator.is_available()


def test_types_of_graphs_can_be_named():
    assert fl.TensorType.get() == fl._C.TensorType.get() and str(fl.TensorType.get()) == "Tensor"
    assert all(isinstance(getattr(fl._C, name), type) for name in ("Graph", "Node", "Value", "Block"))


def test_compiled_modules_show_their_module():
    module = fl.nn.Sequential(fl.nn.Linear(2, 2), fl.nn.ReLU())
    compiled = fl.compile(module, mode="reduce-overhead")
    assert type(compiled).__name__ == "OptimizedModule" and compiled._orig_mod is module
    assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert len(compiled) == 2 and not isinstance(compiled, fl.nn.Sequential)
    x = fl.ones(1, 2)
    assert fl.equal(compiled(x), module(x)) and compiled.to(fl.float64) is compiled and module[0].weight.dtype == fl.float64
    compiled.eval()
    assert not module.training and not compiled.training
    compiled.note = 3
    assert module.note == 3 and compiled.note == 3
    del compiled.note
    assert not hasattr(module, "note")
    copied = pickle.loads(pickle.dumps(compiled))
    assert copied._orig_mod is not module and fl.equal(copied(x.double()), module(x.double()))
    with pytest.raises(AttributeError, match="'Sequential' object has no attribute 'none'"):
        compiled.none
    with pytest.raises(TypeError, match=r"Linear does not support len\(\)"):
        len(fl.compile(module[0]))
    with pytest.raises(RuntimeError, match="Unrecognized mode=x, should be one of: default, lite"):
        fl.compile(module, mode="x")
