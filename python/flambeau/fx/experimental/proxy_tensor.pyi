# Made by scripts/stubs.
from typing import Any

def get_proxy_mode() -> Any: ...
