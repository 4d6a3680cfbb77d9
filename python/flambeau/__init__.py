"""Flambeau: PyTorch's interface over a Rust core. Sub-packages are imported when first used."""
import sys as _sys
from math import e, inf, nan, pi

from . import _C, _generator, _size
from ._torch_names import CONSTANTS as _CONSTANTS
from ._torch_names import FUNCTIONS as _FUNCTIONS

Size = _size.Size
_C._set_size_class(Size)
_C.Size = Size

from ._tensor import Tensor  # noqa: E402
from ._dtype_info import finfo, iinfo  # noqa: E402
from ._typed import CLASSES as _TYPED  # noqa: E402
from .torch_version import __version__  # noqa: E402

newaxis = None
# Of a sparse matrix and a dense one, whose product is dense.
spmm = dsmm = _C.mm
# What the core computes with, as PyTorch tells it of its libraries.
has_mkl = has_openmp = has_mkldnn = False
has_lapack = has_spectral = True

globals().update(_TYPED)
globals().update((name, getattr(_C, name)) for name in (*_FUNCTIONS, *_CONSTANTS) if hasattr(_C, name))
globals().update((name, getattr(_C, name)) for name in ("DisableTorchFunction", "DisableTorchFunctionSubclass", "Generator",
                                                        "default_generator", "device", "dtype", "layout", "memory_format"))  # fmt: skip
legacy_contiguous_format = contiguous_format  # noqa: F821

# Sub-modules, imported when first asked for.
_MODULES = frozenset(
    "accelerator amp ao as_torch autograd backends classes compiler cpu cuda distributed distributions export fft func functional "
    "futures fx hub jit library linalg masked mps mtia multiprocessing nested nn optim overrides profiler quantization quasirandom "
    "onnx random return_types serialization signal sparse special storage testing torch_version types utils version xpu _C "
    "__config__ __future__ _dynamo _functorch _guards _higher_order_ops _inductor _jit_internal _subclasses _tensor _tensor_str "
    "_tensor_text _utils _VF _vmap_internals _ops _custom_ops _prims_common".split()
)
_FROM_MODULE = {
    "_archive": "PyTorchFileReader PyTorchFileWriter",
    "_dtype_info": "",
    "_grouped": "_grouped_mm",
    "_ops": "ops",
    "_settings": (
        "use_deterministic_algorithms are_deterministic_algorithms_enabled "
        "is_deterministic_algorithms_warn_only_enabled set_deterministic_debug_mode get_deterministic_debug_mode "
        "set_float32_matmul_precision get_float32_matmul_precision set_warn_always is_warn_always_enabled "
        "set_num_interop_threads get_num_interop_threads set_flush_denormal init_num_threads set_default_dtype "
        "set_default_tensor_type compiled_with_cxx11_abi is_vulkan_available"
    ),
    "_symbolic": (
        "SymInt SymFloat SymBool sym_float sym_int sym_not sym_max sym_min sym_ite sym_sum sym_sqrt sym_fresh_size "
        "sym_constrain_range sym_constrain_range_for_size"
    ),
    "_control": "cond while_loop",
    "_checks": (
        "_check _check_index _check_is_size _check_not_implemented _check_tensor_all _check_tensor_all_with _check_type "
        "_check_value _check_with"
    ),
    "_core_names": (
        "AcceleratorError DeviceObjType DispatchKey DispatchKeySet ExcludeDispatchKeyGuard FatalError OutOfMemoryError "
        "TensorType"
    ),
    "_interop": "asarray from_dlpack to_dlpack from_file vander get_device_module get_device",
    "_legacy_autocast": (
        "is_autocast_cpu_enabled set_autocast_cpu_enabled get_autocast_cpu_dtype set_autocast_cpu_dtype "
        "get_autocast_gpu_dtype set_autocast_gpu_dtype is_autocast_ipu_enabled set_autocast_ipu_enabled "
        "get_autocast_ipu_dtype set_autocast_ipu_dtype is_autocast_xla_enabled set_autocast_xla_enabled "
        "get_autocast_xla_dtype set_autocast_xla_dtype"
    ),
    "_names": "typename is_tensor is_nonzero is_distributed _assert _assert_async",
    "_removed": "eig solve lstsq symeig matrix_rank",
    "_tensor_text": "set_printoptions",
    "_utils": "classproperty",
    "testing": "FileCheck",
    "_qscheme": (
        "qscheme per_tensor_affine per_channel_affine per_tensor_symmetric per_channel_symmetric "
        "per_channel_affine_float_qparams"
    ),
    "_tag": "Tag",
    "nested._internal.strided": "_nested_view_from_buffer _nested_compute_contiguous_strides_offsets",
    "amp": "autocast GradScaler",
    "autograd.anomaly_mode": "is_anomaly_enabled is_anomaly_check_nan_enabled set_anomaly_enabled",
    "autograd.grad_mode": "no_grad enable_grad inference_mode set_grad_enabled",
    "_streams": "Stream Event",
    "compiler": "compile",
    "func": "vmap",
    "functional": (
        "atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist chain_matmul "
        "_segment_reduce _shape_as_tensor einsum histogramdd istft lobpcg lu meshgrid norm pca_lowrank split stft svd_lowrank tensordot "
        "unique unique_consecutive unravel_index"
    ),
    "jit": "Future fork wait CompilationUnit ScriptModule ScriptFunction",
    "_ranges": "range",
    "random": "manual_seed seed initial_seed get_rng_state set_rng_state thread_safe_generator",
    "serialization": "save load",
    "sparse": "sparse_coo_tensor sparse_csr_tensor sparse_compressed_tensor",
    "storage": (
        "is_storage StorageBase TypedStorage UntypedStorage BFloat16Storage BoolStorage ByteStorage CharStorage "
        "ComplexDoubleStorage ComplexFloatStorage DoubleStorage FloatStorage HalfStorage IntStorage LongStorage ShortStorage "
        "Storage"
    ),
    "utils._device": "set_default_device get_default_device",
}
# Names of the top level that live in a sub-module.
_FROM = {name: module for module, names in _FROM_MODULE.items() for name in names.split()}
# These stand before an operator of the core with the same name.
for _name in (*_FROM_MODULE["functional"].split(), *_FROM_MODULE["sparse"].split()):
    globals().pop(_name, None)


