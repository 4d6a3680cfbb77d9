# Made by scripts/stubs.
from builtins import bool as _bool, float as _float
from collections.abc import Callable
from typing import Any
from .._C import Tensor
from .optimizer import ParamsT, PerParameter

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class SparseAdam(PerParameter):
    def __init__(self, params: ParamsT, lr: _float | Tensor = 0.001, betas: tuple[_float | Tensor, _float | Tensor] = ..., eps: _float = 1e-08, maximize: _bool = False) -> None: ...
    def step(self, closure: Callable[[], _float] | None = None) -> Any: ...
