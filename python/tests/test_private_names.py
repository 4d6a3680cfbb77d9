"""Names that are not public in PyTorch, and that packages import all the same."""
import sys
import warnings

import pytest

import flambeau as fl
from flambeau import nn


def test_shapes_and_strides():
    import flambeau._prims_common as prims

    assert prims.canonicalize_dims(3, (0, -1)) == (0, 2) and prims.canonicalize_dims(3, -1) == 2 and prims.canonicalize_dim(0, 0) == 0
    with pytest.raises(IndexError, match=r"expected to be in range of \[-3, 2\], but got 5"):
        prims.canonicalize_dims(3, 5)
    with pytest.raises(IndexError, match="Dimension specified as 0 but tensor has no dimensions"):
        prims.canonicalize_dim(0, 0, False)
    for shape in ((2, 3, 4), (2, 0, 4), (), (5,)):
        assert prims.make_contiguous_strides_for(shape) == fl.empty(shape).stride()
    assert prims.make_contiguous_strides_for((2, 3, 4), row_major=False) == (12, 1, 3)
    for shape, layout in (((2, 3, 4, 5), fl.channels_last), ((2, 3, 4, 5, 6), fl.channels_last_3d)):
        x = fl.empty(shape, memory_format=layout)
        assert prims.make_channels_last_strides_for(shape) == x.stride() and prims.suggest_memory_format(x) is layout
        assert prims.suggest_memory_format(x.contiguous()) is fl.contiguous_format
    assert prims.compute_required_storage_length((2, 3), (3, 1), 4) == 10 and prims.compute_required_storage_length((0,), (1,), 4) == 0
    assert prims.infer_size((2, -1), 6) == (2, 3) and prims.reduction_dims((2, 3), None) == (0, 1)
    for wrong in (lambda: prims.infer_size((2, -1), 5), lambda: prims.infer_size((-1, -1), 4), lambda: prims.reduction_dims((2, 3), (0, -2))):
        with pytest.raises(RuntimeError):
            wrong()
    assert prims.is_non_overlapping_and_dense_or_false(fl.ones(3, 4).t())
    assert not prims.is_non_overlapping_and_dense_or_false(fl.ones(3, 4)[:, :2])
    assert prims.is_expandable_to((1, 3), (2, 3)) and not prims.is_expandable_to((2,), (2, 3))


def test_promotion_is_that_of_the_operators():
    import flambeau._prims_common as prims
    from flambeau._prims_common.wrappers import _maybe_convert_to_dtype

    kind = prims.ELEMENTWISE_TYPE_PROMOTION_KIND
    operands = [fl.ones(2, dtype=d) for d in (fl.bfloat16, fl.int8, fl.bool, fl.float64, fl.complex128)]
    operands += [fl.tensor(1.0, dtype=fl.float64), fl.tensor(3), fl.tensor(1j), fl.tensor(True), 3, 2.5, 1j, True]
    for a in operands:
        for b in operands:
            result = prims.elementwise_dtypes(a, b, type_promotion_kind=kind.DEFAULT)[1]
            assert result == fl.result_type(a, b), (a, b)
    half = fl.ones(2, dtype=fl.float16)
    assert prims.elementwise_dtypes(half, fl.tensor(1j), type_promotion_kind=kind.DEFAULT) == (fl.complex64, fl.complex32)
    assert prims.elementwise_dtypes(half, type_promotion_kind=kind.DEFAULT) == (fl.float32, fl.float16)
    assert prims.elementwise_dtypes(half, type_promotion_kind=kind.NO_OPMATH) == (fl.float16, fl.float16)
    assert prims.elementwise_dtypes(fl.ones(1, dtype=fl.int8), type_promotion_kind=kind.INT_TO_FLOAT)[1] == fl.float32
    assert prims.elementwise_dtypes(half, type_promotion_kind=kind.ALWAYS_BOOL) == (fl.float32, fl.bool)
    assert prims.get_higher_dtype(fl.int8, 2.5) == fl.float32 and prims.type_to_dtype(int) == fl.int64
    assert _maybe_convert_to_dtype((1, 2.5, None), fl.int64) == (1, 2, None) and _maybe_convert_to_dtype(half, fl.float64).dtype == fl.float64
    with pytest.raises(ValueError, match="Invalid type"):
        prims.type_to_dtype(str)


