# Made by scripts/stubs.

from .profiler import (
    EventList as EventList, FunctionEvent as FunctionEvent, FunctionEventAvg as FunctionEventAvg, Interval as Interval,
    MemRecordsAcc as MemRecordsAcc,
)
