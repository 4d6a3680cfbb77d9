# Made by scripts/stubs.
from typing import Any

T: Any
