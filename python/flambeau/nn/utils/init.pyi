# Made by scripts/stubs.
from typing import Any

from ..modules.module import Module as Module
def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any: ...
