# Made by scripts/stubs.
from builtins import bool as _bool
from typing import Any

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class Variable:
    @staticmethod
    def __new__(cls: Any, data: Any = None, requires_grad: _bool = False, volatile: Any = None) -> Any: ...
class VariableMeta(type): ...
