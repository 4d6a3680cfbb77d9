# Made by scripts/stubs.
from builtins import bool as _bool
from typing import Any
from enum import Enum

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
ArgumentSpec: str
class ConstantArgument:
    def __init__(self, name: str, value: object) -> None: ...
    name: str
    value: object
class ExportBackwardSignature:
    def __init__(self, gradients_to_parameters: dict[str, str], gradients_to_user_inputs: dict[str, str], loss_output: str) -> None: ...
    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str
class ExportGraphSignature:
    @property
    def parameters(self) -> Any: ...
    @property
    def buffers(self) -> Any: ...
    @property
    def user_inputs(self) -> Any: ...
    @property
    def user_outputs(self) -> Any: ...
    def __init__(self, input_specs: list[InputSpec], output_specs: list[OutputSpec]) -> None: ...
    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]
class InputKind(Enum):
    USER_INPUT = 1
    PARAMETER = 2
    BUFFER = 3
    CONSTANT_TENSOR = 4
    CUSTOM_OBJ = 5
    TOKEN = 6
class InputSpec:
    persistent: Any
    def __init__(self, kind: Any, arg: object, target: str | None, persistent: _bool | None = None) -> None: ...
    kind: Any
    arg: object
    target: str | None
class OutputKind(Enum):
    USER_OUTPUT = 1
    LOSS_OUTPUT = 2
    BUFFER_MUTATION = 3
    PARAMETER_MUTATION = 4
    GRADIENT_TO_PARAMETER = 5
    GRADIENT_TO_USER_INPUT = 6
    USER_INPUT_MUTATION = 7
    TOKEN = 8
class OutputSpec:
    def __init__(self, kind: Any, arg: object, target: str | None) -> None: ...
    kind: Any
    arg: object
    target: str | None
class SymIntArgument:
    def __init__(self, name: str) -> None: ...
    name: str
class TensorArgument:
    def __init__(self, name: str) -> None: ...
    name: str
