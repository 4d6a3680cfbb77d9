# Made by scripts/stubs.
from typing import Any

Queue: Any
SimpleQueue: Any
