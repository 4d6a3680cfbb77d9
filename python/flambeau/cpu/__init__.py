"""The processor as a device: queries and streams that do nothing."""
import contextlib

from .. import _C


class Stream:
    """Work on a processor is not queued."""

    def __init__(self, priority=-1):
        pass

    def synchronize(self):
        pass

    def wait_stream(self, stream):
        pass


class Event:
    """A point in a stream; reached at once."""

    def query(self):
        return True

    def record(self, stream=None):
        pass

    def synchronize(self):
        pass

    def wait(self, stream=None):
        pass


_stream = Stream()


def is_available():
    return True


def is_initialized():
    return True


def synchronize(device=None):
    pass


def device_count():
    return 1


def current_device():
    return "cpu"


def set_device(device):
    pass


def current_stream(device=None):
    return _stream


def stream(stream):
    return contextlib.nullcontext()


StreamContext = stream


def get_capabilities():
    """What the processor can do."""
    return {"name": _C._cpu_capability()}


def __getattr__(name):
    if name == "amp":
        from importlib import import_module

        return import_module(__name__ + ".amp")
    raise AttributeError(f"module 'flambeau.cpu' has no attribute '{name}'")


def _has(*features):
    """Whether the processor says that it has all of these features; False where it cannot be asked."""
    try:
        with open("/proc/cpuinfo") as file:
            found = next((line.split(":", 1)[1].split() for line in file if line.startswith(("flags", "Features"))), [])
    except OSError:
        found = []
    return all(feature in found for feature in features)


def _is_avx2_supported():
    """Whether the processor has AVX2 with FMA."""
    return _has("avx2", "fma")


def _is_avx512_supported():
    """Whether the processor has the parts of AVX-512 that PyTorch wants."""
    return _has("avx512f", "avx512vl", "avx512bw", "avx512dq", "fma")


def _is_avx512_bf16_supported():
    """Whether the processor multiplies bfloat16 in AVX-512."""
    return _is_avx512_supported() and _has("avx512_bf16")


def _is_vnni_supported():
    """Whether the processor has dot products of bytes in AVX-512."""
    return _has("avx512_vnni")


def _is_amx_tile_supported():
    """Whether the processor has tiles for matrix products."""
    return _has("amx_bf16", "amx_tile", "amx_int8")


def _is_amx_fp16_supported():
    """Whether the processor's tiles take float16."""
    return _is_amx_tile_supported() and _has("amx_fp16")


def _init_amx():
    """Whether tiles can be used: they are not."""
    return False
