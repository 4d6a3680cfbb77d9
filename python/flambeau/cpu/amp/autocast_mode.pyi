# Made by scripts/stubs.
from builtins import bool as _bool
from ..._C import _dtype

class autocast:
    def __init__(self, enabled: _bool = True, dtype: _dtype = ..., cache_enabled: _bool = True) -> None: ...
