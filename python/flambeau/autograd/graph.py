"""Looking into the graph: nodes, edges, saved tensors and hooks."""
import abc
import contextlib
import functools
import threading
import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple, Optional

from .. import _C
from ..utils.hooks import RemovableHandle  # noqa: F401

__all__ = [
    "saved_tensors_hooks", "save_on_cpu", "disable_saved_tensors_hooks", "register_multi_grad_hook",
    "allow_mutation_on_saved_tensors", "Node", "GradientEdge", "get_gradient_edge", "increment_version",
    "set_warn_on_accumulate_grad_stream_mismatch", "set_override_stale_capture_stream",
    "region_activation_memory_budget",
]  # fmt: skip

SavedTensor = _C.SavedTensor


def __getattr__(name):
    if name == "Variable":
        from .variable import Variable

        return Variable
    raise AttributeError(f"module 'flambeau.autograd.graph' has no attribute '{name}'")


class Node(abc.ABC):
    """What every `grad_fn` is: a function of the graph."""

    @abc.abstractmethod
    def name(self):
        """The name, as 'MulBackward0'."""
        raise NotImplementedError

    @property
    @abc.abstractmethod
    def next_functions(self):
        """The nodes the gradients go to, each with the number of its output."""
        raise NotImplementedError

    @abc.abstractmethod
    def metadata(self):
        """A dictionary of one's own."""
        raise NotImplementedError

    @property
    @abc.abstractmethod
    def _input_metadata(self):
        raise NotImplementedError

    @abc.abstractmethod
    def register_hook(self, fn):
        """`fn(grad_inputs, grad_outputs)` runs after the node; what it returns replaces the grad_inputs."""
        raise NotImplementedError

    @abc.abstractmethod
    def register_prehook(self, fn):
        """`fn(grad_outputs)` runs before the node; what it returns replaces the grad_outputs."""
        raise NotImplementedError

    @classmethod
    def __subclasshook__(cls, subclass):
        if cls is Node and (issubclass(subclass, _C._PyNode) or _is_core_node(subclass)):
            return True
        return NotImplemented


def _is_core_node(cls):
    return hasattr(cls, "next_functions") and hasattr(cls, "register_prehook")


class GradientEdge(NamedTuple):
    """One output of a node."""

    node: Node
    output_nr: int
    ownership_token: Optional[Node] = None


def get_gradient_edge(tensor):
    """The edge into which gradients of `tensor` flow."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(_gradient_node(tensor), tensor.output_nr, ownership_token=tensor.grad_fn)


def _gradient_node(tensor):
    """The grad_fn, or the accumulator of a leaf."""
    if tensor.requires_grad and tensor.grad_fn is None:
        with _C.enable_grad():
            return tensor.view_as(tensor).grad_fn.next_functions[0][0]
    return tensor.grad_fn


def increment_version(tensor):
    """Tells the engine that a tensor, or several, changed behind its back."""
    tensors = (tensor,) if isinstance(tensor, _C.Tensor) else tensor
    if not isinstance(tensors, Iterable):
        raise RuntimeError("increment_version expect a Iterable[Tensor] as input")
    for t in tensors:
        _C._increment_version(t)


class saved_tensors_hooks:
    """Inside, tensors saved for backward go through `pack_hook`, and come back through `unpack_hook`."""

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self):
        for hook in (self.pack_hook, self.unpack_hook):
            if not callable(hook):
                raise TypeError(f"the hooks of saved_tensors_hooks have to be functions, not {type(hook).__name__}")
        _C._push_saved_tensors_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *args):
        _C._pop_saved_tensors_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Inside, tensors saved for backward wait in the computer's own memory."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        def pack(tensor):
            if not pin_memory:
                return tensor.device, tensor.cpu()
            packed = _C.empty(
                tensor.size(), dtype=tensor.dtype, layout=tensor.layout,
                pin_memory=_accelerator_there(device_type) and not tensor.is_sparse,
            )  # fmt: skip
            packed.copy_(tensor)
            return tensor.device, packed

        super().__init__(pack, lambda packed: packed[1].to(packed[0], non_blocking=pin_memory))


def _accelerator_there(device_type):
    import importlib

    try:
        return importlib.import_module(f"flambeau.{device_type}").is_available()
    except ImportError:
        return False


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message):
    """Inside, hooks on saved tensors raise `error_message`."""
    previous = _C._disabled_saved_tensors_hooks_message()
    _C._disable_saved_tensors_hooks(error_message)
    try:
        yield
    finally:
        if previous is None:
            _C._enable_saved_tensors_hooks()
        else:
            _C._disable_saved_tensors_hooks(previous)


class _Handles:
    """Removes several hooks at once."""

    def __init__(self, handles):
        self.handles = handles

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.remove()


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """`fn` runs in each backward when the gradients of all `tensors` are there (or, mode 'any', the first)."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = threading.Lock()
    if mode == "any":
        seen = {}

        @functools.wraps(fn)
        def any_hook(grad):
            with lock:
                task = _C._current_graph_task_id()
                if seen.get("task") == task:
                    return
                seen["task"] = task
            fn(grad)

        return _Handles([t.register_hook(any_hook) for t in tensors if t.requires_grad])

    nodes = [_gradient_node(t) for t in tensors]
    running = {}

    def hook_for(place):
        def hook(grad):
            task = _C._current_graph_task_id()
            with lock:
                if running.get("task") != task:
                    running.update(
                        task=task, grads=[None] * len(tensors), waiting=sum(map(_C._will_engine_execute_node, nodes))
                    )
                grads = running["grads"]
                grads[place] = grad if grads[place] is None else grads[place] + grad
                running["waiting"] -= 1
                if running["waiting"]:
                    return
                running.clear()
            fn(grads)

        return hook

    return _Handles([t.register_hook(hook_for(i)) for i, t in enumerate(tensors)])


