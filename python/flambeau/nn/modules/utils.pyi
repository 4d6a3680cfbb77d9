# Made by scripts/stubs.
from typing import Any

def consume_prefix_in_state_dict_if_present(state_dict: Any, prefix: str) -> Any: ...
