# Made by scripts/stubs.
from builtins import bool as _bool, int as _int
from typing import Any

from . import dynamic_shapes as dynamic_shapes, exported_program as exported_program, graph_signature as graph_signature
from .dynamic_shapes import (
    AdditionalInputs as AdditionalInputs, Constraint as Constraint, Dim as Dim, ShapesCollection as ShapesCollection,
    dims as dims,
)
from .exported_program import (
    CustomDecompTable as CustomDecompTable, ExportedProgram as ExportedProgram, ModuleCallEntry as ModuleCallEntry,
    ModuleCallSignature as ModuleCallSignature, default_decompositions as default_decompositions,
)
from .graph_signature import (
    ExportBackwardSignature as ExportBackwardSignature, ExportGraphSignature as ExportGraphSignature,
)
from .unflatten import (
    FlatArgsAdapter as FlatArgsAdapter, UnflattenedModule as UnflattenedModule, unflatten as unflatten,
)
def draft_export(mod: Any, args: Any, kwargs: Any = None, *, dynamic_shapes: Any = None, preserve_module_call_signature: Any = ..., strict: _bool = False, prefer_deferred_runtime_asserts_over_guards: _bool = False) -> Any: ...
def export(mod: Any, args: Any, kwargs: Any = None, *, dynamic_shapes: Any = None, strict: _bool = False, preserve_module_call_signature: Any = ..., prefer_deferred_runtime_asserts_over_guards: _bool = False) -> Any: ...
def load(f: Any, *, extra_files: Any = None, expected_opset_version: Any = None) -> Any: ...
def register_dataclass(cls: Any, *, serialized_type_name: Any = None) -> Any: ...
def save(ep: Any, f: Any, *, extra_files: Any = None, opset_version: Any = None, pickle_protocol: _int = 2) -> Any: ...
