"""The base class of all optimisers: parameter groups, state dictionaries, hooks and the shared update loop."""
from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any, Union

import flambeau as _fl
from flambeau import _C
from flambeau.utils._foreach_utils import (Indices, TensorListList, _foreach_supported_types,
                                           _get_foreach_kernels_supported_devices,
                                           _get_fused_kernels_supported_devices, _group_tensors_by_device_and_dtype)
from flambeau.utils.hooks import RemovableHandle

__all__ = ["Optimizer", "register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"]

ParamsT = Union[Iterable[Any], Iterable["dict[str, Any]"]]
params_t = ParamsT

_global_optimizer_pre_hooks: dict[int, Callable] = OrderedDict()
_global_optimizer_post_hooks: dict[int, Callable] = OrderedDict()

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
StateDict = dict[str, Any]
DeviceDict = dict[Union[_fl.device, None], _fl.Tensor]
DeviceDtypeDict = dict[Union[tuple[_fl.device, _fl.dtype], None], _fl.Tensor]
GlobalOptimizerPreHook = Callable[["Optimizer", Args, Kwargs], Union[tuple[Args, Kwargs], None]]
GlobalOptimizerPostHook = Callable[["Optimizer", Args, Kwargs], None]

# What the documentation of an optimiser says about arguments that many have.
_params_doc = """params (iterable): the tensors to optimise, as they are, as pairs of a name and a tensor, or as dicts
            that define groups of parameters; either all have a name or none"""
_foreach_doc = """foreach (bool, optional): whether to update by operators over lists; here without effect on the result
            or the speed, as lists are used wherever they can be (default: None)"""
_fused_doc = """fused (bool, optional): whether to update all parameters of floating point in one kernel
            (default: None)"""
_capturable_doc = """capturable (bool, optional): whether a step can be recorded into a device's graph; no device here
            can (default: False)"""
_differentiable_doc = """differentiable (bool, optional): whether gradients are recorded through the step
            (default: False)"""
