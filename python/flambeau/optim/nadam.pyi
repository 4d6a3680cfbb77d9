# Made by scripts/stubs.
from builtins import bool as _bool, float as _float
from collections.abc import Callable
from typing import Any
from .._C import Tensor
from .optimizer import ParamsT, PerParameter

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class NAdam(PerParameter):
    def __init__(self, params: ParamsT, lr: _float | Tensor = 0.002, betas: tuple[_float | Tensor, _float | Tensor] = ..., eps: _float = 1e-08, weight_decay: _float = 0, momentum_decay: _float = 0.004, decoupled_weight_decay: _bool = False, *, foreach: _bool | None = None, maximize: _bool = False, capturable: _bool = False, differentiable: _bool = False) -> None: ...
    def step(self, closure: Callable[[], _float] | None = None) -> Any: ...
def nadam(params: list[Any], grads: list[Any], exp_avgs: list[Any], exp_avg_sqs: list[Any], mu_products: list[Any], state_steps: list[Any], decoupled_weight_decay: _bool = False, foreach: _bool | None = None, capturable: _bool = False, differentiable: _bool = False, has_complex: _bool = False, maximize: _bool = False, *, beta1: _float, beta2: _float, lr: _float, weight_decay: _float, momentum_decay: _float, eps: _float) -> None: ...
