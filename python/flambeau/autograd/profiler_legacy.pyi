# Made by scripts/stubs.

from .profiler import EventList as EventList, FunctionEvent as FunctionEvent, profile as profile