class _AllowMutationOnSavedContext:
    """Holds copies of saved tensors that were changed in place since."""

    def __init__(self):
        self.cloned: Any = weakref.WeakKeyDictionary()
        self.original: Any = weakref.WeakKeyDictionary()

    def clear(self):
        self.cloned.clear()
        self.original.clear()


@contextlib.contextmanager
def allow_mutation_on_saved_tensors():
    """Inside, a tensor saved for backward may be changed in place: backward sees its value at saving time."""
    from ..overrides import TorchFunctionMode

    context = _AllowMutationOnSavedContext()
    saved = []  # [weak reference to handle, tensor] of what is saved and not yet copied

    class Handle:
        value = None

    def pack(tensor):
        handle = Handle()
        handle.value = tensor
        saved.append((weakref.ref(handle), tensor.untyped_storage().data_ptr()))
        context.original[handle] = tensor
        return handle

    def unpack(handle):
        if handle not in context.original:
            raise RuntimeError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' contextin which the graph was "
                "originally recorded."
            )
        return context.cloned.get(handle, handle.value)

    def before_mutation(tensor):
        place = tensor.untyped_storage().data_ptr()
        kept = []
        for ref, pointer in saved:
            handle = ref()
            if handle is None:
                continue
            if pointer == place:
                with _C.no_grad():
                    context.cloned[handle] = handle.value.detach().clone()
                handle.value = None
            else:
                kept.append((ref, pointer))
        saved[:] = kept

    class Watch(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            name = getattr(func, "__name__", "")
            in_place = (name.endswith("_") and not name.endswith("__")) or name == "__setitem__"
            in_place = in_place or (name.startswith("__i") and name not in ("__index__", "__int__", "__invert__", "__iter__"))
            if in_place and args and isinstance(args[0], _C.Tensor):
                before_mutation(args[0])
            out = kwargs.get("out")
            for tensor in (out if isinstance(out, (tuple, list)) else (out,)) if out is not None else ():
                before_mutation(tensor)
            return func(*args, **kwargs)

    with saved_tensors_hooks(pack, unpack), Watch():
        try:
            yield context
        finally:
            context.clear()
            saved.clear()


def set_warn_on_accumulate_grad_stream_mismatch(enabled):
    """Kept for programs that set it; there are no streams on a CPU."""


def set_override_stale_capture_stream(enabled):
    """Kept for programs that set it; there are no streams on a CPU."""


def region_activation_memory_budget(budget):
    """Kept for programs that set it: a hint to a compiler."""
    return contextlib.nullcontext()


