"""Schedules that multiply the rates by a factor that is the same for all groups, and those with functions for it."""
from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, dump_callable, load_callable


class _WithLambdas(LRScheduler):
    """Schedules given by one function of the epoch per group."""

    _unsaved = ("optimizer", "lr_lambdas")

    def __init__(self, optimizer: Optimizer, lr_lambda, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        several = isinstance(lr_lambda, (list, tuple))
        if several and len(lr_lambda) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(lr_lambda)}")
        self.lr_lambdas = list(lr_lambda) if several else [lr_lambda] * count
        super().__init__(optimizer, last_epoch)

    def _scaled(self, rates: list) -> list:
        return [rate * function(self.last_epoch) for rate, function in zip(rates, self.lr_lambdas)]

    def state_dict(self) -> dict[str, Any]:
        """All but the optimiser and plain functions (callable objects keep their attributes)."""
        return {**super().state_dict(), "lr_lambdas": [dump_callable(f) for f in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a `state_dict`."""
        own = self.lr_lambdas
        super().load_state_dict({**state_dict, "lr_lambdas": own})
        for function, saved in zip(own, state_dict["lr_lambdas"]):
            load_callable(function, saved)


class LambdaLR(_WithLambdas):
    """``initial_lr * lr_lambda(epoch)``."""

    def get_lr(self) -> list:
        self._lrs()
        return self._scaled(self.base_lrs)


class MultiplicativeLR(_WithLambdas):
    """Multiplies by ``lr_lambda(epoch)`` each epoch."""

    def get_lr(self) -> list:
        present = self._lrs()
        return present if self._is_initial else self._scaled(present)


class _Factor(LRScheduler):
    """A schedule with the same factor for all groups, known both from epoch to epoch and in closed form."""

    def _ratio(self, n: int) -> float | None:
        """By what the rates change on entering epoch `n`; None when they do not."""
        raise NotImplementedError

    def _share(self, n: int) -> float:
        """What is left of the initial rates in epoch `n`."""
        raise NotImplementedError

    def get_lr(self) -> list:
        present, ratio = self._lrs(), self._ratio(self.last_epoch)
        return present if ratio is None else [rate * ratio for rate in present]

    def _get_closed_form_lr(self) -> list:
        share = self._share(self.last_epoch)
        return [rate * share for rate in self.base_lrs]


class StepLR(_Factor):
    """Multiplies by `gamma` every `step_size` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def _ratio(self, n):
        return self.gamma if n and n % self.step_size == 0 else None

    def _share(self, n):
        return self.gamma ** (n // self.step_size)


class MultiStepLR(_Factor):
    """Multiplies by `gamma` at each of the `milestones`."""

    def __init__(self, optimizer: Optimizer, milestones, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def _ratio(self, n):
        return self.gamma ** self.milestones[n] if n in self.milestones else None

    def _share(self, n):
        return self.gamma ** bisect_right(sorted(self.milestones.elements()), n)


class ConstantLR(_Factor):
    """Multiplies by `factor` until `total_iters` epochs have passed."""

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5,
                 last_epoch: int = -1) -> None:
        if not 0 <= factor <= 1.0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _ratio(self, n):
        if n == 0:
            return self.factor
        return 1.0 / self.factor if n == self.total_iters else None

    def _share(self, n):
        return self.factor + (n >= self.total_iters) * (1 - self.factor)


class LinearLR(_Factor):
    """Changes the factor linearly from `start_factor` to `end_factor` over `total_iters` epochs."""

    def __init__(self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0,
                 total_iters: int = 5, last_epoch: int = -1) -> None:
        if not 0 < start_factor <= 1.0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0 <= end_factor <= 1.0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _ratio(self, n):
        if n == 0:
            return self.start_factor
        if n > self.total_iters or self._is_initial:
            return None
        slope = self.end_factor - self.start_factor
        return 1.0 + slope / (self.total_iters * self.start_factor + (n - 1) * slope)

    def _share(self, n):
        slope = self.end_factor - self.start_factor
        return self.start_factor + slope * min(self.total_iters, n) / self.total_iters


class ExponentialLR(_Factor):
    """Multiplies by `gamma` each epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _ratio(self, n):
        return None if self._is_initial else self.gamma

    def _share(self, n):
        return self.gamma**n


class PolynomialLR(_Factor):
    """Falls to zero over `total_iters` epochs as a power of what remains."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _remaining(self, n: int) -> float:
        return 1.0 - n / self.total_iters

    def _ratio(self, n):
        if n > self.total_iters or self._is_initial:
            return None
        return (self._remaining(n) / self._remaining(n - 1)) ** self.power

    def _share(self, n):
        return self._remaining(min(self.total_iters, n)) ** self.power
