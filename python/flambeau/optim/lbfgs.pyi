# Made by scripts/stubs.
from builtins import float as _float, int as _int
from typing import Any
from .._C import Tensor
from .optimizer import Optimizer, ParamsT

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class LBFGS(Optimizer):
    def __init__(self, params: ParamsT, lr: _float | Tensor = 1, max_iter: _int = 20, max_eval: _int | None = None, tolerance_grad: _float = 1e-07, tolerance_change: _float = 1e-09, history_size: _int = 100, line_search_fn: str | None = None) -> None: ...
    def step(self, closure: Any) -> Any: ...
