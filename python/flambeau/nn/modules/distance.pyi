# Made by scripts/stubs.
from builtins import bool as _bool, float as _float, int as _int
from typing import Any
from ..._C import Tensor
from .module import Module

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class CosineSimilarity(Module):
    def __init__(self, dim: _int = 1, eps: _float = 1e-08) -> None: ...
    def forward(self, x1: Any, x2: Any) -> Tensor: ...
class PairwiseDistance(Module):
    def __init__(self, p: _float = 2.0, eps: _float = 1e-06, keepdim: _bool = False) -> None: ...
    def forward(self, x1: Any, x2: Any) -> Tensor: ...
