"""Scaling losses so that gradients in half precision do not vanish."""
from __future__ import annotations

import warnings
from collections import abc, defaultdict
from enum import Enum
from typing import Any

import flambeau as _fl

__all__ = ["OptState", "GradScaler"]


def _signature(function):
    import inspect

    return inspect.signature(function)


class OptState(Enum):
    """How far an optimiser has come in this iteration."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh_optimizer_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


_refresh_per_optimizer_state = _fresh_optimizer_state


class GradScaler:
    """Multiplies losses by a scale, divides gradients by it, skips steps with infinite ones and adapts the scale."""

    def __init__(self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
                 backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True) -> None:
        self._device = device
        self._enabled = enabled
        if device == "cuda" and enabled and not self._has_cuda():
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            self._enabled = False
        if self._enabled:
            assert growth_factor > 1.0, "The growth factor must be > 1.0."
            assert backoff_factor < 1.0, "The backoff factor must be < 1.0."
            self._init_scale = init_scale
            self._scale = None
            self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
            self._growth_interval = growth_interval
            self._init_growth_tracker = 0
            self._growth_tracker = None
            self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_fresh_optimizer_state)

    @staticmethod
    def _has_cuda() -> bool:
        try:
            return _fl.cuda.is_available()
        except (ImportError, AttributeError):
            return False

    def _check_scale_growth_tracker(self, funcname: str):
        fix = "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration."
        pair = {"_scale": self._scale, "_growth_tracker": self._growth_tracker}
        for name, tensor in pair.items():
            assert tensor is not None, f"Attempted {funcname} but {name} is None.  {fix}"
        return tuple(pair.values())

    def _lazy_init_scale_growth_tracker(self, device) -> None:
        assert self._growth_tracker is None, "_growth_tracker initialized before _scale"
        self._scale = _fl.full((), self._init_scale, dtype=_fl.float32, device=device)
        self._growth_tracker = _fl.full((), self._init_growth_tracker, dtype=_fl.int32, device=device)

    def scale(self, outputs):
        """A tensor, or tensors in nested lists and tuples, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, _fl.Tensor):
            if self._scale is None:
                self._lazy_init_scale_growth_tracker(outputs.device)
            return outputs * self._scale.to(device=outputs.device, non_blocking=True)
        if isinstance(outputs, abc.Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16: bool) -> dict:
        groups: dict = defaultdict(list)
        found: dict = {}
        with _fl.no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    grad = p.grad
                    if grad is None:
                        continue
                    if not allow_fp16 and grad.dtype == _fl.float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    if grad.is_sparse:
                        if grad.dtype is _fl.float16:
                            p.grad = grad = grad.coalesce()
                        grad = grad._values()
                    groups[grad.device, grad.dtype].append(grad)
            for (device, _), grads in groups.items():
                if device not in found:
                    found[device] = found_inf.to(device=device, copy=True)
                _fl._amp_foreach_non_finite_check_and_unscale_(grads, found[device], inv_scale.to(device))
        return found

    def unscale_(self, optimizer) -> None:
        """Divide the gradients of an optimiser by the scale, once per iteration."""
        if not self._enabled:
            return
        scale, _ = self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        complaint = {OptState.UNSCALED: "unscale_() has already been called on this optimizer since the last update().",
                     OptState.STEPPED: "unscale_() is being called after step()."}.get(state["stage"])
        if complaint is not None:
            raise RuntimeError(complaint)
        inv_scale = scale.double().reciprocal().float()
        found_inf = _fl.full((), 0.0, dtype=_fl.float32, device=scale.device)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inv_scale, found_inf, False)
        state["stage"] = OptState.UNSCALED

    def step(self, optimizer, *args: Any, **kwargs: Any):
        """Unscale if need be; step unless a gradient is infinite or NaN."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        scale, _ = self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._step_fused(optimizer, state, scale, args, kwargs)
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        assert len(state["found_inf_per_device"]) > 0, "No inf checks were recorded for this optimizer."
        result = None
        if not sum(v.item() for v in state["found_inf_per_device"].values()):
            result = optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _step_fused(self, optimizer, state, scale, args, kwargs):
        """Let an optimiser unscale and check within its own kernel."""
        pass_scaler = "grad_scaler" in _signature(optimizer.step).parameters
        if pass_scaler:
            kwargs = {**kwargs, "grad_scaler": self}
            return optimizer.step(*args, **kwargs)
        if state["stage"] is OptState.READY:
            found = _fl.full((), 0.0, dtype=_fl.float32, device=scale.device)
            self._check_inf_per_device(optimizer, found)
        found_inf = sum(state["found_inf_per_device"].values())
        optimizer.grad_scale = None if state["stage"] == OptState.UNSCALED else scale
        optimizer.found_inf = found_inf
        try:
            result = optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale
            del optimizer.found_inf
        state["stage"] = OptState.STEPPED
        return result

    def _check_inf_per_device(self, optimizer, found_inf=None) -> dict:
        scale, _ = self._check_scale_growth_tracker("_check_inf_per_device")
        zero, one = (_fl.full((), value, dtype=_fl.float32, device=scale.device) for value in (0.0, 1.0))
        found = self._unscale_grads_(optimizer, one, zero, True)
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found
        return found

    def _found_inf_per_device(self, optimizer) -> dict:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]

    def update(self, new_scale=None) -> None:
        """Adapt the scale after the steps of an iteration (or set it)."""
        if not self._enabled:
            return
        scale, tracker = self._check_scale_growth_tracker("update")
        if new_scale is not None:
            if not isinstance(new_scale, float):
                plain = (isinstance(new_scale, _fl.Tensor) and new_scale.dtype == _fl.float32
                         and new_scale.numel() == 1 and not new_scale.requires_grad)
                assert plain, ("new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor "
                               "with requires_grad=False.")
                new_scale = new_scale.item()
            self._scale.fill_(new_scale)
        else:
            found = [value.to(device=scale.device, non_blocking=True) for state in self._per_optimizer_states.values()
                     for value in state["found_inf_per_device"].values()]
            assert len(found) > 0, "No inf checks were recorded prior to update."
            total = found[0]
            for value in found[1:]:
                total = total + value
            _fl._amp_update_scale_(scale, tracker, total, self._growth_factor, self._backoff_factor,
                                   self._growth_interval)
        self._per_optimizer_states = defaultdict(_fresh_optimizer_state)

    def _get_scale_async(self):
        return self._scale

    def get_scale(self) -> float:
        """The scale; 1 when disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """By how much the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor of growth."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By how much the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor of shrinking."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many good steps the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of good steps before growth."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())

    def is_enabled(self) -> bool:
        """Whether anything is scaled at all."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Scale, factors and count; empty when disabled."""
        if not self._enabled:
            return {}
        factors = {name: getattr(self, "_" + name) for name in ("growth_factor", "backoff_factor", "growth_interval")}
        return {"scale": self.get_scale(), **factors, "_growth_tracker": self._get_growth_tracker()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a `state_dict`."""
        if not self._enabled:
            return
        if len(state_dict) == 0:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled instance of "
                               "GradScaler.")
        for name in ("growth_factor", "backoff_factor", "growth_interval"):
            setattr(self, "_" + name, state_dict[name])
        self._init_scale, self._init_growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        for tensor, value in ((self._scale, self._init_scale), (self._growth_tracker, self._init_growth_tracker)):
            if tensor is not None:
                tensor.fill_(value)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            assert len(self._per_optimizer_states) == 0, ("A GradScaler instance may only be pickled at the beginning of an "
                                                          "iteration, or at the end after scaler.update().")
            state.update(_init_scale=self.get_scale(), _init_growth_tracker=self._get_growth_tracker(), _scale=None,
                         _growth_tracker=None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
