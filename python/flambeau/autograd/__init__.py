"""Automatic differentiation."""
import functools
from threading import local

from .. import _C
from . import anomaly_mode, function, grad_mode
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .function import Function, NestedIOFunction
from .grad_mode import (
    enable_grad, enforce_grad_layout_policy, inference_mode, is_multithreading_enabled, is_view_replay_enabled, no_grad,
    set_grad_enabled, set_multithreading_enabled,
)  # fmt: skip

__all__ = ["Variable", "Function", "backward", "grad_mode", "NestedIOFunction", "detect_anomaly", "enable_grad", "grad",
           "gradcheck", "gradgradcheck", "inference_mode", "no_grad", "set_detect_anomaly", "set_grad_enabled",
           "set_multithreading_enabled", "variable"]  # fmt: skip

_LAZY_MODULES = frozenset(("forward_ad", "functional", "graph", "profiler", "profiler_legacy", "profiler_util"))
_LAZY_NAMES = {
    "gradcheck": "gradcheck",
    "gradgradcheck": "gradcheck",
    "Variable": "variable",
    "SavedTensor": "graph",
    "DeviceType": "profiler",
    "ProfilerActivity": "profiler",
    "ProfilerConfig": "profiler",
    "ProfilerEvent": "profiler",
    "ProfilerState": "profiler",
    "kineto_available": "profiler",
    "has_torch_function": "..overrides",
    "handle_torch_function": "..overrides",
    "is_tensor_like": "..overrides",
}


