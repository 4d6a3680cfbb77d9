# Made by scripts/stubs.
from typing import Any

Pool: Any
