# Made by scripts/stubs.
from builtins import bool as _bool, float as _float, int as _int
from collections.abc import Callable
from typing import Any
from .optimizer import ParamsT, PerParameter

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class Muon(PerParameter):
    def __init__(self, params: ParamsT, lr: _float = 0.001, weight_decay: _float = 0.1, momentum: _float = 0.95, nesterov: _bool = True, ns_coefficients: tuple[_float, _float, _float] = ..., eps: _float = 1e-07, ns_steps: _int = 5, adjust_lr_fn: str | None = None) -> None: ...
    def step(self, closure: Callable[[], _float] | None = None) -> Any: ...
