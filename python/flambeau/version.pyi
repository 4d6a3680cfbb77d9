# Made by scripts/stubs.
from builtins import bool as _bool
from typing import Any

__version__: str
cuda: Any
debug: _bool
git_version: str
hip: Any
rocm: Any
xpu: Any
