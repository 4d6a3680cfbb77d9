# Made by scripts/stubs.
from builtins import bool as _bool, float as _float
from collections.abc import Callable
from typing import Any
from .._C import Tensor
from .optimizer import ParamsT, PerParameter

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class Adagrad(PerParameter):
    def __init__(self, params: ParamsT, lr: _float | Tensor = 0.01, lr_decay: _float = 0, weight_decay: _float = 0, initial_accumulator_value: _float = 0, eps: _float = 1e-10, foreach: _bool | None = None, *, maximize: _bool = False, differentiable: _bool = False, fused: _bool | None = None) -> None: ...
    def share_memory(self) -> None: ...
    def step(self, closure: Callable[[], _float] | None = None) -> Any: ...
