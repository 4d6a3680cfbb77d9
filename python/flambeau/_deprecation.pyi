# Made by scripts/stubs.
from typing import Any

def deprecated(message: Any, category: Any = ...) -> Any: ...
