"""Queries about the accelerator of this machine, whichever it is: here there is none but CUDA's, if at all."""
from . import _C

__all__ = ["current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
           "device_index", "empty_cache", "is_available", "set_device_idx", "set_device_index", "set_stream",
           "synchronize"]  # fmt: skip


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