_maximize_doc = """maximize (bool, optional): go up the objective's slope instead of down (default: False)"""


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Kinds of devices whose steps can be recorded."""
    return ["cuda", "xpu", "hpu", _C._get_privateuse1_backend_name()] + ["xla"] * supports_xla


def _device_dtype_check_for_fused(p, cuda_unsupported: bool = False) -> None:
    """RuntimeError unless a fused kernel can update `p`."""
    kinds = _get_fused_kernels_supported_devices()
    if cuda_unsupported:
        kinds.remove("cuda")
    if not (p.is_floating_point() and p.device.type in kinds):
        raise RuntimeError("`fused=True` requires all the params to be floating point Tensors of supported "
                           f"devices: {kinds} but {p.dtype} and {p.device.type}")


def _default_to_fused_or_foreach(params: list, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """Whether an optimiser that is told nothing updates by a fused kernel, and whether by operators over lists."""
    if differentiable:
        return False, False

    def all_on(kinds: list[str], floating: bool) -> bool:
        return all(p is None or p.device.type in kinds and (p.is_floating_point() or not floating) for p in params)

    fused = use_fused and all_on(_get_fused_kernels_supported_devices(), True)
    return fused, not fused and all_on(_get_foreach_kernels_supported_devices(), False)


def _use_grad_for_differentiable(step):
    """Decorates `step`: gradients are recorded within if the defaults say `differentiable`."""

    @functools.wraps(step)
    def run(self, *args, **kwargs):
        with _fl.set_grad_enabled(self.defaults["differentiable"]):
            return step(self, *args, **kwargs)

    return run


def _disable_dynamo_if_unsupported(single_tensor_fn=None):
    """Decorates a functional optimiser; nothing is compiled here, so it stays as it is."""
    return lambda function: function


class _RequiredParameter:
    """Marks a hyperparameter that has no default."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before the step of every optimiser."""
    return _register(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after the step of every optimiser."""
    return _register(_global_optimizer_post_hooks, hook)


def _register(hooks: dict, hook: Callable, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def is_tensor(x: Any) -> bool:
    """Whether an object is a tensor."""
    return isinstance(x, _fl.Tensor)


def scalar_dtype(is_fused: bool | None = None):
    """The type of `step`: float64 with that default type, else float32 (always, when fused)."""
    if is_fused:
        return _fl.float32
    return _fl.float64 if _fl.get_default_dtype() == _fl.float64 else _fl.float32


def value_of(x: Any) -> Any:
    """A Python number from a one-element tensor or a number."""
    return x.item() if isinstance(x, _fl.Tensor) else x


_get_value, _get_scalar_dtype = value_of, scalar_dtype


def _stack_if_compiling(x: Any) -> Any:
    """The list itself: a compiler would see a stacked tensor."""
    return x


def _to_scalar(x: Any) -> Any:
    """A tensor without its dims of size 1; a number as it is."""
    return x.squeeze() if is_tensor(x) else x


def _view_as_real(params: list, *state_and_grads: list) -> None:
    """Replace complex parameters, and what the other lists have in their places, by real views, in the lists."""
    for i, p in enumerate(params):
        if p.is_complex():
            for values in (params, *state_and_grads):
                values[i] = _fl.view_as_real(values[i])


def new_step(value: float = 0.0):
    """A step counter for the state."""
    return _fl.tensor(value, dtype=scalar_dtype())


def check_lr_tensor(lr: Any) -> None:
    """What holds for a learning rate that is a tensor."""
    if is_tensor(lr) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")


def check(condition: bool, message: str) -> None:
    """ValueError with `message` unless `condition` holds."""
    if not condition:
        raise ValueError(message)


def check_betas(betas) -> None:
    """What holds for the decay rates of two averages."""
    for i in range(2):
        beta = betas[i]
        check(0.0 <= beta < 1.0, f"Invalid beta parameter at index {i}: {beta}")


def zeros_like(p):
    """A tensor of zeros for the state, of the parameter's layout."""
    return _fl.zeros_like(p, memory_format=_fl.preserve_format)


def _record(name: str):
    """A profiler range when a profiler is loaded; otherwise nothing."""
    import sys

    profiler = sys.modules.get("flambeau.autograd.profiler")
    return profiler.record_function(name) if profiler is not None and hasattr(profiler, "record_function") else None


class Optimizer:
    """Base of all optimisers: `params` (tensors, named tensors or groups as dicts) and the default hyperparameters."""

    OptimizerPreHook = Callable[..., Any]
    OptimizerPostHook = Callable[..., None]

    _optimizer_step_pre_hooks: dict[int, Callable]
    _optimizer_step_post_hooks: dict[int, Callable]
    _HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_optimizer_state_dict_pre_hooks",
              "_optimizer_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks",
              "_optimizer_load_state_dict_post_hooks")
    # Group entries that a state dictionary from an older version may lack.
    _group_defaults: dict[str, Any] = {}

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        for name in self._HOOKS:
            setattr(self, name, OrderedDict())
        self._patch_step_function()

        if is_tensor(params):
            raise TypeError("params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                            + params.type())
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)
        self._warned_capturable_if_run_uncaptured = True

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in self._HOOKS:
            if name not in self.__dict__:
                setattr(self, name, OrderedDict())
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)
        if self._group_defaults:
            for group in self.param_groups:
                for key, value in self._group_defaults.items():
                    group.setdefault(key, value)
                for p in group["params"]:
                    entry = self.state.get(p)
                    if entry and "step" in entry and self._tensor_step and not is_tensor(entry["step"]):
                        entry["step"] = _fl.tensor(float(entry["step"]), dtype=scalar_dtype(group.get("fused")))

    _tensor_step = True

    def __repr__(self) -> str:
        lines = [type(self).__name__, " ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"\nParameter Group {i}\n")
            lines.extend(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
        return "".join(lines) + ")"

    # Steps and hooks

    def _optimizer_step_code(self) -> None:
        """Runs after each step, before the post hooks; for profilers to override."""

    def _accelerator_graph_capture_health_check(self) -> None:
        """Nothing to look at: no device here records its work."""

    _cuda_graph_capture_health_check = _accelerator_graph_capture_health_check

    @staticmethod
    def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices: bool = False):
        """``{(device, dtype): (the lists' entries there, their positions)}``, by the entries of the first list."""
        return _group_tensors_by_device_and_dtype(tensorlistlist, with_indices)

    @staticmethod
    def profile_hook_step(func: Callable) -> Callable:
        """Wrap a step function with the pre and post hooks and a profiler range."""

        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            self = args[0]
            span = _record(f"Optimizer.step#{type(self).__name__}.step")
            if span is not None:
                with span:
                    return run(self, args, kwargs)
            return run(self, args, kwargs)

        def run(self, args, kwargs):
            for hook in chain(_global_optimizer_pre_hooks.values(), self._optimizer_step_pre_hooks.values()):
                result = hook(self, args, kwargs)
                if result is not None:
                    if not (isinstance(result, tuple) and len(result) == 2):
                        raise RuntimeError(f"{func} must return None or a tuple of (new_args, new_kwargs), "
                                           f"but got {result}.")
                    args, kwargs = result
            out = func(*args, **kwargs)
            self._optimizer_step_code()
            for hook in chain(self._optimizer_step_post_hooks.values(), _global_optimizer_post_hooks.values()):
                hook(self, args, kwargs)
            return out

        return wrapper

    def _patch_step_function(self) -> None:
        cls = type(self)
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{cls.__name__}.zero_grad"
        if not getattr(cls.step, "hooked", None):
            cls.step = self.profile_hook_step(cls.step)
            cls.step.hooked = True

    def register_step_pre_hook(self, hook) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step; it may return new ``(args, kwargs)``."""
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step."""
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before `state_dict`."""
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after `state_dict`; it may return another one."""
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before `load_state_dict`; it may return another one."""
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` after `load_state_dict`."""
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # State dictionaries

    def state_dict(self) -> dict[str, Any]:
        """``{"state": by parameter number, "param_groups": with numbers instead of parameters}``."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            packed = {k: v for k, v in group.items() if k != "params"}
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {(numbers[id(k)] if is_tensor(k) else k): v for k, v in self.state.items()}
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            if changed is not None:
                result = changed
        return result

    @staticmethod
    def _process_value_according_to_param_policy(param, value, param_id: int, param_groups: list[dict], key=None):
        """A loaded state tensor, cast to its parameter's type and device (`step` keeps its own)."""
        if key == "step":
            owner = next((group for group in param_groups if param_id in group["params"]), {})
            beside = owner.get("fused", False) or owner.get("capturable", False)
            return value.to(dtype=_fl.float32, device=param.device) if beside else value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over state and hyperparameters from a `state_dict` of an optimiser over the same parameters."""
        state_dict = state_dict.copy()
        for prepare in self._optimizer_load_state_dict_pre_hooks.values():
            changed = prepare(self, state_dict)
            state_dict = state_dict if changed is None else changed
        groups = self.param_groups
        saved = deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(groups, saved)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of "
                             "optimizer's group")
        params = dict(zip(chain.from_iterable(g["params"] for g in saved),
                          chain.from_iterable(g["params"] for g in groups)))

        def cast(param, value, param_id=None, key=None):
            if is_tensor(value):
                return self._process_value_according_to_param_policy(param, value, param_id,
                                                                     state_dict["param_groups"], key)
            if isinstance(value, dict):
                return {k: cast(param, v, param_id, k) for k, v in value.items()}
            if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
                return type(value)(cast(param, v, param_id) for v in value)
            return value

        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                state[params[key]] = cast(params[key], value, key)
            else:
                state[key] = value
        del cast  # It names itself, and would keep the other state until the garbage collector comes by.
        for group, new in zip(groups, saved):
            new["params"] = group["params"]
            if "param_names" in group:
                new.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters (or fill them with zeros)."""
        span = _record(self._zero_grad_profile_name) if hasattr(self, "_zero_grad_profile_name") else None
        if span is not None:
            span.__enter__()
        try:
            for group in self.param_groups:
                for p in group["params"]:
                    grad = p.grad
                    if grad is None:
                        continue
                    if set_to_none:
                        p.grad = None
                    else:
                        if grad.grad_fn is not None:
                            grad.detach_()
                        else:
                            grad.requires_grad_(False)
                        grad.zero_()
        finally:
            if span is not None:
                span.__exit__(None, None, None)

    def step(self, closure: Callable[[], float] | None = None):
        """One update of all parameters; `closure` recomputes the loss where the method needs it."""
        raise NotImplementedError

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add ``{"params": tensors, hyperparameter: value, ...}`` to the groups."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if is_tensor(params):
            param_group["params"] = [params]
        elif isinstance(params, set):
            raise TypeError("optimizer parameters need to be organized in ordered collections, but the ordering of "
                            "tensors in sets will change between runs. Please use a list instead.")
        else:
            param_group["params"] = list(params)
        params, names = [], []
        for entry in param_group["params"]:
            if isinstance(entry, tuple):
                names.append(entry[0])
                params.append(entry[1])
            else:
                params.append(entry)
        param_group["params"] = params
        if names:
            if len(names) != len(params):
                raise ValueError("all optimizer params should be with/without names. Some param names are missing")
            param_group["param_names"] = names
        any_node = self.defaults.get("differentiable", None)
        for p in params:
            if not is_tensor(p):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {_typename(p)}")
            if not any_node and not p.is_leaf and not p.retains_grad:
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if len(params) != len({id(p) for p in params}):
            warnings.warn("optimizer contains a parameter group with duplicate parameters; in future, this will cause "
                          "an error; see github.com/pytorch/pytorch/issues/40967 for more information", stacklevel=3)
        known: set[int] = set()
        for group in self.param_groups:
            known.update(id(p) for p in group["params"])
            if ("param_names" in param_group) != ("param_names" in group):
                this = "with names" if "param_names" in param_group else "without names"
                raise ValueError("all optimizer param groups should be with/without names. cannot add param group "
                                 f"{this} to the optimizer")
        if not known.isdisjoint(id(p) for p in params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)


def _typename(obj: Any) -> str:
    cls = type(obj)
    return cls.__qualname__ if cls.__module__ in ("builtins", None) else f"{cls.__module__}.{cls.__qualname__}"


def decayed(p, grad, decay: float, lr=None):
    """The gradient with weight decay in it; with `lr`, the decay acts on the parameter at once instead."""
    if decay == 0:
        return grad
    if lr is None:
        return grad.add(p, alpha=decay)
    p.mul_(1 - lr * decay)
    return grad


def shrinking(lr: float, decay: float, decoupled: bool) -> tuple[float, float]:
    """What weight decay leaves of a parameter at once, and its share in the gradient."""
    return (1 - lr * decay, 0.0) if decoupled else (1.0, decay)


def _has_tensor(option: Any) -> bool:
    if isinstance(option, (tuple, list)):
        return any(map(is_tensor, option))
    return is_tensor(option)


def add_square(average, value, keep: float) -> None:
    """A running average of squares, in place."""
    average.mul_(keep).addcmul_(value, value, value=1 - keep)


class PerParameter(Optimizer):
    """An optimiser that treats each parameter alone: `_init_state` and `_updater` say how."""

    _sparse_message: str | None = "{} does not support sparse gradients"
    _complex_as_real = True  # the rule sees complex tensors as real ones with one more dimension,
    _complex_decay_first = False  # and the penalty is added before that
    # One parameter after the other, and by operators over lists.
    _capturable_what = ("params and state_steps",) * 2
    _capturable_on_xla = True, False
    _scaling_message = "Expected grad_scale and found_inf to be None"
    _steps_message = "API has changed, `state_steps` argument must contain a list of singleton tensors"
    _fused_name: str | None = None  # the name in the error about `fused` with `differentiable`
    _group_lists: tuple[str, ...] = ()  # the state entries that PyTorch collects in lists, in its order
    _lists_have_gaps = False  # with None where a parameter has no such entry; else these are left out

    def _init_state(self, p, grad, group) -> dict[str, Any]:
        """The state of a parameter before its first step."""
        raise NotImplementedError

    @classmethod
    def _updater(cls, group: dict[str, Any]) -> Callable[[Any, Any, dict], None]:
        """A function ``update(param, grad, state)`` with the group's hyperparameters."""
        raise NotImplementedError

    # The kernel over all parameters that does what `_updater` does, its states in order, and whether parameters that
    # have made as many steps get the same numbers.
    _rule: str | None = None
    _by_step = True

    @classmethod
    def _state_names(cls, group: dict[str, Any]) -> tuple[str, ...]:
        """The state tensors that the rule's kernel updates, in its order."""
        raise NotImplementedError

    @classmethod
    def _numbers(cls, group: dict[str, Any], step: float, state: dict[str, Any]) -> tuple[float, ...]:
        """What the rule's kernel is given for a parameter at its `step`; see `flambeau_cpu::fused::Rule`."""
        raise NotImplementedError

    @classmethod
    def _update_together(cls, group, params, grads, states) -> bool:
        """Update all parameters in one kernel, if there is one for them: same numbers as one by one, much sooner."""
        if cls._rule is None or group.get("differentiable") or group.get("capturable"):
            return False
        if any(_has_tensor(option) for name, option in group.items() if name != "params"):
            return False
        tensors = [state[name] for name in cls._state_names(group) for state in states]
        if not _C._are_alike(params, grads, tensors):
            return False
        steps = [state["step"] for state in states]
        _C._foreach_add_(steps, 1)
        counts = [step.item() for step in steps]
        if cls._by_step and counts.count(counts[0]) == len(counts):
            numbers = cls._numbers(group, counts[0], states[0])
        else:
            numbers = tuple(chain.from_iterable(cls._numbers(group, n, state) for n, state in zip(counts, states)))
        _C._optimizer_update_(params, grads, tensors, cls._rule, numbers, group.get("maximize", False))
        return True

    @classmethod
    def _fused(cls, group, params, grads, states, options: dict[str, Any]) -> None:
        """One kernel call over all parameters, for groups with ``fused=True``; `options` are those of scaling."""
        raise NotImplementedError

    _step_supports_amp_scaling = property(lambda self: bool(self.defaults.get("fused")))

    def _check_fused(self) -> None:
        """The rules for ``fused=True`` at construction."""
        if not self.defaults.get("fused"):
            return
        if self.defaults.get("differentiable"):
            raise RuntimeError("`fused` does not support `differentiable`")
        if self.defaults.get("foreach"):
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")

    def _gather(self, group) -> tuple[list, list, list]:
        """Parameters with a gradient, their gradients and states (made at first sight)."""
        params, grads, states = [], [], []
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            if self._sparse_message is not None and grad.is_sparse:
                raise RuntimeError(self._sparse_message.format(type(self).__name__))
            state = self.state[p]
            if not state:
                state.update(self._init_state(p, grad, group))
            params.append(p)
            grads.append(grad)
            states.append(state)
        return params, grads, states

    def step(self, closure: Callable[[], float] | None = None):
        """One update of all parameters; returns what `closure` returns."""
        loss = None
        if closure is not None:
            with _fl.enable_grad():
                loss = closure()
        scaling = None
        if "grad_scale" in self.__dict__ or "found_inf" in self.__dict__:  # a scaler of gradients left them here
            scaling = {name: getattr(self, name, None) for name in ("grad_scale", "found_inf")}
        with _fl.set_grad_enabled(self.defaults.get("differentiable", False)):
            for group in self.param_groups:
                params, grads, states = self._gather(group)
                if not params:
                    continue
                if group.get("fused"):
                    for p in params:
                        _device_dtype_check_for_fused(p)
                self._update(group, params, grads, states, scaling)
        return loss

    def _init_group(self, group, params: list, grads: list, *lists: list):
        """Append the parameters with a gradient, their gradients and states to lists; whether one is complex."""
        rows = self._gather(group)
        params.extend(rows[0])
        grads.extend(rows[1])
        for name, into in zip(self._group_lists, lists):
            into.extend(state.get(name) for state in rows[2] if self._lists_have_gaps or name in state)
        return any(p.is_complex() for p in rows[0])

    @classmethod
    def _update(cls, group, params, grads, states, scaling: dict[str, Any] | None = None, together: bool = True) -> None:
        """One update of parameters by their gradients and states: what `step` and the functional form share.

        `scaling` holds `grad_scale` and `found_inf` for a fused kernel. Without `together`, gradients may have to be
        recorded, and the rule's operators run one by one.
        """
        if group.get("fused"):
            if cls._fused_name is not None and group["differentiable"]:
                raise RuntimeError(f"{cls._fused_name} with fused=True does not support differentiable=True")
            cls._fused(group, params, grads, states, scaling or {"grad_scale": None, "found_inf": None})
            return
        if scaling is not None and not scaling["grad_scale"] is scaling["found_inf"] is None:
            raise AssertionError(cls._scaling_message)
        if group.get("foreach") and group.get("differentiable"):
            raise AssertionError("_foreach ops don't support autograd")
        if group.get("capturable"):
            cls._check_capturable(params, bool(group.get("foreach")))
        if together and cls._update_together(group, params, grads, states):
            return
        if is_tensor(group.get("lr")):
            group = {**group, "lr": _to_scalar(group["lr"])}
        update = cls._updater(group)
        maximize = group.get("maximize", False)
        for p, grad, state in zip(params, grads, states):
            if maximize:
                grad = -grad
            if cls._complex_as_real and p.is_complex():
                if cls._complex_decay_first and group["weight_decay"] != 0 and not (
                        group.get("decoupled_weight_decay") or grad.is_sparse):
                    grad = grad.add(p, alpha=group["weight_decay"])
                    update_complex = cls._updater({**group, "weight_decay": 0})
                else:
                    update_complex = update
                real = {k: _fl.view_as_real(v) if is_tensor(v) and v.is_complex() else v for k, v in state.items()}
                update_complex(_fl.view_as_real(p), _fl.view_as_real(grad), real)
            else:
                update(p, grad, state)

    @classmethod
    def _update_lists(cls, group, params, grads, grad_scale=None, found_inf=None, strict: bool = False,
                      **lists: list) -> None:
        """The functional form: one update with the states in lists by name, of which those for an option may be empty.

        IndexError if a list is too short (ValueError where lists have to be `strict`, of one length).
        """
        if cls._steps_message and not all(map(is_tensor, lists.get("step", ()))):
            raise RuntimeError(cls._steps_message)
        used = {name: values for name, values in lists.items() if len(values) or name in cls._needed_lists(group)}
        if strict:
            list(zip(params, grads, *used.values(), strict=True))
        elif any(len(values) < len(params) for values in (grads, *used.values())):
            raise IndexError("list index out of range")
        if not params:
            return
        states = [dict(zip(used, row)) for row in zip(*used.values())] if used else [{} for _ in params]
        scaling = {"grad_scale": grad_scale, "found_inf": found_inf}
        cls._update(group, params, grads, states, scaling, together=not _fl.is_grad_enabled())
        for name, values in used.items():
            for i, state in enumerate(states):
                if values[i] is None:  # the rule may have made it now
                    values[i] = state[name]

    @classmethod
    def _needed_lists(cls, group) -> set[str]:
        """The lists that the functional form cannot do without."""
        return {"step", *cls._state_names(group)}

    @classmethod
    def _check_capturable(cls, params, foreach: bool) -> None:
        kinds = _get_capturable_supported_devices(cls._capturable_on_xla[foreach])
        if not all(p.device.type in kinds for p in params):
            raise AssertionError(f"If capturable=True, {cls._capturable_what[foreach]} must be on supported devices: {kinds}.")
