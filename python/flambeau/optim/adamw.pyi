# Made by scripts/stubs.
from builtins import bool as _bool, float as _float
from .._C import Tensor
from .adam import Adam
from .optimizer import ParamsT

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class AdamW(Adam):
    def __init__(self, params: ParamsT, lr: _float | Tensor = 0.001, betas: tuple[_float | Tensor, _float | Tensor] = ..., eps: _float = 1e-08, weight_decay: _float = 0.01, amsgrad: _bool = False, *, maximize: _bool = False, foreach: _bool | None = None, capturable: _bool = False, differentiable: _bool = False, fused: _bool | None = None) -> None: ...
