"""Trading time for memory: intermediate results are computed again in the backward pass instead of kept."""
from __future__ import annotations

import contextlib
import enum
import warnings
import weakref
from collections import defaultdict
from typing import Any

import flambeau as _fl
from flambeau.autograd import Function

__all__ = ["checkpoint", "checkpoint_sequential", "CheckpointError", "CheckpointFunction", "check_backward_validity",
           "detach_variable", "get_device_states", "set_device_states", "noop_context_fn", "set_checkpoint_early_stop",
           "DefaultDeviceType", "set_checkpoint_debug_enabled", "CheckpointPolicy", "SelectiveCheckpointContext",
           "create_selective_checkpoint_contexts", "SAC_IGNORED_OPS", "GraphExecGroup"]

_settings: dict[str, Any] = {"early_stop": True, "debug": None}

SAC_IGNORED_OPS: set = set()


class CheckpointError(RuntimeError):
    """The computation did something else the second time."""


@contextlib.contextmanager
def _setting(name: str, value):
    before = _settings[name]
    _settings[name] = value
    try:
        yield
    finally:
        _settings[name] = before


def set_checkpoint_early_stop(enable: bool):
    """Within the block, whether recomputation stops as soon as it has all it needs."""
    return _setting("early_stop", enable)


def set_checkpoint_debug_enabled(enabled: bool | None):
    """Within the block, whether errors tell all operators of both runs."""
    return _setting("debug", enabled)


class DefaultDeviceType:
    """The kind of device whose random state is kept when the arguments have none."""

    _default_device_type = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Name the device whose random state is kept."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """The device whose random state is kept."""
        return DefaultDeviceType._default_device_type


class GraphExecGroup:
    """Several backward calls that share one recomputation."""

    _current: "GraphExecGroup | None" = None

    def __enter__(self) -> "GraphExecGroup":
        if GraphExecGroup._current is not None:
            raise RuntimeError("GraphExecGroup contexts cannot be nested. "
                               f"Already inside group {GraphExecGroup._current}")
        GraphExecGroup._current = self
        return self

    def __exit__(self, *exc) -> None:
        GraphExecGroup._current = None


def detach_variable(inputs: tuple[Any, ...]) -> tuple:
    """Leaf copies of the tensors among the inputs."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    out = []
    for value in inputs:
        if isinstance(value, _fl.Tensor):
            copy = value.detach()
            copy.requires_grad = value.requires_grad
            value = copy
        out.append(value)
    return tuple(out)


