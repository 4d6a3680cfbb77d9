# Made by scripts/stubs.
from builtins import int as _int
from typing import Any
from ..._C import Tensor

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
from . import distributed as distributed, scatter_gather as scatter_gather
from ..modules.module import Module as Module
from .distributed import DistributedDataParallel as DistributedDataParallel
class DataParallel(Module):
    def __init__(self, module: Any, device_ids: Any = None, output_device: Any = None, dim: _int = 0) -> None: ...
    def forward(self, *inputs: Any, **kwargs: Any) -> Tensor: ...
    dim: _int
def data_parallel(module: Any, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: _int = 0, module_kwargs: Any = None) -> Any: ...
