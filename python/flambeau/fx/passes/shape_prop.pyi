# Made by scripts/stubs.
from typing import Any, NamedTuple
from ..interpreter import Interpreter

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class ShapeProp(Interpreter):
    def __init__(self, gm: Any, fake_mode: Any = None) -> None: ...
    def run_node(self, n: Any) -> Any: ...
    def propagate(self, *args: Any) -> Any: ...
class TensorMetadata(NamedTuple):
    shape: Any
    dtype: Any
    requires_grad: Any
    stride: Any
    memory_format: Any
    is_quantized: Any
    qparams: Any
