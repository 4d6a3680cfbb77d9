# Made by scripts/stubs.
from typing import Any

def functions(kind: Any, label: Any) -> Any: ...
