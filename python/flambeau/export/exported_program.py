"""Exported programs and how their modules were called."""
from dataclasses import dataclass

__all__ = ["ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "default_decompositions", "CustomDecompTable"]


@dataclass
class ModuleCallSignature:
    """The arguments and results of a module's call."""

    inputs: list
    outputs: list
    in_spec: object
    out_spec: object
    forward_arg_names: "list[str] | None" = None


@dataclass
class ModuleCallEntry:
    """A module by name, with the signature of its call."""

    fqn: str
    signature: "ModuleCallSignature | None" = None


class CustomDecompTable(dict):
    """Rules that take operators apart, by operator."""

    def copy(self):
        return CustomDecompTable(self)


def default_decompositions():
    """The rules that exported programs are simplified by: there are none, as nothing is exported."""
    return CustomDecompTable()


class ExportedProgram:
    """A program as a graph of operators. None are made here: the class is there for annotations and checks of type."""

    def __init__(self, root, graph, graph_signature, state_dict, range_constraints, module_call_graph, example_inputs=None,
                 constants=None, *, verifiers=None):  # fmt: skip
        raise NotImplementedError("torch.export.ExportedProgram: Flambeau does not trace programs to graphs of operators")
