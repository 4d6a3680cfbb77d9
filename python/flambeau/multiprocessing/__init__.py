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


#: What the program has chosen.
_strategy = "file_descriptor"


def get_all_sharing_strategies():
    """The names of the ways to share memory that a program may choose. Memory goes as descriptors of files without names by
    either: nothing has to be deleted when a process dies, which is what names are trouble for."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy():
    """How memory is shared, by the program's choice."""
    return _strategy


def set_sharing_strategy(new_strategy):
    """Chooses how memory is shared."""
    global _strategy
    known = get_all_sharing_strategies()
    assert new_strategy in known, f"invalid sharing strategy '{new_strategy}', expected one of {known}"
    _strategy = new_strategy
