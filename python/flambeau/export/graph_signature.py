"""What the inputs and outputs of an exported program's graph stand for."""
import enum
from dataclasses import dataclass

__all__ = ["ArgumentSpec", "ExportBackwardSignature", "ExportGraphSignature", "InputKind", "InputSpec", "OutputKind",
           "OutputSpec", "TensorArgument", "SymIntArgument", "ConstantArgument"]  # fmt: skip


@dataclass
class TensorArgument:
    name: str


@dataclass
class SymIntArgument:
    name: str


@dataclass
class ConstantArgument:
    name: str
    value: object


ArgumentSpec = "TensorArgument | SymIntArgument | ConstantArgument"

InputKind = enum.Enum("InputKind", "USER_INPUT PARAMETER BUFFER CONSTANT_TENSOR CUSTOM_OBJ TOKEN")
OutputKind = enum.Enum("OutputKind", "USER_OUTPUT LOSS_OUTPUT BUFFER_MUTATION PARAMETER_MUTATION GRADIENT_TO_PARAMETER "
                                     "GRADIENT_TO_USER_INPUT USER_INPUT_MUTATION TOKEN")  # fmt: skip


@dataclass
class InputSpec:
    """An input: its kind, its argument, and what it is bound to."""

    kind: InputKind
    arg: object
    target: "str | None"
    persistent: "bool | None" = None


@dataclass
class OutputSpec:
    """An output: its kind, its argument, and what it is bound to."""

    kind: OutputKind
    arg: object
    target: "str | None"


@dataclass
class ExportBackwardSignature:
    """Which outputs are gradients, and of what."""

    gradients_to_parameters: "dict[str, str]"
    gradients_to_user_inputs: "dict[str, str]"
    loss_output: str


@dataclass
class ExportGraphSignature:
    """All inputs and outputs of a graph."""

    input_specs: "list[InputSpec]"
    output_specs: "list[OutputSpec]"

    def _targets(self, specs, kind):
        return tuple(spec.target for spec in specs if spec.kind is kind)

    @property
    def parameters(self):
        return self._targets(self.input_specs, InputKind.PARAMETER)

    @property
    def buffers(self):
        return self._targets(self.input_specs, InputKind.BUFFER)

    @property
    def user_inputs(self):
        return tuple(spec.arg.name for spec in self.input_specs if spec.kind is InputKind.USER_INPUT)

    @property
    def user_outputs(self):
        return tuple(spec.arg.name for spec in self.output_specs if spec.kind is OutputKind.USER_OUTPUT)
