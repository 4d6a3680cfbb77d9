# Made by scripts/stubs.
from typing import Any
from .._C import Tensor

def rearrange(tensor: Tensor, pattern: Any, **axes_lengths: Any) -> Any: ...
