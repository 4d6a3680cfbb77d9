"""Queries about the accelerator of this machine, whichever it is: here there is none but CUDA's, if at all."""
from collections import OrderedDict

from . import _C

__all__ = ["current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
           "device_index", "empty_cache", "empty_host_cache", "get_device_capability", "get_memory_info", "is_available",
           "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats",
           "reset_accumulated_memory_stats", "reset_peak_memory_stats", "set_device_idx", "set_device_index",
           "set_stream", "synchronize"]  # fmt: skip


def _module():
    from . import cuda

    return cuda if cuda.is_available() else None


def device_count():
    module = _module()
    return module.device_count() if module else 0


def is_available():
    return device_count() > 0


def current_accelerator(check_available=False):
    """The kind of device, or None."""
    return _C.device("cuda") if is_available() else None


def _required():
    module = _module()
    if module is None:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return module


def current_device_index():
    return _required().current_device()


current_device_idx = current_device_index


def set_device_index(device, /):
    _required().set_device(device)


set_device_idx = set_device_index


def current_stream(device=None, /):
    return _required().current_stream(device)


def set_stream(stream):
    _required().set_stream(stream)


def synchronize(device=None, /):
    _required().synchronize(device)


def empty_cache():
    module = _module()
    if module is not None:
        module.empty_cache()


def empty_host_cache():
    """Frees kept memory of the host: none is kept for a device."""


def get_device_capability(device=None, /):
    """What the device can compute with."""
    return _required().get_device_capability(device)


def get_memory_info(device_index=None, /):
    """Free bytes of the device, and all."""
    return _required().mem_get_info(device_index)


def memory_stats(device_index=None, /):
    """Figures of the device's allocator, by name; empty without a device."""
    module = _module()
    return module.memory_stats(device_index) if module else OrderedDict()


def _figure(name, text):
    def figure(device_index=None, /):
        module = _module()
        return getattr(module, name)(device_index) if module else 0

    figure.__name__ = figure.__qualname__ = name
    figure.__doc__ = text
    return figure


memory_allocated = _figure("memory_allocated", "Bytes that tensors on the device hold; 0 without one.")
max_memory_allocated = _figure("max_memory_allocated", "The most bytes that tensors on the device held; 0 without one.")
memory_reserved = _figure("memory_reserved", "Bytes that the device's allocator holds; 0 without one.")
max_memory_reserved = _figure("max_memory_reserved", "The most bytes that the device's allocator held; 0 without one.")


def reset_peak_memory_stats(device_index=None, /):
    """The peaks begin anew."""
    module = _module()
    if module is not None:
        module.reset_peak_memory_stats(device_index)


def reset_accumulated_memory_stats(device_index=None, /):
    """The sums begin anew."""
    module = _module()
    if module is not None:
        module.reset_accumulated_memory_stats(device_index)


class device_index:
    """`with device_index(1):` makes it the current device inside."""

    def __init__(self, device, /):
        self.idx = device

    def __enter__(self):
        if self.idx is not None:
            self.before = current_device_index()
            set_device_index(self.idx)

    def __exit__(self, *exc):
        if self.idx is not None:
            set_device_index(self.before)
