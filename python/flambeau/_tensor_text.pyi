# Made by scripts/stubs.
from builtins import float as _float
from typing import Any

def set_printoptions(precision: Any = None, threshold: _float | None = None, edgeitems: Any = None, linewidth: Any = None, profile: Any = None, sci_mode: Any = None) -> None: ...
