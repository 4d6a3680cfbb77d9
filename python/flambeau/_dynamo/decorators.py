"""Marks for PyTorch's tracer, by the module's name that files and libraries know."""
from dataclasses import dataclass

from . import (allow_in_graph, assume_constant_result, disable, disallow_in_graph, forbid_in_graph, graph_break, mark_dynamic,
               mark_static, mark_static_address, maybe_mark_dynamic, nonstrict_trace, run, set_stance, skip_frame,
               substitute_in_graph)

__all__ = ["allow_in_graph", "assume_constant_result", "disable", "disallow_in_graph", "forbid_in_graph", "graph_break",
           "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic", "nonstrict_trace", "run", "set_stance",
           "skip_frame", "substitute_in_graph"]


@dataclass(frozen=True, slots=True)
class _DimRange:
    """The range of a size; saved nested tensors of PyTorch's have some among their attributes."""

    dim: int
    min: int
    max: int
