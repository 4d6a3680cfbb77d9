# Made by scripts/stubs.
from builtins import bool as _bool, float as _float
from collections.abc import Callable
from typing import Any
from .._C import Tensor
from .optimizer import ParamsT, PerParameter

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class Adadelta(PerParameter):
    def __init__(self, params: ParamsT, lr: _float | Tensor = 1.0, rho: _float = 0.9, eps: _float = 1e-06, weight_decay: _float = 0, foreach: _bool | None = None, *, capturable: _bool = False, maximize: _bool = False, differentiable: _bool = False) -> None: ...
    def step(self, closure: Callable[[], _float] | None = None) -> Any: ...
def adadelta(params: list[Any], grads: list[Any], square_avgs: list[Any], acc_deltas: list[Any], state_steps: list[Any], capturable: _bool = False, foreach: _bool | None = None, differentiable: _bool = False, has_complex: _bool = False, *, lr: _float, rho: _float, eps: _float, weight_decay: _float, maximize: _bool) -> None: ...
