# Made by scripts/stubs.
from builtins import bool as _bool, float as _float
from typing import Any
from .._C import _Device, _dtype, _memory_format

def make_tensor(*shape: Any, dtype: _dtype, device: _Device, low: _float | None = None, high: _float | None = None, requires_grad: _bool = False, noncontiguous: _bool = False, exclude_zero: _bool = False, memory_format: _memory_format | None = None) -> Any: ...
