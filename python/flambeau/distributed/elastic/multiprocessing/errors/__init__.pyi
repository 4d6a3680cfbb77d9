# Made by scripts/stubs.
from builtins import int as _int
from typing import Any

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
from . import error_handler as error_handler
from .error_handler import ErrorHandler as ErrorHandler
class ChildFailedError(Exception):
    def __init__(self, name: str, failures: Any) -> None: ...
    name: str
    failures: Any
class ProcessFailure:
    def __init__(self, local_rank: _int, pid: _int, exitcode: _int, error_file: str) -> None: ...
    local_rank: _int
    pid: _int
    exitcode: _int
    error_file: str
def get_error_handler() -> Any: ...
def record(fn: Any, error_handler: Any = None) -> Any: ...
