# Made by scripts/stubs.
from typing import Any
from ..modules.module import Module

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class DistributedDataParallel(Module):
    def __init__(self, module: Any, *args: Any, **kwargs: Any) -> None: ...
