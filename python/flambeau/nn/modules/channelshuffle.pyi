# Made by scripts/stubs.
from builtins import int as _int
from ..._C import Tensor
from .module import Module

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class ChannelShuffle(Module):
    def __init__(self, groups: _int) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...
    def extra_repr(self) -> str: ...
    groups: _int
