# Made by scripts/stubs.
from typing import Any

class classproperty:
    def __init__(self, func: Any) -> None: ...
    func: Any
