# Made by scripts/stubs.
from typing import Any

def message(*fields: tuple[Any, ...]) -> bytes: ...
