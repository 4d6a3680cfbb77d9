# Made by scripts/stubs.
from builtins import bool as _bool, float as _float
from collections.abc import Callable
from typing import Any
from .._C import Tensor
from .optimizer import ParamsT, PerParameter

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class Rprop(PerParameter):
    def __init__(self, params: ParamsT, lr: _float | Tensor = 0.01, etas: tuple[_float, _float] = ..., step_sizes: tuple[_float, _float] = ..., *, capturable: _bool = False, foreach: _bool | None = None, maximize: _bool = False, differentiable: _bool = False) -> None: ...
    def step(self, closure: Callable[[], _float] | None = None) -> Any: ...
def rprop(params: list[Any], grads: list[Any], prevs: list[Any], step_sizes: list[Any], state_steps: list[Any], foreach: _bool | None = None, capturable: _bool = False, maximize: _bool = False, differentiable: _bool = False, has_complex: _bool = False, *, step_size_min: _float, step_size_max: _float, etaminus: _float, etaplus: _float) -> None: ...
