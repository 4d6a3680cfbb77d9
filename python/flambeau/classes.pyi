# Made by scripts/stubs.
from typing import Any

def load_library(path: Any) -> Any: ...
loaded_libraries: Any
