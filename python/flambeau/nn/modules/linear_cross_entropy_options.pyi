# Made by scripts/stubs.
from builtins import bool as _bool, int as _int
from typing import Any

class LinearCrossEntropyOptions:
    allow_retain_graph: _bool
    batch_chunk_size: Any
    chunking_method: str
    acc_policy: str
    acc_dtype: Any
    def __init__(self, allow_retain_graph: _bool = False, batch_chunk_size: _int | None = None, chunking_method: str | None = 'auto', acc_policy: str = 'auto', acc_dtype: Any = None) -> None: ...