def __getattr__(name):
    from importlib import import_module

    if name in _FROM:
        value = globals()[name] = getattr(import_module("flambeau." + _FROM[name]), name)
        return value
    if name == "torch":
        return _package()
    if name in _MODULES:
        try:
            return import_module("flambeau." + name)
        except ModuleNotFoundError as error:
            if error.name != "flambeau." + name:
                raise
    if name.startswith("_") and not name.startswith("__"):
        try:
            return getattr(_C, name)
        except AttributeError:
            pass
    raise AttributeError(_absence("torch", name))


def _absence(module, name):
    """What to say of a name that a module lacks."""
    from ._torch_names import FUNCTIONS, CONSTANTS, OTHERS

    text = f"module '{module}' has no attribute '{name}'"
    if _sys.modules.get("torch") is not _package():
        text = text.replace("torch", "flambeau", 1)
    known = name in FUNCTIONS or name in CONSTANTS or name in OTHERS
    return f"{text}: PyTorch's '{module}.{name}' does not exist in Flambeau yet" if known else text


def __dir__():
    found = {*globals(), *_FROM, *(m for m in _MODULES if not m.startswith("_"))}
    return sorted(n for n in found if not n.startswith("_") or n.startswith("__"))


def _lend(name):
    """Names that the core's module is asked for and that are written in Python."""
    if name == "ops":
        from ._ops import needed

        return needed
    if name in _LENT:
        return getattr(_package(), name)
    if name in ("_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_"):
        from . import _amp

        return getattr(_amp, name)
    if name in _FUNCTIONS:
        from ._ops import missing_operator

        return missing_operator(name)
    from ._core_names import find as find_own

    found = find_own(name)
    if found is None:
        raise AttributeError(f"the core has no operator or function '{name}'")
    setattr(_C, name, found)
    return found


def _package():
    return _sys.modules["flambeau"]


_LENT = frozenset(
    "no_grad enable_grad set_grad_enabled inference_mode broadcast_tensors broadcast_shapes manual_seed get_rng_state "
    "set_rng_state PyTorchFileReader PyTorchFileWriter linalg overrides finfo iinfo asarray meshgrid atleast_1d "
    "atleast_2d typename vander".split()
)
_C.__getattr__ = _lend
_C.__path__ = []  # its parts can be imported as modules: `torch._C._functorch`

__all__ = [name for name in (*_FUNCTIONS, *_CONSTANTS, *_TYPED, *_FROM) if name[0] != "_" and (name in _FROM or name in globals())]
__all__ += ["Tensor", "Size", "Generator", "device", "dtype", "layout", "memory_format", "default_generator", "finfo",
            "iinfo", "e", "inf", "nan", "newaxis", "pi"]  # fmt: skip
