# Made by scripts/stubs.
from builtins import bool as _bool, float as _float, int as _int
from typing import Any
from ..._C import Tensor, _Device, _dtype
from .module import Module

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class AdaptiveLogSoftmaxWithLoss(Module):
    def __init__(self, in_features: _int, n_classes: _int, cutoffs: Any, div_value: _float = 4.0, head_bias: _bool = False, device: _Device | None = None, dtype: _dtype | None = None) -> None: ...
    def reset_parameters(self) -> None: ...
    def forward(self, input_: Any, target_: Any) -> Tensor: ...
    def log_prob(self, input: Tensor) -> Any: ...
    def predict(self, input: Tensor) -> Any: ...
    in_features: _int
    n_classes: _int
    div_value: _float
    head_bias: _bool
