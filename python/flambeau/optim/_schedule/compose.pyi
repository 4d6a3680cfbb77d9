# Made by scripts/stubs.
from typing import Any
from ..lr_scheduler import LRScheduler

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class _Composed(LRScheduler):
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...
