"""The old profiler: today's under its old address."""
from .profiler import EventList, FunctionEvent, profile  # noqa: F401
