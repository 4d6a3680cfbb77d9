"""The event classes of the profiler, under their old address."""
from .profiler import EventList, FunctionEvent, FunctionEventAvg, Interval, MemRecordsAcc  # noqa: F401
