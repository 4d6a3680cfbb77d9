# Made by scripts/stubs.
from builtins import bool as _bool, float as _float
from collections.abc import Callable
from typing import Any

def assert_allclose(actual: Any, expected: Any, rtol: _float | None = None, atol: _float | None = None, equal_nan: _bool = True, msg: str = '') -> None: ...
def assert_close(actual: Any, expected: Any, *, allow_subclasses: _bool = True, rtol: _float | None = None, atol: _float | None = None, equal_nan: _bool = False, check_device: _bool = True, check_dtype: _bool = True, check_layout: _bool = True, check_stride: _bool = False, msg: str | Callable[[str], str] | None = None) -> None: ...