def test_alerts():
    from flambeau._prims_common import alert_not_deterministic

    alert_not_deterministic("mine")
    try:
        fl.use_deterministic_algorithms(True)
        with pytest.raises(RuntimeError, match="mine does not have a deterministic implementation"):
            alert_not_deterministic("mine")
        fl.use_deterministic_algorithms(True, warn_only=True)
        with pytest.warns(UserWarning, match="mine does not have a deterministic implementation"):
            alert_not_deterministic("mine")
    finally:
        fl.use_deterministic_algorithms(False)


def test_ordered_set():
    from flambeau.utils._ordered_set import OrderedSet

    x = OrderedSet([3, 1, 3, 2])
    assert list(x) == [3, 1, 2] and list(reversed(x)) == [2, 1, 3] and repr(x) == "OrderedSet([3, 1, 2])" and x == {1, 2, 3}
    assert list(x | [9, 1]) == [3, 1, 2, 9] and list(x & [2, 3]) == [2, 3] and list(x - {1}) == [3, 2]
    assert list(x.union([5], [4])) == [3, 1, 2, 5, 4] and list(x.difference([3], [1])) == [2] and x.issubset([1, 2, 3, 4])
    x.discard(7)
    x.add(0)
    assert x.pop() == 0 and len(x) == 3 and list(x.intersection([1, 2], [2])) == [2]
    x.clear()
    with pytest.raises(KeyError):
        x.pop()


def test_older_custom_operators():
    import flambeau._custom_ops as custom

    @custom.custom_op("private_names::scaled")
    def scaled(x: fl.Tensor, factor: float) -> fl.Tensor:
        raise AssertionError("its body does not matter")

    custom.impl("private_names::scaled", func=lambda x, factor: x * factor)
    custom.impl_abstract("private_names::scaled", func=lambda x, factor: fl.empty_like(x))
    custom.impl_save_for_backward("private_names::scaled", func=lambda inputs, output: inputs.factor)
    custom.impl_backward("private_names::scaled", func=lambda ctx, saved, grad: {"x": grad * saved})
    x = fl.ones(2, requires_grad=True)
    fl.ops.private_names.scaled(x, 3.0).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0] and fl.ops.private_names.scaled(fl.ones(2, device="meta"), 2.0).is_meta
    for wrong in (lambda: custom.custom_op("scaled", "(Tensor x) -> Tensor"), lambda: custom.custom_op("a::b", "(Tensor(a!) x) -> Tensor")):
        with pytest.raises(ValueError):
            wrong()
    # What is said of an operator that comes later, or never: packages say it of operators in libraries that are not loaded.
    fl.library.register_fake("private_names::later", lambda x: x.new_empty(5))
    fl.library.define("private_names::later", "(Tensor x) -> Tensor")
    assert fl.ops.private_names.later(fl.ones(2, device="meta")).shape == (5,)


def test_final_callbacks_of_a_backward_pass():
    engine = fl.autograd.Variable._execution_engine
    seen = []
    x = fl.ones(2, requires_grad=True)

    def hook(grad):
        engine.queue_callback(lambda: seen.append(x.grad.tolist()))
        seen.append("hook")

    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
    assert seen == ["hook", [2.0, 2.0]]  # after the gradient was there
    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward pass"):
        engine.queue_callback(print)

    def failing(grad):
        engine.queue_callback(lambda: seen.append("never"))
        raise ValueError("in a hook")

    y = x * 2
    y.register_hook(failing)
    with pytest.raises(ValueError, match="in a hook"):
        y.sum().backward()
    assert "never" not in seen


def test_old_classes_of_sparse_tensors():
    x = fl.sparse.FloatTensor(fl.tensor([[0, 2]]), fl.tensor([1.0, 2.0]), fl.Size([3]))
    assert x.to_dense().tolist() == [1.0, 0.0, 2.0] and isinstance(x, fl.sparse.FloatTensor)
    assert not isinstance(x, fl.sparse.DoubleTensor) and not isinstance(x.to_dense(), fl.sparse.FloatTensor)
    assert not isinstance(x, fl.FloatTensor)
    empty = fl.sparse.LongTensor(2, 3)
    assert empty.shape == (2, 3) and empty.dtype == fl.int64 and empty._nnz() == 0 and fl.sparse.FloatTensor().shape == (0,)
    with pytest.raises(AttributeError, match="has no attribute 'NoTensor'"):
        fl.sparse.NoTensor