def __getattr__(name):
    from importlib import import_module

    if name in _LAZY_MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _LAZY_NAMES:
        home = _LAZY_NAMES[name]
        value = getattr(import_module(home if home.startswith("..") else "." + home, __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'flambeau.autograd' has no attribute '{name}'")


def _is_tensor(x):
    return isinstance(x, _C.Tensor)


def _is_edge(x):
    return hasattr(x, "output_nr") and hasattr(x, "node")


class _FinalCallbacks(local):
    """What is to run when the backward pass that runs in this thread has ended; passes within passes have their own."""

    def __init__(self):
        self.waiting = []

    def queue_callback(self, callback):
        """RuntimeError outside of a backward pass."""
        if not self.waiting:
            raise RuntimeError("Final callbacks can only be installed during backward pass.")
        self.waiting[-1].append(callback)


_callbacks = _FinalCallbacks()


def _run_engine(*args):
    """`_C._run_backward`, and then what was queued meanwhile if that went well."""
    waiting = _callbacks.waiting
    waiting.append([])
    try:
        result = _C._run_backward(*args)
        callbacks = waiting[-1]
    finally:
        waiting.pop()
    for callback in callbacks:
        callback()
    return result


def _as_sequence(x):
    """A tensor, an edge or a sequence of them as a tuple."""
    return (x,) if _is_tensor(x) or _is_edge(x) else tuple(x)


def _make_grads(outputs, grads, batched=False):
    """Checks gradients against outputs, and gives scalar outputs without one the gradient 1."""
    made = []
    for i, (out, grad) in enumerate(zip(outputs, grads)):
        if not _is_edge(out) and not _is_tensor(out):
            raise AssertionError("Expected output to be a torch.Tensor")
        if _is_tensor(grad):
            if _is_tensor(out):
                shape = grad.shape[1:] if batched else grad.shape
                if out.shape != shape:
                    if batched:
                        raise RuntimeError(
                            "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the "
                            "batch dimension. The sizes of the remaining dimensions are expected to match the shape of "
                            f"corresponding output, but a mismatch was detected: grad_output[{i}] has a shape of "
                            f"{grad.shape[2:]} and output[{i}] has a shape of {out.shape}. If you only want some tensors in "
                            "`grad_output` to be considered batched, consider using vmap."
                        )
                    raise RuntimeError(
                        f"Mismatch in shape: grad_output[{i}] has a shape of {grad.shape} and output[{i}] has a shape "
                        f"of {out.shape}."
                    )
                if out.dtype.is_complex != grad.dtype.is_complex:
                    raise RuntimeError(
                        "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch "
                        f"in dtype: grad_output[{i}] has a dtype of {grad.dtype} and output[{i}] has a dtype of "
                        f"{out.dtype}."
                    )
            made.append(grad)
        elif grad is None:
            if _is_tensor(out) and out.requires_grad:
                if out.numel() != 1:
                    raise RuntimeError("grad can be implicitly created only for scalar outputs")
                if not out.dtype.is_floating_point:
                    raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {out.dtype}")
                made.append(_C.ones_like(out, memory_format=_C.preserve_format))
            else:
                made.append(None)
        else:
            raise TypeError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
    return tuple(made)


def _grad_tuple(outputs, grads):
    """The gradients given for `outputs`, one of them or many, or None for each."""
    if grads is None:
        return (None,) * len(outputs)
    grads = (grads,) if _is_tensor(grads) else tuple(grads)
    if len(grads) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients")
    return grads


def backward(
    tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None
):
    """Adds the gradients of `tensors` to the `.grad` of the leaves of their graph (or of `inputs`)."""
    if grad_variables is not None:
        import warnings

        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only "
                "use `grad_tensors`."
            )
        grad_tensors = grad_variables
    inputs = () if inputs is None else _as_sequence(inputs) or None
    if inputs is None:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    tensors = _as_sequence(tensors)
    grads = _make_grads(tensors, _grad_tuple(tensors, grad_tensors))
    if retain_graph is None:
        retain_graph = create_graph
    if create_graph:
        import warnings

        warnings.warn(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient "
            "which can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you "
            "have to use this function, make sure to reset the .grad fields of your parameters to None after use to break "
            "the cycle and avoid the leak.",
            stacklevel=3,
        )
    _run_engine(tensors, grads, retain_graph, create_graph, inputs, True, True)


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    """The gradients of `outputs` with respect to `inputs`, as a tuple; `.grad` is left alone."""
    if materialize_grads and allow_unused is False:
        raise ValueError(
            f"Expected allow_unused to be True or not passed when materialize_grads=True, but got: {allow_unused=}."
        )
    if allow_unused is None:
        allow_unused = materialize_grads
    outputs, inputs = _as_sequence(outputs), _as_sequence(inputs)
    operands = (*outputs, *inputs)
    if _C.has_torch_function(operands):
        return _C.handle_torch_function(
            grad, operands, outputs, inputs, grad_outputs=grad_outputs, retain_graph=retain_graph, create_graph=create_graph,
            only_inputs=only_inputs, allow_unused=allow_unused, is_grads_batched=is_grads_batched,
            materialize_grads=materialize_grads,
        )
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    if not only_inputs:
        import warnings

        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for other "
            "parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    grads = _make_grads(outputs, _grad_tuple(outputs, grad_outputs), is_grads_batched)
    if retain_graph is None:
        retain_graph = create_graph

    run = functools.partial(_grad_of, outputs, inputs, create_graph, allow_unused)
    if is_grads_batched:
        result = _batched(run, grads, retain_graph)
    else:
        result = run(grads, retain_graph)
    if materialize_grads:
        result = tuple(
            _C.zeros_like(i, requires_grad=create_graph) if g is None else g for g, i in zip(result, inputs)
        )
    return tuple(result)


# Not a function inside `grad`: one that names itself would keep the outputs, and their graph, until the garbage collector
# comes by.
def _grad_of(outputs, inputs, create_graph, allow_unused, grads, retain):
    if function._vmap_levels and any(hasattr(type(g), "_flambeau_batched") for g in grads):
        run = functools.partial(_grad_of, outputs, inputs, create_graph, allow_unused)
        return _inside_vmap(run, grads, retain)
    return _run_engine(outputs, grads, retain, create_graph, inputs, allow_unused, False)


def _batched(run, grads, retain_graph):
    """One backward for each slice of the gradients along their first dimension, stacked."""
    n = next(g.shape[0] for g in grads if g is not None)
    rows = []
    for i in range(n):
        row = tuple(None if g is None else g[i] for g in grads)
        rows.append(run(row, retain_graph or i < n - 1))
    return tuple(None if column[0] is None else _C.stack(column) for column in zip(*rows))


def _inside_vmap(run, grads, retain_graph):
    """The same for gradients that the innermost `vmap` among theirs batches, over a graph from outside of it."""
    from ..func._batched import is_batched, split, top_level, wrap

    level = top_level([g for g in grads if is_batched(g)])
    parts = [split(g, level) for g in grads]
    n = next(value.shape[0] for value, batched in parts if batched)
    rows = []
    for i in range(n):
        row = tuple(value[i] if batched else value for value, batched in parts)
        rows.append(run(row, retain_graph or i < n - 1))
    return tuple(None if column[0] is None else wrap(_C.stack(column), level) for column in zip(*rows))


def variable(*args, **kwargs):
    raise RuntimeError("torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead")
