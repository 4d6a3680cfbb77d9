"""`Stream` and `Event` for devices that queue work: there is none here, and making a stream says so."""
from . import _C

__all__ = ["Stream", "Event"]


class Stream:
    """A queue of work on a device."""

    __module__ = "flambeau"

    def __init__(self, device=None, *, priority=0, **kwargs):
        kind = None if device is None else _C.device(device).type
        if kind in (None, "cpu"):
            raise RuntimeError("Backend doesn't support create a new Stream.")
        raise AssertionError(f"Torch not compiled with {kind.upper()} enabled")


class Event:
    """A point in a stream: without one it is reached at once."""

    __module__ = "flambeau"

    def __init__(self, device=None, *, enable_timing=False, blocking=False, interprocess=False):
        self._device = _C.device("cpu" if device is None else device)
        self._timing, self._time = enable_timing, None

    @property
    def device(self):
        """The device whose work it waits for."""
        return self._device

    def record(self, stream=None):
        from time import perf_counter

        self._time = perf_counter()

    def wait(self, stream=None):
        pass

    def query(self):
        return True

    def synchronize(self):
        pass

    def elapsed_time(self, end_event):
        """Milliseconds between two recorded events."""
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._time is None or end_event._time is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return 1000 * (end_event._time - self._time)
