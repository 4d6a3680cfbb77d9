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
