# Made by scripts/stubs.
from builtins import bool as _bool
from typing import Any

def replicate(network: Any, devices: Any, detach: _bool = False) -> Any: ...
