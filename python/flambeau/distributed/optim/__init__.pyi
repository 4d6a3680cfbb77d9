# Made by scripts/stubs.
from typing import Any

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
from .. import init_process_group as init_process_group
from ...optim.optimizer import Optimizer as Optimizer
class DistributedOptimizer:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
class PostLocalSGDOptimizer(Optimizer):
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
class ZeroRedundancyOptimizer(Optimizer):
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
