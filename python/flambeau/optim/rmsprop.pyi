# Made by scripts/stubs.
from builtins import bool as _bool, float as _float
from collections.abc import Callable
from typing import Any
from .._C import Tensor
from .optimizer import ParamsT, PerParameter

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class RMSprop(PerParameter):
    def __init__(self, params: ParamsT, lr: _float | Tensor = 0.01, alpha: _float = 0.99, eps: _float = 1e-08, weight_decay: _float = 0, momentum: _float = 0, centered: _bool = False, capturable: _bool = False, foreach: _bool | None = None, maximize: _bool = False, differentiable: _bool = False) -> None: ...
    def step(self, closure: Callable[[], _float] | None = None) -> Any: ...
def rmsprop(params: list[Any], grads: list[Any], square_avgs: list[Any], grad_avgs: list[Any], momentum_buffer_list: list[Any], state_steps: list[Any], foreach: _bool | None = None, maximize: _bool = False, differentiable: _bool = False, capturable: _bool = False, has_complex: _bool = False, *, lr: _float, alpha: _float, eps: _float, weight_decay: _float, momentum: _float, centered: _bool) -> None: ...
