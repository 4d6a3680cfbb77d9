# Made by scripts/stubs.
from typing import Any

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
from ..._C import Tensor as Tensor
from .. import init_process_group as init_process_group
class DTensor(Tensor):
    @staticmethod
    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any: ...
