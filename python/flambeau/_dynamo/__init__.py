"""What libraries import of PyTorch's tracer. Nothing is traced here: marks are kept, decorators return what they get."""
from ..compiler import allow_in_graph, assume_constant_result, is_compiling, list_backends, reset, set_stance
from ..compiler import disable, substitute_in_graph
from . import config, exc
from .eval_frame import OptimizedModule

__all__ = ["OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable", "disallow_in_graph",
           "exc", "forbid_in_graph", "graph_break", "is_compiling", "is_dynamo_supported", "is_inductor_supported",
           "list_backends", "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic", "nonstrict_trace",
           "optimize", "reset", "reset_code_caches", "reset_frame_count", "run", "set_stance", "skip_frame",
           "substitute_in_graph"]  # fmt: skip


def is_dynamo_supported():
    """Whether functions can be traced: no."""
    return False


is_inductor_supported = is_dynamo_supported


def disallow_in_graph(fn):
    """The function itself: there is no graph to keep it out of."""
    return fn


forbid_in_graph = nonstrict_trace = disallow_in_graph


def run(fn=None):
    """The function itself, without compilation; without one, a decorator."""
    return disallow_in_graph if fn is None else fn


def optimize(*args, **kwargs):
    """A decorator that leaves functions as they are."""
    return disallow_in_graph


def graph_break(msg=""):
    """Would end a graph; there is none."""


skip_frame = graph_break


def reset_frame_count():
    """Counts of traced functions begin anew: there are none."""


reset_code_caches = reset_frame_count


def _indices(index, t):
    if index is None:
        return range(t.dim())
    return index if isinstance(index, (list, tuple)) else [index]


def _mark(t, name, index):
    if not hasattr(t, name):
        setattr(t, name, set())
    getattr(t, name).update(_indices(index, t))
    t._has_dynamo_dim_marking = True


def mark_dynamic(t, index, *, hint_override=None, min=None, max=None, specialize_on=None):
    """Records which sizes of a tensor vary."""
    _mark(t, "_dynamo_dynamic_indices", index)


def maybe_mark_dynamic(t, index):
    """Records which sizes of a tensor may vary."""
    _mark(t, "_dynamo_weak_dynamic_indices", index)


def mark_static(t, index=None):
    """Records which sizes of a tensor stay."""
    _mark(t, "_dynamo_static_indices", index)


def mark_static_address(t, guard=False):
    """Records that a tensor stays where it is."""
    t._dynamo_static_input_type = "guarded" if guard else "unguarded"
