# Made by scripts/stubs.
from typing import Any, NamedTuple

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class Trial(NamedTuple):
    step: Any
    loss: Any
    grad: Any
    slope: Any
