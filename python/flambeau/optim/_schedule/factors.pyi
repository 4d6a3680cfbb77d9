# Made by scripts/stubs.
from builtins import int as _int
from typing import Any
from ..lr_scheduler import LRScheduler
from ..optimizer import Optimizer

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class _Factor(LRScheduler):
    def get_lr(self) -> list[Any]: ...
class _WithLambdas(LRScheduler):
    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: _int = -1) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...
    optimizer: Optimizer
    lr_lambdas: Any
