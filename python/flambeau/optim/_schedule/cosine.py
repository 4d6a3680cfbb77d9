"""Cosine annealing, with and without restarts."""
from __future__ import annotations

import math

from ..optimizer import Optimizer
from .base import LRScheduler, check_positive_integer


def _height(n: int, half: int) -> float:
    """The raised cosine (0 to 2) in epoch `n` of a wave with `half` epochs a half period."""
    return 1 + math.cos(math.pi * n / half)


class _Cosine(LRScheduler):
    """Schedules between the initial rates and `eta_min`."""

    eta_min: float

    def _at(self, height: float) -> list:
        """The rates at a height of the wave."""
        least = self.eta_min
        return [least + (base - least) * height / 2 for base in self.base_lrs]


class CosineAnnealingLR(_Cosine):
    """Half a cosine from the initial rate to `eta_min` in `T_max` epochs (and back, if it goes on)."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list:
        present, n, least = self._lrs(), self.last_epoch, self.eta_min
        if self._is_initial:
            return present
        if n > 0 and self._step_count == 1:
            return self._get_closed_form_lr()
        if (n - 1 - self.T_max) % (2 * self.T_max) == 0:  # the wave was at its minimum: no ratio
            rise = 1 - math.cos(math.pi / self.T_max)
            return [rate + (base - least) * rise / 2 for base, rate in zip(self.base_lrs, present)]
        ratio = _height(n, self.T_max) / _height(n - 1, self.T_max)
        return [least + ratio * (rate - least) for rate in present]

    def _get_closed_form_lr(self) -> list:
        return self._at(_height(self.last_epoch, self.T_max))


class CosineAnnealingWarmRestarts(_Cosine):
    """Cosine annealing that starts again after `T_0` epochs, then after `T_mult` times as many, and so on."""

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0,
                 last_epoch: int = -1) -> None:
        check_positive_integer("T_0", T_0)
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = self.T_i = T_0
        self.T_mult, self.eta_min, self.T_cur = T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list:
        self._lrs()
        return self._at(_height(self.T_cur, self.T_i))

    def _locate(self, epoch: float) -> tuple[float, int]:
        """The epochs since the last restart before `epoch`, and the length of the period it is in."""
        if epoch < self.T_0:
            return epoch, self.T_0
        if self.T_mult == 1:
            return epoch % self.T_0, self.T_i
        restarts = int(math.log((epoch / self.T_0 * (self.T_mult - 1) + 1), self.T_mult))
        growth = self.T_mult**restarts
        return epoch - self.T_0 * (growth - 1) / (self.T_mult - 1), self.T_0 * growth

    def step(self, epoch=None) -> None:
        """Move on by one epoch, or to `epoch` (which may be a fraction, for steps within an epoch)."""
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = epoch or 0
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self.T_cur, self.T_i = self._locate(epoch)
        self.last_epoch = math.floor(epoch)
        self._apply(self.get_lr)
