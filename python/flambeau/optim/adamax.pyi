# Made by scripts/stubs.
from builtins import bool as _bool, float as _float
from collections.abc import Callable
from typing import Any
from .._C import Tensor
from .optimizer import ParamsT, PerParameter

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class Adamax(PerParameter):
    def __init__(self, params: ParamsT, lr: _float | Tensor = 0.002, betas: tuple[_float | Tensor, _float | Tensor] = ..., eps: _float = 1e-08, weight_decay: _float = 0, foreach: _bool | None = None, *, maximize: _bool = False, differentiable: _bool = False, capturable: _bool = False) -> None: ...
    def step(self, closure: Callable[[], _float] | None = None) -> Any: ...
def adamax(params: list[Any], grads: list[Any], exp_avgs: list[Any], exp_infs: list[Any], state_steps: list[Any], foreach: _bool | None = None, maximize: _bool = False, differentiable: _bool = False, capturable: _bool = False, has_complex: _bool = False, *, eps: _float, beta1: _float, beta2: _float, lr: _float, weight_decay: _float) -> None: ...
