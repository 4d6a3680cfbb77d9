"""How the process of such a program tells whoever launched it of an error: by a file that the launcher names."""
import functools
from dataclasses import dataclass

from .error_handler import ErrorHandler

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]


@dataclass
class ProcessFailure:
    """A process that failed, and the file in which it says why."""

    local_rank: int
    pid: int
    exitcode: int
    error_file: str


class ChildFailedError(Exception):
    """What a launcher raises: processes of `name` that failed, by their rank."""

    def __init__(self, name, failures):
        self.name, self.failures = name, failures
        if not failures:
            raise AssertionError("a launcher does not fail without a failed process")
        ranks = ", ".join(f"rank {rank}: exit code {f.exitcode} (pid {f.pid})" for rank, f in sorted(failures.items()))
        super().__init__(f"{name} FAILED: {ranks}")


def get_error_handler():
    """The handler that `record` uses."""
    return ErrorHandler()


def record(fn, error_handler=None):
    """A main function whose errors are written to the launcher's file before they are raised."""
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as end:
            if end.code == 0:
                return None
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return wrapper
