"""What libraries ask of Triton, a compiler for other devices: it compiles nothing here."""
import functools
import importlib.util

__all__ = []


@functools.cache
def has_triton_package():
    """Whether the package can be imported."""
    return importlib.util.find_spec("triton") is not None


def has_triton():
    """Whether it has a device to compile for: no."""
    return False


has_triton_tma = has_triton_tma_device = has_triton_experimental_host_tma = has_triton_stable_tma_api = has_triton
has_triton_tensor_descriptor_host_tma = has_triton
