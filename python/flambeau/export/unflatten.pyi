# Made by scripts/stubs.
from typing import Any
from abc import ABC
from ..nn.modules.module import Module

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class FlatArgsAdapter(ABC):
    def adapt(self, target_spec: Any, input_spec: Any, input_args: Any, metadata: Any = None, obj: Any = None) -> Any: ...
class UnflattenedModule(Module):
    def __init__(self, export_module: Any, flat_args_adapter: Any = None) -> None: ...
def unflatten(module: Any, flat_args_adapter: Any = None) -> Any: ...
