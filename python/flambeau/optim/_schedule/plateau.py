"""The schedule that watches a metric."""
from __future__ import annotations

import math
import warnings
from typing import Any

from ..optimizer import Optimizer
from .base import EPOCH_DEPRECATION_WARNING, LRScheduler, check_optimizer, write


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rates by `factor` when a metric has not improved for `patience` epochs."""

    def __init__(self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10,
                 threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0, min_lr=0,
                 eps: float = 1e-8) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        check_optimizer(optimizer)
        self.optimizer, self.factor = optimizer, factor
        self.default_min_lr, self.min_lrs = self._floors(min_lr)
        self.patience, self.cooldown, self.eps = patience, cooldown, eps
        self.last_epoch = 0
        self._note_rates()
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _floors(self, least) -> tuple[Any, list]:
        """The floor that later groups get (None when there are several) and the floors of the present groups."""
        count = len(self.optimizer.param_groups)
        if not isinstance(least, (list, tuple)):
            return least, [least] * count
        if len(least) != count:
            raise ValueError(f"expected {count} min_lrs, got {len(least)}")
        return None, list(least)

    def _reset(self) -> None:
        """Forget the metrics seen so far."""
        self.best = self.mode_worse
        self.cooldown_counter = self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether the last reduction was so recent that a bad metric does not count."""
        return self.cooldown_counter > 0

    def step(self, metrics, epoch=None) -> None:
        """Note the metric of an epoch; reduce the rates when it has stalled."""
        value = float(metrics)
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        better = self._is_better(value, self.best)
        if better:
            self.best = value
        resting = self.in_cooldown
        self.cooldown_counter -= int(resting)
        self.num_bad_epochs = 0 if better or resting else self.num_bad_epochs + 1
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(self.last_epoch)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._note_rates()

    def _reduce_lr(self, epoch) -> None:
        """Multiply every rate by the factor, down to its floor."""
        groups = self.optimizer.param_groups
        if len(self.min_lrs) != len(groups):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param group "
                    "being added to the optimizer. Please modify the `min_lrs` field to match the length of the "
                    "`optimizer` param groups.")
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, floor in zip(groups, self.min_lrs):
            present = float(group["lr"])
            reduced = max(present * self.factor, floor)
            if present - reduced > self.eps:
                write(group, "lr", reduced)

    def _is_better(self, a, best) -> bool:
        relative, lower = self.threshold_mode == "rel", self.mode == "min"
        if lower:
            return a < (best * (1.0 - self.threshold) if relative else best - self.threshold)
        return a > (best * (self.threshold + 1.0) if relative else best + self.threshold)

    def _init_is_better(self, mode: str, threshold: float, threshold_mode: str) -> None:
        for what, value, allowed in (("mode ", mode, ("min", "max")),
                                     ("threshold mode ", threshold_mode, ("rel", "abs"))):
            if value not in allowed:
                raise ValueError(what + value + " is unknown!")
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a `state_dict`."""
        super().load_state_dict(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)
