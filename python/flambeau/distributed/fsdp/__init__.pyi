# Made by scripts/stubs.
from typing import Any

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
from .. import init_process_group as init_process_group
from ...nn.modules.module import Module as Module
class FSDPModule:
    @staticmethod
    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any: ...
class FullyShardedDataParallel(Module):
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
def fully_shard(module: Any, **options: Any) -> Any: ...
