"""Exporting programs as graphs of operators: not part of Flambeau, whose `fx` traces Python calls. What libraries annotate and
subclass is here, and sizes can be declared; exporting raises."""
from .dynamic_shapes import AdditionalInputs, Constraint, Dim, ShapesCollection, dims
from .exported_program import CustomDecompTable, ExportedProgram, ModuleCallEntry, ModuleCallSignature, default_decompositions
from .graph_signature import ExportBackwardSignature, ExportGraphSignature
from .unflatten import FlatArgsAdapter, UnflattenedModule, unflatten

__all__ = ["AdditionalInputs", "Constraint", "CustomDecompTable", "default_decompositions", "Dim", "dims", "draft_export",
           "export", "ExportBackwardSignature", "ExportedProgram", "ExportGraphSignature", "FlatArgsAdapter", "load",
           "ModuleCallEntry", "ModuleCallSignature", "register_dataclass", "save", "ShapesCollection", "unflatten",
           "UnflattenedModule"]  # fmt: skip


def export(mod, args, kwargs=None, *, dynamic_shapes=None, strict=False, preserve_module_call_signature=(),
           prefer_deferred_runtime_asserts_over_guards=False):  # fmt: skip
    """Raises: programs are not traced to graphs of operators."""
    from ..nn import Module

    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    raise NotImplementedError("torch.export.export: Flambeau does not trace programs to graphs of operators")


def draft_export(mod, args, kwargs=None, *, dynamic_shapes=None, preserve_module_call_signature=(), strict=False,
                 prefer_deferred_runtime_asserts_over_guards=False):  # fmt: skip
    """Raises, as `export` does."""
    export(mod, args, kwargs)


def save(ep, f, *, extra_files=None, opset_version=None, pickle_protocol=2):
    """Raises: there are no exported programs."""
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead.")
    raise NotImplementedError("torch.export.save: Flambeau does not write exported programs")


def load(f, *, extra_files=None, expected_opset_version=None):
    """Raises: exported programs are not read."""
    raise NotImplementedError("torch.export.load: Flambeau does not read exported programs")


def register_dataclass(cls, *, serialized_type_name=None):
    """Makes a dataclass one of the containers that `utils._pytree` takes apart."""
    from ..utils import _pytree

    _pytree.register_dataclass(cls, serialized_type_name=serialized_type_name)
