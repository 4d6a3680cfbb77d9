# Made by scripts/stubs.
from typing import Any
from typing_extensions import Self

class _safe_globals:
    def __init__(self, safe_globals: Any) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: Any) -> None: ...
    safe_globals: Any
    before: Any
