# Made by scripts/stubs.
from builtins import int as _int
from typing import Any

def vmap(func: Any, in_dims: _int = 0, out_dims: _int = 0, randomness: str = 'error', *, chunk_size: Any = None) -> Any: ...
