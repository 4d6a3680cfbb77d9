# Made by scripts/stubs.
from builtins import bool as _bool
from ..._C import _dtype

from ...amp._by_device import custom_bwd as custom_bwd, custom_fwd as custom_fwd
class autocast:
    def __init__(self, enabled: _bool = True, dtype: _dtype = ..., cache_enabled: _bool = True) -> None: ...
