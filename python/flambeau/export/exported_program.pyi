# Made by scripts/stubs.
from typing import Any

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class CustomDecompTable(dict[Any, Any]):
    def copy(self) -> Any: ...
class ExportedProgram:
    def __init__(self, root: Any, graph: Any, graph_signature: Any, state_dict: Any, range_constraints: Any, module_call_graph: Any, example_inputs: Any = None, constants: Any = None, *, verifiers: Any = None) -> None: ...
class ModuleCallEntry:
    signature: Any
    def __init__(self, fqn: str, signature: ModuleCallSignature | None = None) -> None: ...
    fqn: str
class ModuleCallSignature:
    forward_arg_names: Any
    def __init__(self, inputs: list[Any], outputs: list[Any], in_spec: object, out_spec: object, forward_arg_names: list[str] | None = None) -> None: ...
    inputs: list[Any]
    outputs: list[Any]
    in_spec: object
    out_spec: object
def default_decompositions() -> Any: ...