def check_backward_validity(inputs) -> None:
    """Warn when no input needs a gradient."""
    if not any(value.requires_grad for value in inputs if isinstance(value, _fl.Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


def _accelerator_devices(args) -> tuple[str | None, list[int]]:
    found = {(a.device.type, a.get_device()) for a in args if isinstance(a, _fl.Tensor) and a.device.type not in
             ("cpu", "meta")}
    kinds = sorted({kind for kind, _ in found})
    return (kinds[0], sorted(i for kind, i in found if kind == kinds[0])) if kinds else (None, [])


def get_device_states(*args) -> tuple[list[int], list]:
    """The random states of the accelerators that hold the arguments."""
    kind, ids = _accelerator_devices(args)
    return ids, [getattr(_fl, kind).get_rng_state(i) for i in ids] if kind else []


def set_device_states(devices, states, *, device_type=None) -> None:
    """Put random states of accelerators back."""
    kind = device_type or DefaultDeviceType.get_device_type()
    if kind in ("meta", "cpu"):
        return
    for device, state in zip(devices, states):
        getattr(_fl, kind).set_rng_state(state, device)


def noop_context_fn():
    """Two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


class _Surroundings:
    """Random and autocast states at the time of a call, to be brought back for the second run."""

    def __init__(self, preserve_rng: bool, args) -> None:
        self.preserve = preserve_rng
        self.autocast = [(kind, _fl.is_autocast_enabled(kind), _fl.get_autocast_dtype(kind)) for kind in ("cpu",)]
        self.cache = _fl.is_autocast_cache_enabled()
        if preserve_rng:
            self.state = _fl.get_rng_state()
            self.kind, self.devices = _accelerator_devices(args)
            self.device_states = get_device_states(*args)[1]

    @contextlib.contextmanager
    def restored(self):
        with contextlib.ExitStack() as stack:
            if self.preserve:
                from ..random import fork_rng

                stack.enter_context(fork_rng(devices=self.devices, device_type=self.kind or "cpu"))
                _fl.set_rng_state(self.state)
                if self.kind:
                    set_device_states(self.devices, self.device_states, device_type=self.kind)
            for kind, enabled, dtype in self.autocast:
                from ..amp import autocast

                if enabled or _fl.is_autocast_enabled(kind):
                    stack.enter_context(autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=self.cache))
            yield


class CheckpointFunction(Function):
    """The re-entrant form: runs without a graph, then again with one inside the backward pass."""

    @staticmethod
    def forward(ctx, run_function, preserve_rng_state, *args):
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.surroundings = _Surroundings(preserve_rng_state, args)
        ctx.inputs = [None if isinstance(a, _fl.Tensor) else a for a in args]
        ctx.tensor_indices = [i for i, a in enumerate(args) if isinstance(a, _fl.Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.tensor_indices))
        with _fl.no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx, *args):
        checker = getattr(_fl.autograd, "_is_checkpoint_valid", None)
        if checker is not None and not checker():
            raise RuntimeError("When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an "
                               "`inputs` parameter to .backward(). To resolve this error, you can either set "
                               "use_reentrant=False, or call .backward() without passing the `inputs` argument.")
        inputs = list(ctx.inputs)
        for i, tensor in zip(ctx.tensor_indices, ctx.saved_tensors):
            inputs[i] = tensor
        with ctx.surroundings.restored():
            detached = detach_variable(tuple(inputs))
            with _fl.enable_grad():
                outputs = ctx.run_function(*detached)
        if isinstance(outputs, _fl.Tensor):
            outputs = (outputs,)
        wanted = {i: o for i, o in enumerate(outputs) if isinstance(o, _fl.Tensor) and o.requires_grad}
        if not wanted:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        _fl.autograd.backward(list(wanted.values()), [args[i] for i in wanted])
        return (None, None, *(getattr(value, "grad", None) for value in detached))


def checkpoint(function, *args, use_reentrant: bool | None = None, context_fn=noop_context_fn,
               determinism_check: str = "default", debug: bool = False, early_stop: bool = True, **kwargs):
    """``function(*args, **kwargs)`` without keeping its intermediate results; the backward pass computes them again."""
    if use_reentrant is None:
        warnings.warn("torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in PyTorch "
                      "2.9, calling checkpoint without use_reentrant will raise an exception. use_reentrant=False is "
                      "recommended, but if you need to preserve the current default behavior, you can pass "
                      "use_reentrant=True. Refer to docs for more details on the differences between the two variants.",
                      stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs and use_reentrant:
        raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")
    if use_reentrant:
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        return CheckpointFunction.apply(function, preserve, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    if not _fl.is_grad_enabled():
        return function(*args, **kwargs)
    forward_context, recompute_context = context_fn()
    frame = _Frame(function, args, kwargs, _Surroundings(preserve, args), recompute_context,
                   early_stop and _settings["early_stop"], determinism_check == "default")
    with _fl.autograd.graph.saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        return function(*args, **kwargs)


class _Stop(Exception):
    """The second run has produced all that is needed."""


class _Holder:
    """Stands in the graph for a tensor that was not kept."""

    __slots__ = ("index", "value", "__weakref__")

    def __init__(self, index: int) -> None:
        self.index = index
        self.value = None


class _Frame:
    """One checkpointed call: what it saved, and how to run it again."""

    def __init__(self, function, args, kwargs, surroundings, context, early_stop: bool, check: bool) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.surroundings, self.context = surroundings, context
        self.early_stop, self.check = early_stop, check
        self.holders: list = []
        self.metadata: list = []

    @staticmethod
    def describe(x) -> dict:
        return {"shape": x.shape, "dtype": x.dtype, "device": x.device}

    def pack(self, x):
        holder = _Holder(len(self.holders))
        self.holders.append(weakref.ref(holder))
        self.metadata.append(self.describe(x) if self.check else None)
        return holder

    def unpack(self, holder):
        if holder.value is None:
            self.recompute()
        value, holder.value = holder.value, None
        if value is None:
            raise CheckpointError("torch.utils.checkpoint: Unpack is being triggered for a tensor that was either never "
                                  "recomputed, or already unpacked once. If you are calling ctx.saved_tensors in backward, "
                                  "make sure to do so only once. Otherwise please open an issue with details on your use "
                                  "case.")
        return value

    def recompute(self) -> None:
        """Run the function again and put what it saves into the holders."""
        count = 0
        wrong: list[str] = []

        def pack(x):
            nonlocal count
            i = count
            count += 1
            if i < len(self.holders):
                if self.check:
                    now = self.describe(x)
                    if now != self.metadata[i]:
                        wrong.append(f"tensor at position {i}:\nsaved metadata: {self.metadata[i]}\nrecomputed metadata: "
                                     f"{now}")
                holder = self.holders[i]()
                if holder is not None:
                    holder.value = x.detach()
            if self.early_stop and count == len(self.holders):
                raise _Stop
            return x.detach()

        def unpack(x):
            return x

        try:
            with self.surroundings.restored(), self.context, _fl.enable_grad(), \
                    _fl.autograd.graph.saved_tensors_hooks(pack, unpack):
                self.function(*self.args, **self.kwargs)
        except _Stop:
            pass
        if count != len(self.holders):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(self.holders)}\nNumber of tensors saved "
                f"during recomputation: {count}.\n{_TIP}")
        if wrong:
            raise CheckpointError("torch.utils.checkpoint: Recomputed values for the following tensors have different "
                                  "metadata than during the forward pass.\n" + "\n".join(wrong) + f"\n{_TIP}")


_TIP = ("\nTip: To see a more detailed error message, either pass `debug=True` to\n`torch.utils.checkpoint.checkpoint(...)` "
        "or wrap the code block\nwith `with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):` to\nenable "
        "checkpoint‑debug mode globally.\n")


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """A chain of modules run in `segments` checkpointed parts (the last one is not checkpointed)."""
    if use_reentrant is None:
        warnings.warn("torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed "
                      "explicitly. In version 2.9 we will raise an exception if use_reentrant is not passed. "
                      "use_reentrant=False is recommended, but if you need to preserve the current default behavior, you "
                      "can pass use_reentrant=True. Refer to docs for more details on the differences between the two "
                      "variants.", stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")
    functions = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def part(start: int, end: int):
        def run(value):
            for function in functions[start:end]:
                value = function(value)
            return value

        return run

    size = len(functions) // segments
    for start in range(0, size * (segments - 1), size or 1):
        input = checkpoint(part(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return part(size * (segments - 1), len(functions))(input)


class CheckpointPolicy(enum.Enum):
    """What selective checkpointing does with an operator's result."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """Told to a policy: whether this is the second run, and the operator's output where known."""

    def __init__(self, *, is_recompute, op_output=None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation=False):
    """Contexts for ``checkpoint(context_fn=...)`` that keep the results of chosen operators."""
    from ._python_dispatch import TorchDispatchMode

    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not callable(op):
                raise ValueError(f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}.")

        def policy(ctx, op, *args, **kwargs):
            return CheckpointPolicy.MUST_SAVE if op in policy_fn_or_list else CheckpointPolicy.PREFER_RECOMPUTE
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    kept: dict = defaultdict(list)

    def saves(is_recompute: bool, func, args, kwargs) -> bool:
        choice = policy(SelectiveCheckpointContext(is_recompute=is_recompute), func, *args, **kwargs)
        if isinstance(choice, bool):
            choice = CheckpointPolicy.MUST_SAVE if choice else CheckpointPolicy.PREFER_RECOMPUTE
        return choice in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)

    def detached(out):
        if isinstance(out, _fl.Tensor):
            return out.detach()
        return type(out)(map(detached, out)) if isinstance(out, (list, tuple)) else out

    class Keeping(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            out = func(*args, **kwargs)
            if func not in SAC_IGNORED_OPS and saves(False, func, args, kwargs):
                kept[func].append(detached(out))
            return out

    class Kept(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if func not in SAC_IGNORED_OPS and saves(True, func, args, kwargs):
                if not kept[func]:
                    raise RuntimeError("Trying to backward an extra time. You are only allowed to backward once on any "
                                       "region computed under selective activation checkpoint.")
                return kept[func].pop(0)
            return func(*args, **kwargs)

    return Keeping(), Kept()
