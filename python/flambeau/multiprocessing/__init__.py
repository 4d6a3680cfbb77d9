"""Python's multiprocessing, whose queues and pipes hand tensors on in memory that the processes share."""
import multiprocessing
from multiprocessing import *  # noqa: F403

from . import reductions
from .spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = ["set_sharing_strategy", "get_sharing_strategy", "get_all_sharing_strategies", *multiprocessing.__all__]
__all__ += ["ProcessContext", "ProcessExitedException", "ProcessRaisedException", "SpawnContext", "spawn", "start_processes"]

reductions.init_reductions()


def get_all_sharing_strategies():
    """How memory can be shared: by descriptors of files."""
    return {"file_descriptor"}


def get_sharing_strategy():
    """How memory is shared."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy):
    """Chooses how memory is shared."""
    known = get_all_sharing_strategies()
    assert new_strategy in known, f"invalid sharing strategy '{new_strategy}', expected one of {known}"
