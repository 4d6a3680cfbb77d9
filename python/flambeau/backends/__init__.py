"""What this build can use, answered truthfully, and the switches that programs set."""
import contextlib as _contextlib
import sys as _sys
import types as _types

from .. import _C
from .._deprecation import deprecated as _deprecated


class _Backend(_types.ModuleType):
    """A module of answers and switches; `with m.flags(...)` sets switches for a block."""

    def __init__(self, name, doc, answers=None, **switches):
        super().__init__(f"{__name__}.{name}", doc)
        self.__dict__["_switches"] = tuple(switches)
        self.__dict__.update(switches)
        for key, value in (answers or {}).items():
            self.__dict__[key] = value if callable(value) else (lambda value=value: value)
        _sys.modules[self.__name__] = self

    def set_flags(self, *args, **kwargs):
        """Sets switches, gives back their old values."""
        given = {**dict(zip((s.lstrip("_") for s in self._switches), args)), **kwargs}
        names = [n.lstrip("_") for n in self._switches]
        old = tuple(getattr(self, n, None) for n in names)
        for name, value in given.items():
            if value is not None and name in self._switches:
                setattr(self, name, value)
        return old

    @_contextlib.contextmanager
    def flags(self, *args, **kwargs):
        old = {n: getattr(self, n) for n in self._switches}
        self.set_flags(*args, **kwargs)
        try:
            yield
        finally:
            self.__dict__.update(old)


def _pair(name, default):
    """`enable_name(flag)` and `name_enabled()`."""
    state = [default]

    def enable(enabled):
        state[0] = bool(enabled)

    return {f"enable_{name}": enable, f"{name}_enabled": lambda: state[0]}


class _Switches:
    def __init__(self, **values):
        self.__dict__.update(values)


def _cpu_capability():
    return _C._cpu_capability()


cpu = _Backend("cpu", "The processor.", {"get_cpu_capability": _cpu_capability})


@_contextlib.contextmanager
def _sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    yield


cuda = _Backend(
    "cuda",
    "CUDA: not built in.",
    {
        "is_built": False,
        "is_flash_attention_available": False,
        "is_ck_sdpa_available": False,
        "can_use_flash_attention": lambda params=None, debug=False: False,
        "can_use_efficient_attention": lambda params=None, debug=False: False,
        "can_use_cudnn_attention": lambda params=None, debug=False: False,
        "sdp_kernel": _deprecated(
            "`torch.backends.cuda.sdp_kernel()` is deprecated. In the future, this context manager will be removed. Please see "
            "`torch.nn.attention.sdpa_kernel()` for the new context manager, with updated signature."
        )(_sdp_kernel),
        "preferred_linalg_library": lambda backend=None: "default",
        "preferred_blas_library": lambda backend=None: "default",
        "preferred_rocm_fa_library": lambda backend=None: "default",
        "allow_fp16_bf16_reduction_math_sdp": lambda enabled: None,
        "fp16_bf16_reduction_math_sdp_allowed": False,
        **_pair("flash_sdp", True),
        **_pair("mem_efficient_sdp", True),
        **_pair("math_sdp", True),
        **_pair("cudnn_sdp", True),
    },
)
cuda.matmul = _Switches(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    allow_fp16_accumulation=False,
    fp32_precision="none",
)
cuda.cufft_plan_cache = _Switches(size=0, max_size=0)
cudnn = _Backend(
    "cudnn",
    "cuDNN: not built in.",
    {"is_available": False, "version": None, "is_acceptable": lambda tensor: False},
    enabled=True, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True, fp32_precision="none",
)  # fmt: skip
cudnn.rnn = _Switches(fp32_precision="none")
cudnn.conv = _Switches(fp32_precision="none")
cusparselt = _Backend("cusparselt", "cuSPARSELt: not built in.", {"is_available": False, "version": None, "get_max_alg_id": None})
kleidiai = _Backend("kleidiai", "KleidiAI: not built in.", {"is_available": False})
mha = _Backend("mha", "The fast path of multi-head attention.", **{"_fastpath": True})
mha.get_fastpath_enabled = lambda: mha._fastpath
mha.set_fastpath_enabled = lambda value: setattr(mha, "_fastpath", value)
miopen = _Backend("miopen", "MIOpen: not built in.", {"is_available": False, "version": None}, immediate=False)


class _Verbose:
    def __init__(self, level=0):
        self.level = level

    def __enter__(self):
        return self

    def __exit__(self, *args):
        return False


mkl = _Backend("mkl", "MKL: not built in.", {"is_available": False, "verbose": _Verbose})
mkl.VERBOSE_OFF, mkl.VERBOSE_ON = 0, 1
mkldnn = _Backend(
    "mkldnn", "oneDNN: not built in.",
    {"is_available": False, "verbose": _Verbose, "is_acl_available": False}, enabled=True, deterministic=False,
    allow_tf32=True, fp32_precision="none",
)  # fmt: skip
mkldnn.VERBOSE_OFF, mkldnn.VERBOSE_ON, mkldnn.VERBOSE_ON_CREATION = 0, 1, 2
mps = _Backend(
    "mps", "Metal: not built in.",
    {"is_available": False, "is_built": False, "is_macos13_or_newer": lambda minor=0: False,
     "is_macos_or_newer": lambda major, minor: False, "get_name": "", "get_core_count": 0},
)  # fmt: skip
nnpack = _Backend("nnpack", "NNPACK: not built in.", {"is_available": False}, enabled=True)
openmp = _Backend("openmp", "OpenMP: not built in; kernels run on the library's own threads.", {"is_available": False})
opt_einsum = _Backend("opt_einsum", "Choosing einsum's order.", {"is_available": True, "get_opt_einsum": None}, enabled=True, strategy="auto")
python_native = _Backend("python_native", "Kernels in Python languages: none.")
python_native.all_dsls, python_native.available_dsls = [], []
quantized = _Backend("quantized", "Engines for quantized operators: none.", engine="none", supported_engines=["none"])

fp32_precision = "none"


def disable_global_flags():
    """Kept for programs that call it: flags are global here."""


def flags_frozen():
    return False

