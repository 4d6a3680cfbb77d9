"""`torch.profiler`'s names where they are defined in PyTorch."""
from . import (ExecutionTraceObserver, ProfilerAction, ProfilerActivity, profile, schedule, supported_activities,
               tensorboard_trace_handler)

__all__ = ["supported_activities", "ProfilerAction", "schedule", "tensorboard_trace_handler", "profile",
           "ExecutionTraceObserver"]

PROFILER_STEP_NAME = "ProfilerStep"


def _default_schedule_fn(_):
    """Records in every step."""
    return ProfilerAction.RECORD
