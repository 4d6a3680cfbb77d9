# Made by scripts/stubs.
from builtins import bool as _bool
from typing import Any
from typing_extensions import Self
from enum import IntEnum

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
from . import (
    operators as operators, symbolic_helper as symbolic_helper, symbolic_opset11 as symbolic_opset11,
    symbolic_opset9 as symbolic_opset9,
)
class ONNXProgram: ...
class OnnxExporterError(RuntimeError): ...
class OperatorExportTypes(IntEnum):
    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3
class TrainingMode(IntEnum):
    EVAL = 0
    PRESERVE = 1
    TRAINING = 2
def export(*args: Any, **kwargs: Any) -> Any: ...
def is_in_onnx_export() -> _bool: ...
def register_custom_op_symbolic(symbolic_name: Any, symbolic_fn: Any, opset_version: Any) -> Any: ...
class select_model_mode_for_export:
    def __init__(self, model: Any, mode: Any) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: Any) -> None: ...
    model: Any
    mode: Any
    before: Any
def unregister_custom_op_symbolic(symbolic_name: Any, opset_version: Any) -> Any: ...