def test_schemes_and_tags():
    import pickle

    assert repr(fl.per_tensor_affine) == "torch.per_tensor_affine" and isinstance(fl.per_channel_symmetric, fl.qscheme)
    with pytest.raises(TypeError):
        fl.qscheme()
    assert [t.name for t in fl.Tag][:2] == ["core", "cudagraph_unsafe"] and fl.Tag.pointwise.value == 16
    assert pickle.loads(pickle.dumps(fl.Tag.core)) is fl.Tag.core
    fl.library.define("private_names::tagged", "(Tensor x) -> Tensor", tags=(fl.Tag.needs_fixed_stride_order,))


def test_modules_that_are_imported_by_name():
    from flambeau.fx._compatibility import compatibility
    from flambeau.fx.graph import dtype_abbrs
    from flambeau.onnx.symbolic_helper import parse_args
    from flambeau.profiler.profiler import ProfilerAction, _default_schedule_fn, profile
    from flambeau.quantization import QuantStub
    from flambeau.utils._triton import has_triton
    from flambeau.utils.deterministic import fill_uninitialized_memory

    assert profile is fl.profiler.profile and _default_schedule_fn(3) is ProfilerAction.RECORD and not has_triton()
    assert fill_uninitialized_memory is True and dtype_abbrs[fl.bfloat16] == "bf16" and QuantStub is fl.ao.quantization.QuantStub
    with pytest.raises(RuntimeError, match="expected a bool"):
        fl.utils.deterministic.fill_uninitialized_memory = 1

    @compatibility(is_backward_compatible=False)
    def marked():
        """It does."""

    assert marked.__doc__.startswith("It does.") and "NOT" in marked.__doc__

    @parse_args("v", "i")
    def rule(graph, x, n):
        return n

    assert rule(None, 1, 2) == 2
    with pytest.raises(AssertionError, match="A mismatch between the number of arguments"):
        rule(None, 1, 2, 3)
    with pytest.raises(NotImplementedError, match="does not write ONNX models"):
        fl.onnx.symbolic_opset11.unsqueeze(None, 1)


