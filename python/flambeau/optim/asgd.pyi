# Made by scripts/stubs.
from builtins import bool as _bool, float as _float
from collections.abc import Callable
from typing import Any
from .._C import Tensor
from .optimizer import ParamsT, PerParameter

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class ASGD(PerParameter):
    def __init__(self, params: ParamsT, lr: _float | Tensor = 0.01, lambd: _float = 0.0001, alpha: _float = 0.75, t0: _float = 1000000.0, weight_decay: _float = 0, foreach: _bool | None = None, maximize: _bool = False, differentiable: _bool = False, capturable: _bool = False) -> None: ...
    def step(self, closure: Callable[[], _float] | None = None) -> Any: ...
def asgd(params: list[Any], grads: list[Any], axs: list[Any], mus: list[Any], etas: list[Any], state_steps: list[Any], foreach: _bool | None = None, maximize: _bool = False, differentiable: _bool = False, capturable: _bool = False, has_complex: _bool = False, *, lambd: _float, lr: _float, t0: _float, alpha: _float, weight_decay: _float) -> None: ...
