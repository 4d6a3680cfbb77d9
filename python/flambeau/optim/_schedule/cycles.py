"""Schedules that move rates and momenta against each other, batch by batch."""
from __future__ import annotations

import math
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, check_optimizer, check_positive_integer, dump_callable, load_callable, per_group, write


class _Cycling(LRScheduler):
    """Schedules that may also cycle momentum (or the first of Adam's betas)."""

    cycle_momentum: bool
    use_beta1: bool

    def _start_momentum(self, low, high, fresh: bool) -> tuple[list, list]:
        """Find what plays the part of momentum and, at a fresh start, set it to `high`; the bounds of each group."""
        defaults = self.optimizer.defaults
        if not {"momentum", "betas"} & defaults.keys():
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in defaults
        lows = per_group("base_momentum", self.optimizer, low)
        highs = per_group("max_momentum", self.optimizer, high)
        if fresh:
            for group, least, most in zip(self.optimizer.param_groups, lows, highs):
                self._set_momentum(group, most)
                group.update(max_momentum=most, base_momentum=least)
        return lows, highs

    def _set_momentum(self, group: dict[str, Any], value: float) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(_Cycling):
    """Cycles between a lower and an upper rate with a constant frequency, after each batch."""

    _unsaved = ("optimizer", "_scale_fn_custom")
    # For each mode, what its scale depends on.
    _counted_in = {"triangular": "cycle", "triangular2": "cycle", "exp_range": "iterations"}

    def __init__(self, optimizer: Optimizer, base_lr, max_lr, step_size_up: int = 2000,
                 step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0, scale_fn=None,
                 scale_mode: str = "cycle", cycle_momentum: bool = True, base_momentum: float = 0.8,
                 max_momentum: float = 0.9, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        lows = per_group("base_lr", optimizer, base_lr)
        fresh = last_epoch == -1
        if fresh:
            for group, low in zip(optimizer.param_groups, lows):
                write(group, "lr", low)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        rise = float(step_size_up)
        self.total_size = rise + (rise if step_size_down is None else float(step_size_down))
        self.step_ratio = rise / self.total_size
        if scale_fn is None and mode not in self._counted_in:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode, self.gamma, self.scale_mode = mode, gamma, scale_mode
        self._scale_fn_custom = scale_fn
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._start_momentum(base_momentum, max_momentum, fresh)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def _init_scale_fn(self) -> None:
        if self._scale_fn_custom is None:
            self.scale_mode = self._counted_in[self.mode]

    def scale_fn(self, x) -> float:
        """How much of the amplitude is left in cycle (or iteration) `x`."""
        return (self._scale_fn_custom or getattr(self, f"_{self.mode}_scale_fn"))(x)

    def _triangular_scale_fn(self, x: float) -> float:
        return 1.0

    def _triangular2_scale_fn(self, x: float) -> float:
        return 1 / (2.0 ** (x - 1))

    def _exp_range_scale_fn(self, x: float) -> float:
        return self.gamma**x

    def get_lr(self) -> list:
        self._lrs()
        turns = self.last_epoch / self.total_size
        cycle = math.floor(1 + turns)
        x, top = 1.0 + turns - cycle, self.step_ratio
        part = x / top if x <= top else (x - 1) / (top - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                self._set_momentum(group, high - (high - low) * part * scale)
        return [low + (high - low) * part * scale for low, high in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self) -> dict[str, Any]:
        """All but the optimiser and plain functions."""
        return {**super().state_dict(), "_scale_fn_custom": dump_callable(self._scale_fn_custom)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a `state_dict`."""
        custom = self._scale_fn_custom
        super().load_state_dict({**state_dict, "_scale_fn_custom": custom})
        load_callable(custom, state_dict.get("_scale_fn_custom"))
        self._init_scale_fn()


# A phase of OneCycleLR, and the group's entries at its two ends: rate from, rate to, momentum from, momentum to.
_ENDS = ("start_lr", "end_lr", "start_momentum", "end_momentum")
_RISE = ("initial_lr", "max_lr", "max_momentum", "base_momentum")
_RETURN = ("max_lr", "initial_lr", "base_momentum", "max_momentum")
_FADE = ("initial_lr", "min_lr", "max_momentum", "max_momentum")
_FALL = ("max_lr", "min_lr", "base_momentum", "max_momentum")


class OneCycleLR(_Cycling):
    """One rise to `max_lr` and one fall far below, with momentum moving the other way, after each batch."""

    def __init__(self, optimizer: Optimizer, max_lr, total_steps: int | None = None, epochs: int | None = None,
                 steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos",
                 cycle_momentum: bool = True, base_momentum=0.85, max_momentum=0.95, div_factor: float = 25.0,
                 final_div_factor: float = 1e4, three_phase: bool = False, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = self._count(total_steps, epochs, steps_per_epoch)
        self._schedule_phases = self._phases(pct_start, three_phase)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        peaks = per_group("max_lr", optimizer, max_lr)
        fresh = last_epoch == -1
        if fresh:
            for group, peak in zip(optimizer.param_groups, peaks):
                first = peak / div_factor
                group.update(initial_lr=first, max_lr=peak, min_lr=first / final_div_factor)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(base_momentum, max_momentum, fresh)
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _count(total_steps, epochs, steps_per_epoch) -> int:
        """The number of steps, given directly or as epochs of steps."""
        if total_steps is not None:
            check_positive_integer("total_steps", total_steps)
            return total_steps
        if epochs is None or steps_per_epoch is None:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        check_positive_integer("epochs", epochs)
        check_positive_integer("steps_per_epoch", steps_per_epoch)
        return epochs * steps_per_epoch

    def _phases(self, rise: float, three: bool) -> list[dict[str, Any]]:
        """The phases, each with its last step."""
        last, rows = self.total_steps - 1, [(float(rise * self.total_steps) - 1, _RISE)]
        if three:
            rows += [(float(2 * rise * self.total_steps) - 2, _RETURN), (last, _FADE)]
        else:
            rows.append((last, _FALL))
        return [{"end_step": end, **dict(zip(_ENDS, names))} for end, names in rows]

    def _anneal_func(self, start, end, part):
        return getattr(self, "_annealing_" + self._anneal_func_type)(start, end, part)

    @staticmethod
    def _annealing_cos(start, end, part):
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)

    @staticmethod
    def _annealing_linear(start, end, part):
        return (end - start) * part + start

    def _position(self, n: int) -> tuple[dict[str, Any], float]:
        """The phase that step `n` is in, and how much of it has passed."""
        begin = 0.0
        for phase in self._schedule_phases[:-1]:
            if n <= phase["end_step"]:
                break
            begin = phase["end_step"]
        else:
            phase = self._schedule_phases[-1]
        return phase, (n - begin) / (phase["end_step"] - begin)

    def get_lr(self) -> list:
        self._lrs()
        if self.last_epoch > self.total_steps:
            raise ValueError(f"Tried to step {self.last_epoch} times. The specified number of total steps is "
                             f"{self.total_steps}")
        phase, part = self._position(self.last_epoch)
        start_lr, end_lr, start_momentum, end_momentum = (phase[name] for name in _ENDS)
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for group in groups:
                self._set_momentum(group, self._anneal_func(group[start_momentum], group[end_momentum], part))
        return [self._anneal_func(group[start_lr], group[end_lr], part) for group in groups]
