"""CUDA's interface. This build drives no such device: queries say so, and whatever needs one raises."""
import contextlib as _contextlib
import sys as _sys
import types as _types
from collections import OrderedDict as _OrderedDict

from .. import _C

_MESSAGE = "Torch not compiled with CUDA enabled"

has_half = True
has_magma = False
default_generators = ()


class CudaError(RuntimeError):
    """An error code from the device."""

    def __init__(self, code):
        super().__init__(f"CUDA error ({code})")


class DeferredCudaCallError(Exception):
    """An error in a call that waited for initialization."""


AcceleratorError = getattr(_C, "AcceleratorError", RuntimeError)
OutOfMemoryError = getattr(_C, "OutOfMemoryError", RuntimeError)


class cudaStatus:
    SUCCESS = 0
    ERROR_NOT_READY = 34


def _needs_device(*args, **kwargs):
    raise AssertionError(_MESSAGE)


# Whether a device is in use: what checkpointing asks before it keeps the state of its generator.
_initialized = False


def _lazy_init():
    raise AssertionError(_MESSAGE)


def _lazy_call(callable, **kwargs):
    """What is to be done once a device is used, which never happens."""


def _is_in_bad_fork():
    return False


def is_available():
    return False


def is_initialized():
    return _initialized


def is_bf16_supported(including_emulation=True):
    return False


def is_tf32_supported():
    return False


def is_current_stream_capturing():
    return False


def device_count():
    return 0


def get_arch_list():
    return []


def get_gencode_flags():
    return ""


def get_sync_debug_mode():
    return 0


def get_allocator_backend():
    return "native"


def memory_stats(device=None):
    return _OrderedDict()


memory_stats_as_nested_dict = host_memory_stats = host_memory_stats_as_nested_dict = memory_stats


def _zero(device=None):
    return 0


memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = memory_cached = max_memory_cached = _zero


def memory_snapshot(mempool_id=None, include_traces=True):
    return []


def get_rng_state_all():
    return []


def set_rng_state_all(new_states):
    if list(new_states):
        _needs_device()


def _nothing(*args, **kwargs):
    return None


# What PyTorch does without a device too: nothing, or later.
empty_cache = manual_seed = manual_seed_all = seed = seed_all = caching_allocator_enable = _nothing
reset_accumulated_memory_stats = reset_peak_memory_stats = reset_max_memory_allocated = reset_max_memory_cached = _nothing
reset_accumulated_host_memory_stats = reset_peak_host_memory_stats = change_current_allocator = _nothing
set_sync_debug_mode = check_error = _nothing


class device:
    """A context manager that would select a device; a negative one selects none."""

    def __init__(self, device):
        self.idx = device if isinstance(device, int) else getattr(device, "index", None) or -1
        self.prev_idx = -1

    def __enter__(self):
        if self.idx >= 0:
            _needs_device()

    def __exit__(self, *args):
        return False


class device_of(device):
    def __init__(self, obj):
        super().__init__(obj.get_device() if getattr(obj, "is_cuda", False) else -1)


class StreamContext:
    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        if self.stream is not None:
            _needs_device()

    def __exit__(self, *args):
        return False


def stream(stream):
    return StreamContext(stream)


@_contextlib.contextmanager
def caching_allocator_disabled():
    yield


def _absent(name):
    """A class that exists for isinstance and annotations; making one raises."""
    return type(name, (), {"__init__": _needs_device, "__module__": __name__})


for _name in ("Stream", "Event", "ExternalStream", "CUDAGraph", "CUDAPluggableAllocator", "MemPool", "GreenContext",
              "graph", "use_mem_pool"):  # fmt: skip
    globals()[_name] = _absent(_name)
for _kind in ("BFloat16", "Bool", "Byte", "Char", "ComplexDouble", "ComplexFloat", "Double", "Float", "Half", "Int",
              "Long", "Short"):  # fmt: skip
    globals()[_kind + "Storage"] = _absent(_kind + "Storage")
    if not _kind.startswith("Complex"):
        globals()[_kind + "Tensor"] = _absent(_kind + "Tensor")
for _name in (
    "init current_device set_device synchronize get_device_name get_device_properties get_device_capability mem_get_info "
    "current_stream default_stream set_stream get_stream_from_external ipc_collect initial_seed get_rng_state "
    "set_rng_state memory_summary list_gpu_processes memory_usage utilization temperature power_draw clock_rate "
    "device_memory_used can_device_access_peer cudart current_blas_handle current_solver_handle caching_allocator_alloc "
    "caching_allocator_delete get_per_process_memory_fraction set_per_process_memory_fraction graph_pool_handle "
    "make_graphed_callables"
).split():
    globals()[_name] = _needs_device


def _submodule(name, **contents):
    module = _types.ModuleType(f"{__name__}.{name}")
    module.__dict__.update(contents)
    globals()[name] = _sys.modules[module.__name__] = module


def _range(msg, *args, **kwargs):
    """Marks what runs within, or a function that it decorates; nothing collects the marks."""
    yield


_scope = globals()
_submodule("memory", **{k: v for k, v in _scope.items() if "memory" in k or k in ("empty_cache", "mem_get_info")})
_submodule("random", **{k: _scope[k] for k in ("manual_seed", "manual_seed_all", "seed", "seed_all", "initial_seed",
                                               "get_rng_state", "set_rng_state", "get_rng_state_all", "set_rng_state_all")})  # fmt: skip
_submodule("streams", Stream=_scope["Stream"], Event=_scope["Event"], ExternalStream=_scope["ExternalStream"])
_submodule("graphs", CUDAGraph=_scope["CUDAGraph"], graph=_scope["graph"], graph_pool_handle=_needs_device,
           make_graphed_callables=_needs_device, is_current_stream_capturing=is_current_stream_capturing)  # fmt: skip
_submodule("nvtx", range_push=_nothing, range_pop=_nothing, mark=_nothing, range=_contextlib.contextmanager(_range),
           range_start=_nothing, range_end=_nothing)  # fmt: skip
_submodule("profiler", start=_needs_device, stop=_needs_device, init=_needs_device)
_submodule("nccl", is_available=lambda tensors=None: False, version=_needs_device)
_submodule("tunable", is_enabled=lambda: False, enable=_nothing)
_submodule("sparse")
_submodule("gds")
_submodule("green_contexts", GreenContext=_scope["GreenContext"])
_submodule("jiterator")


def __getattr__(name):
    if name == "amp":
        from importlib import import_module

        return import_module(__name__ + ".amp")
    raise AttributeError(f"module 'flambeau.cuda' has no attribute '{name}'")
