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
def adagrad(params: list[Any], grads: list[Any], state_sums: list[Any], state_steps: list[Any], fused: _bool | None = None, grad_scale: Any = None, found_inf: Any = None, has_sparse_grad: _bool = False, foreach: _bool | None = None, differentiable: _bool = False, has_complex: _bool = False, *, lr: _float, weight_decay: _float, lr_decay: _float, eps: _float, maximize: _bool) -> None: ...
