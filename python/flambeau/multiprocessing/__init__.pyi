# Made by scripts/stubs.
from typing import Any

from . import pool as pool, queue as queue, reductions as reductions
from .spawn import (
    ProcessContext as ProcessContext, ProcessExitedException as ProcessExitedException,
    ProcessRaisedException as ProcessRaisedException, SpawnContext as SpawnContext, spawn as spawn,
    start_processes as start_processes,
)
Array: Any
AuthenticationError: Any
Barrier: Any
BoundedSemaphore: Any
BufferTooShort: Any
Condition: Any
Event: Any
JoinableQueue: Any
Lock: Any
Manager: Any
Pipe: Any
Pool: Any
Process: Any
ProcessError: Any
Queue: Any
RLock: Any
RawArray: Any
RawValue: Any
Semaphore: Any
SimpleQueue: Any
TimeoutError: Any
Value: Any
def active_children() -> Any: ...
allow_connection_pickling: Any
cpu_count: Any
def current_process() -> Any: ...
freeze_support: Any
def get_all_sharing_strategies() -> Any: ...
get_all_start_methods: Any
get_context: Any
get_logger: Any
def get_sharing_strategy() -> Any: ...
get_start_method: Any
log_to_stderr: Any
def parent_process() -> Any: ...
set_executable: Any
set_forkserver_preload: Any
def set_sharing_strategy(new_strategy: Any) -> None: ...
set_start_method: Any
