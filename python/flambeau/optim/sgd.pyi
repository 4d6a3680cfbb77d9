# Made by scripts/stubs.
from builtins import bool as _bool, float as _float
from collections.abc import Callable
from typing import Any
from .._C import Tensor
from .optimizer import ParamsT, PerParameter

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class SGD(PerParameter):
    def __init__(self, params: ParamsT, lr: _float | Tensor = 0.001, momentum: _float = 0, dampening: _float = 0, weight_decay: _float | Tensor = 0, nesterov: _bool = False, *, maximize: _bool = False, foreach: _bool | None = None, differentiable: _bool = False, fused: _bool | None = None) -> None: ...
    def step(self, closure: Callable[[], _float] | None = None) -> Any: ...
def sgd(params: list[Any], d_p_list: list[Any], momentum_buffer_list: list[Any], has_sparse_grad: _bool = False, foreach: _bool | None = None, fused: _bool | None = None, grad_scale: Any = None, found_inf: Any = None, *, weight_decay: _float, momentum: _float, lr: _float, dampening: _float, nesterov: _bool, maximize: _bool) -> None: ...
