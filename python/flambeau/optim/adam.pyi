# Made by scripts/stubs.
from builtins import bool as _bool, float as _float
from collections.abc import Callable
from typing import Any
from .._C import Tensor
from .optimizer import ParamsT, PerParameter

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class Adam(PerParameter):
    def __init__(self, params: ParamsT, lr: _float | Tensor = 0.001, betas: tuple[_float | Tensor, _float | Tensor] = ..., eps: _float = 1e-08, weight_decay: _float = 0, amsgrad: _bool = False, *, foreach: _bool | None = None, maximize: _bool = False, capturable: _bool = False, differentiable: _bool = False, fused: _bool | None = None, decoupled_weight_decay: _bool = False) -> None: ...
    def step(self, closure: Callable[[], _float] | None = None) -> Any: ...
def adam(params: list[Any], grads: list[Any], exp_avgs: list[Any], exp_avg_sqs: list[Any], max_exp_avg_sqs: list[Any], state_steps: list[Any], foreach: _bool | None = None, capturable: _bool = False, differentiable: _bool = False, fused: _bool | None = None, grad_scale: Any = None, found_inf: Any = None, has_complex: _bool = False, decoupled_weight_decay: _bool = False, *, amsgrad: _bool, beta1: Any, beta2: Any, lr: Any, weight_decay: _float, eps: _float, maximize: _bool) -> None: ...
