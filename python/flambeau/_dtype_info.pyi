# Made by scripts/stubs.
from typing import Any

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class _Info:
    bits: Any
    dtype: Any
    max: Any
    min: Any
class finfo(_Info):
    def __init__(self, type: Any = None) -> None: ...
    eps: Any
    resolution: Any
    smallest_normal: Any
    tiny: Any
class iinfo(_Info):
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
