# Made by scripts/stubs.

from . import (
    ExecutionTraceObserver as ExecutionTraceObserver, ProfilerAction as ProfilerAction, profile as profile,
    schedule as schedule, supported_activities as supported_activities,
    tensorboard_trace_handler as tensorboard_trace_handler,
)
PROFILER_STEP_NAME: str
