# Made by scripts/stubs.
from builtins import bool as _bool
from typing import Any

def functional_call(module: Any, parameters_and_buffers: Any, args: Any = None, kwargs: Any = None, *, tie_weights: _bool = True, strict: _bool = False) -> Any: ...
