# Made by scripts/stubs.
from builtins import bool as _bool, int as _int
from typing import Any
from ._C import Tensor
from ._C import dtype

class SobolEngine:
    MAXBIT: _int
    MAXDIM: _int
    def __init__(self, dimension: Any, scramble: _bool = False, seed: _int | None = None) -> None: ...
    def draw(self, n: _int = 1, out: Tensor | None = None, dtype: dtype | None = None) -> Any: ...
    def draw_base2(self, m: _int, out: Tensor | None = None, dtype: dtype | None = None) -> Any: ...
    def reset(self) -> Any: ...
    def fast_forward(self, n: Any) -> Any: ...
    seed: _int | None
    scramble: _bool
    dimension: Any
    quasi: Any
    num_generated: Any
    sobolstate: Any
    shift: Any
