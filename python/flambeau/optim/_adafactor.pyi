# Made by scripts/stubs.
from builtins import bool as _bool, float as _float
from collections.abc import Callable
from typing import Any
from .._C import Tensor
from .optimizer import ParamsT, PerParameter

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class Adafactor(PerParameter):
    def __init__(self, params: ParamsT, lr: _float | Tensor = 0.01, beta2_decay: _float = -0.8, eps: tuple[_float | None, _float] = ..., d: _float = 1.0, weight_decay: _float = 0.0, *, foreach: _bool | None = None, maximize: _bool = False) -> None: ...
    def step(self, closure: Callable[[], _float] | None = None) -> Any: ...
