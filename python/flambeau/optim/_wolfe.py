"""Line search for a step that satisfies the strong Wolfe conditions."""
from __future__ import annotations

from typing import Any, Callable, NamedTuple

import flambeau as _fl


class Trial(NamedTuple):
    """A point on the line: how far along, and loss, gradient and slope there."""

    step: Any
    loss: float
    grad: Any
    slope: Any


def cubic_minimum(a: Trial, b: Trial, bounds=None):
    """The minimiser of the cubic through two trials with their slopes, within the bounds (else between them)."""
    left, right = (a, b) if a.step <= b.step else (b, a)
    low, high = (left.step, right.step) if bounds is None else bounds
    bend = left.slope + right.slope - 3 * (left.loss - right.loss) / (left.step - right.step)
    square = bend**2 - left.slope * right.slope
    if square < 0:  # no minimum
        return (low + high) / 2.0
    root = square.sqrt() if isinstance(square, _fl.Tensor) else square**0.5
    share = (right.slope + root - bend) / (right.slope - left.slope + 2 * root)
    return min(max(right.step - (right.step - left.step) * share, low), high)


class StrongWolfe:
    """Searches along a direction from the trial `start`; `evaluate(step)` gives loss and gradient."""

    c1, c2 = 1e-4, 0.9

    def __init__(self, evaluate: Callable, direction, start: Trial, tolerance: float = 1e-9, limit: int = 25) -> None:
        self.evaluate, self.direction, self.start = evaluate, direction, start
        self.tolerance, self.limit = tolerance, limit
        self.evaluations = self.rounds = 0
        self.largest = direction.abs().max()

    def find(self, step) -> Trial:
        """The best trial, looking at `step` first."""
        ends = self._bracket(step)
        return ends[0] if len(ends) == 1 else self._narrow(ends)

    def _at(self, step) -> Trial:
        loss, grad = self.evaluate(step)
        self.evaluations += 1
        return Trial(step, loss, grad, grad.dot(self.direction))

    def _too_high(self, trial: Trial) -> bool:
        return trial.loss > self.start.loss + self.c1 * trial.step * self.start.slope

    def _flat_enough(self, trial: Trial) -> bool:
        return abs(trial.slope) <= -self.c2 * self.start.slope

    def _bracket(self, step) -> list[Trial]:
        """Longer and longer steps, until one is good (alone) or two have a good one between them."""
        before, here = self.start, self._at(step)
        while self.rounds < self.limit:
            if self._too_high(here) or (self.rounds > 1 and here.loss >= before.loss):
                return [before, here]
            if self._flat_enough(here):
                return [here]
            if here.slope >= 0:
                return [before, here]
            reach = here.step + 0.01 * (here.step - before.step), here.step * 10
            before, here = here, self._at(cubic_minimum(before, here, reach))
            self.rounds += 1
        return [self.start, here]

    def _narrow(self, ends: list[Trial]) -> Trial:
        """Closer and closer ends, until the better one is good."""
        best, hesitant = _better(ends), False
        while self.rounds < self.limit:
            if abs(ends[1].step - ends[0].step) * self.largest < self.tolerance:
                break
            step, hesitant = self._inside(ends, hesitant)
            here = self._at(step)
            self.rounds += 1
            if self._too_high(here) or here.loss >= ends[best].loss:
                ends[1 - best] = here
                best = _better(ends)
                continue
            if self._flat_enough(here):
                return here
            if here.slope * (ends[1 - best].step - ends[best].step) >= 0:
                ends[1 - best] = ends[best]
            ends[best] = here
        return ends[best]

    @staticmethod
    def _inside(ends: list[Trial], hesitant: bool):
        """Where to look next. Near an end twice in a row, or beyond it, means a tenth of the way in from there."""
        step = cubic_minimum(*ends)
        left, right = min(ends[0].step, ends[1].step), max(ends[0].step, ends[1].step)
        margin = 0.1 * (right - left)
        if min(right - step, step - left) >= margin:
            return step, False
        if not hesitant and left < step < right:
            return step, True
        return (right - margin if abs(step - right) < abs(step - left) else left + margin), False


def _better(ends: list[Trial]) -> int:
    return 0 if ends[0].loss <= ends[1].loss else 1