def test_names_within_modules(tmp_path, monkeypatch):
    from flambeau.distributions.transforms import _clipped_sigmoid
    from flambeau.nn.attention.flex_attention import _mask_mod_signature, _score_mod_signature
    from flambeau.nn.functional import _mha_shape_check
    from flambeau.nn.modules.conv import _ConvTransposeMixin, _ConvTransposeNd
    from flambeau.nn.utils import parametrize
    from flambeau.optim.lr_scheduler import ConstantLR, _enable_get_lr_call
    from flambeau.utils.cpp_extension import _get_build_directory

    kept = _clipped_sigmoid(fl.tensor([-200.0, 0.0, 200.0]))
    assert (kept > 0).all() and (kept < 1).all() and kept[1] == 0.5
    assert len(_mask_mod_signature.__args__) == len(_score_mod_signature.__args__) - 1 == 5
    assert _mha_shape_check(fl.ones(2, 3, 4), fl.ones(2, 3, 4), fl.ones(2, 3, 4), None, None, 2)
    assert issubclass(_ConvTransposeMixin, _ConvTransposeNd)
    schedule = ConstantLR(fl.optim.SGD([nn.Parameter(fl.ones(1))], lr=0.1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with _enable_get_lr_call(schedule):
            schedule.get_lr()
    assert parametrize._cache_enabled == 0
    with parametrize.cached():
        assert parametrize._cache_enabled == 1 and parametrize._cache == {}
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    assert _get_build_directory("mine", False) == str(tmp_path / "mine") and (tmp_path / "mine").is_dir()
    assert fl.Storage is fl.FloatStorage
    if sys.platform == "linux":
        assert fl.cpu._is_avx512_supported() <= fl.cpu._is_avx2_supported()


def test_parts_of_nested_tensors():
    sizes = fl.tensor([[2, 2], [1, 2]])
    strides, starts = fl._nested_compute_contiguous_strides_offsets(sizes)
    assert strides.tolist() == [[2, 1], [2, 1]] and starts.tolist() == [0, 4]
    view = fl._nested_view_from_buffer(fl.arange(6.0), sizes, strides, starts)
    assert view[0].tolist() == [[0.0, 1.0], [2.0, 3.0]] and view[1].tolist() == [[4.0, 5.0]]
    from flambeau.nested._internal.nested_tensor import NestedTensor
    from flambeau.nested._internal.ops import extract_kwargs

    x = fl.nested.nested_tensor([fl.ones(2, 3), fl.ones(1, 3)], layout=fl.jagged)
    again = NestedTensor(x.values() * 2, **extract_kwargs(x))
    assert again.shape == x.shape and again.sum() == 18


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_gradients_of_each_sample(reduction):
    from flambeau.nn.utils._per_sample_grad import call_for_per_sample_grads

    fl.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(2, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(9, 2))
    model[0].bias.requires_grad_(False)
    x = fl.randn(5, 2, 4)
    result = call_for_per_sample_grads(model, loss_reduction=reduction)(x)
    loss = result.square().sum(-1)
    (loss.sum() if reduction == "sum" else loss.mean()).backward()
    assert fl.allclose(result, model(x), atol=1e-6) and not hasattr(model[0].bias, "grad_sample")
    for p in (model[0].weight, model[3].weight, model[3].bias):
        expected = fl.stack([fl.autograd.grad(model(row[None]).square().sum(), p)[0] for row in x])
        assert p.grad is None and fl.allclose(p.grad_sample, expected, rtol=1e-4, atol=1e-6)
    for wrong, text in ((lambda: call_for_per_sample_grads(model), "Please clear out the grad_sample parameter"),
                        (lambda: call_for_per_sample_grads(3), "Module passed must be nn.Module, got int"),
                        (lambda: call_for_per_sample_grads(nn.ReLU(), loss_reduction="max"), "to be sum or mean, got max"),
                        (lambda: call_for_per_sample_grads(nn.Linear(4, 1), batch_size=3)(x), "input batch size of 5 with"),
                        (lambda: call_for_per_sample_grads(nn.Bilinear(3, 3, 2))(fl.ones(2, 3), fl.ones(3, 3)), "specify it explicitly"),
                        (lambda: call_for_per_sample_grads(nn.BatchNorm1d(2))(x), "cannot handle function batch_norm")):
        with pytest.raises(RuntimeError, match=text):
            wrong()


def test_questions_as_operators():
    aten, x = fl.ops.aten, fl.arange(6.0).reshape(2, 3)
    assert aten.sym_size.int(x, 1) == 3 and aten.sym_size.default(x) == aten.size(x) == [2, 3] and aten.sym_size(x, 0) == 2
    assert aten.sym_stride.int(x, 0) == 3 and aten.stride(x) == [3, 1] and aten.sym_numel.default(x) == aten.numel(x) == 6
    assert aten.sym_storage_offset(x[1]) == 3 and aten.dim.default(x) == 2 and aten.is_same_size(x, x) and not aten.is_same_size(x, x.t())
    assert aten.is_contiguous(x) and not aten.is_contiguous.default(x.t()) and aten.is_floating_point(x) and not aten.is_complex(x)
    assert aten.is_contiguous.memory_format(fl.empty(1, 2, 3, 4, memory_format=fl.channels_last), fl.channels_last)
    copied = aten.copy.default(x.int(), x + 0.5)
    assert copied.dtype == fl.int32 and copied.tolist() == [[0, 1, 2], [3, 4, 5]] and aten.lift_fresh(x) is x
    y = fl.ones(2, requires_grad=True) * 2
    assert aten.detach_(y) is y and not y.requires_grad and aten._local_scalar_dense(fl.tensor([2.5])) == 2.5
    assert aten._is_any_true(x > 1) and not aten._is_all_true(x > 1) and aten._assert_async(fl.tensor(True)) is None
    aten._assert_tensor_metadata(x, [2, 3], [3, 1], fl.float32, device=fl.device("cpu"), layout=fl.strided)
    assert str(aten.sym_size.int._schema) == "aten::sym_size.int(Tensor self, int dim) -> SymInt"
    for wrong, error, text in ((lambda: aten._assert_async(fl.tensor(False)), RuntimeError, "Expected Tensor with single nonzero value, but got zero"),
                               (lambda: aten._assert_async.msg(fl.tensor(0), "no!"), RuntimeError, "no!"),
                               (lambda: aten._assert_tensor_metadata(x, [2, 4]), RuntimeError, r"sizes mismatch! Expected: \[2, 4\], Got: \[2, 3\]"),
                               (lambda: aten._is_all_true(x), RuntimeError, "expected a tensor of dtype bool"),
                               (lambda: aten.copy(x, fl.ones(4)), RuntimeError, "must match the size"),
                               (lambda: aten.sym_size.int(x, 5), IndexError, "Dimension out of range")):
        with pytest.raises(error, match=text):
            wrong()


def test_what_minimizers_take_from_derivatives_of_functions():
    from flambeau._vmap_internals import _vmap
    from flambeau.autograd.functional import _as_tuple, _construct_standard_basis_for, _grad_postprocess, _tuple_postprocess

    first, second = _construct_standard_basis_for((fl.ones(2), fl.ones(3, dtype=fl.float64)), (2, 3))
    assert fl.equal(first, fl.eye(5)[:, :2]) and fl.equal(second, fl.eye(5, dtype=fl.float64)[:, 2:])
    x = fl.ones(2, requires_grad=True) * 2
    ((plain,), (kept,)) = _grad_postprocess(((x,),), False)[0], _grad_postprocess(((x,),), True)[0]
    assert not plain.requires_grad and kept is x
    assert _tuple_postprocess(((1, 2), (3, 4)), (True, True)) == ((1, 2), (3, 4)) and _tuple_postprocess((1,), False) == 1
    assert _tuple_postprocess(((1,), (3,)), (True, False)) == (1, 3) and _tuple_postprocess(((1, 2),), (False, True)) == (1, 2)
    assert _as_tuple(x) == _as_tuple([x]) == (x,) and _as_tuple((x,), "a", "b") == (True, (x,)) and _as_tuple(x, "a", "b")[0] is False
    with pytest.raises(TypeError, match="The a given to b must be either a Tensor or a tuple of Tensors but the given a has type"):
        _as_tuple([x], "a", "b")
    doubled, absent = _vmap(lambda row: (row * 2, None), allow_none_pass_through=True)(fl.ones(2, 3))
    assert absent is None and fl.equal(doubled, _vmap(lambda row: row * 2)(fl.ones(2, 3)))


def test_the_line_search_as_a_function():
    from flambeau.optim.lbfgs import _cubic_interpolate, _strong_wolfe

    def parabola(x, step, direction):
        place = x + step * direction
        return float((place**2).sum()), 2 * place

    x, direction = fl.tensor([2.0, -1.0]), fl.tensor([-4.0, 2.0])
    loss, grad = parabola(x, 0, direction)
    found, gradient, step, calls = _strong_wolfe(parabola, x, 1.0, direction, loss, grad, grad.dot(direction))
    assert abs(found) < 1e-10 and gradient.abs().max() < 1e-5 and abs(float(step) - 0.5) < 1e-6 and calls == 2
    numbers = [fl.tensor(v) for v in (0.0, 1.0, -2.0, 2.0, 1.0, 2.0)]  # (x - 1) ** 2
    assert abs(float(_cubic_interpolate(*numbers)) - 1) < 1e-6 and float(_cubic_interpolate(*numbers, bounds=(1.5, 2))) == 1.5


def test_programs_of_several_processes_import(tmp_path, monkeypatch):
    import json

    import flambeau.distributed.autograd
    from flambeau.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure, record

    assert callable(fl.distributed.autograd.backward) and fl.DeviceObjType.get() == fl.DeviceObjType.get()
    assert str(fl.DeviceObjType.get()) == "Device" and fl.DeviceObjType.get().kind() == "DeviceObjType"
    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))

    @record
    def main(what):
        """Runs."""
        if isinstance(what, BaseException):
            raise what
        return what

    assert main(3) == 3 and main.__doc__ == "Runs." and main(SystemExit(0)) is None and not path.exists()
    with pytest.raises(SystemExit):
        main(SystemExit(2))
    with pytest.raises(ValueError, match="wrong"):
        main(ValueError("wrong"))
    message = json.loads(path.read_text())["message"]
    assert message["message"] == "ValueError: wrong" and "in main" in message["extraInfo"]["py_callstack"]
    failed = ChildFailedError("job", {0: ProcessFailure(local_rank=0, pid=7, exitcode=1, error_file=str(path))})
    assert failed.name == "job" and failed.failures[0].pid == 7


def test_operators_that_are_only_named():
    aten = fl.ops.aten
    table = {getattr(aten, name): name for name in (
        "_convolution _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention _scaled_mm cudnn_batch_norm "
        "_native_multi_head_attention _thnn_fused_lstm_cell slow_conv_transpose2d mkldnn_convolution").split()}
    assert table[aten._scaled_mm] == "_scaled_mm" and {aten._scaled_mm.default: 1}[aten._scaled_mm.default] == 1
    assert str(aten._convolution) == "aten._convolution" and {"default", "deprecated"} <= set(aten._convolution.overloads())
    with pytest.raises(Exception):
        aten._convolution(fl.ones(1))
    for wrong in (lambda: aten.nonsense, lambda: aten._scaled_mm.nonsense):
        with pytest.raises(AttributeError, match="nonsense"):
            wrong()
