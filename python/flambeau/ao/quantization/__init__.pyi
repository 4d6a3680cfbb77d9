# Made by scripts/stubs.
from typing import Any
from ..._C import Tensor

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
from ...nn.modules.module import Module as Module
class DeQuantStub(QuantStub): ...
class QuantStub(Module):
    def __init__(self, qconfig: Any = None) -> None: ...
    def forward(self, x: Any) -> Tensor: ...
