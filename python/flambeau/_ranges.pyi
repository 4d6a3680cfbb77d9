# Made by scripts/stubs.
from builtins import bool as _bool, int as _int
from typing import Any
from ._C import Tensor, _Device, _dtype, _layout

def range(start: _int = 0, end: Any = None, step: _int = 1, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None, pin_memory: _bool = False, requires_grad: _bool = False) -> Any: ...
