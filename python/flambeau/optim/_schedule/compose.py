"""Schedules made of other schedules."""
from __future__ import annotations

from bisect import bisect_right
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, read, write
from .plateau import ReduceLROnPlateau


class _Composed(LRScheduler):
    """A schedule that steps others (`_schedulers`) of the same optimiser."""

    _unsaved = ("optimizer", "_schedulers")

    def _check_members(self, schedulers, optimizer) -> None:
        """Refuse members that need a metric or belong to another optimiser."""
        name = type(self).__name__
        for i, member in enumerate(schedulers):
            if not hasattr(member, "optimizer"):
                raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
            if isinstance(member, ReduceLROnPlateau):
                raise ValueError(f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional "
                                 f"kwargs to be specified when calling `step`, but got one at index {i} in the given "
                                 "schedulers sequence.")
            if optimizer != member.optimizer:
                raise ValueError(f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                                 f"{type(member).__name__} at index {i} has {member.optimizer}, which is different "
                                 f"from {type(optimizer).__name__}.")

    def state_dict(self) -> dict[str, Any]:
        """Own state and those of the members."""
        return {**super().state_dict(), "_schedulers": [member.state_dict() for member in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a `state_dict`."""
        super().load_state_dict({**state_dict, "_schedulers": self._schedulers})
        for member, saved in zip(self._schedulers, state_dict["_schedulers"]):
            member.load_state_dict(saved)


class SequentialLR(_Composed):
    """One schedule after the other, changing at the `milestones`."""

    def __init__(self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int],
                 last_epoch: int = -1) -> None:
        if not schedulers:
            raise ValueError("SequentialLR expects at least one scheduler, but got no scheduler.")
        self._check_members(schedulers, optimizer)
        if len(schedulers) != len(milestones) + 1:
            raise ValueError("Sequential Schedulers expects number of schedulers provided to be one more than the "
                             f"number of milestone points, but got number of schedulers {len(schedulers)} and the "
                             f"number of milestones to be equal to {len(milestones)}")
        self._schedulers, self._milestones = schedulers, milestones
        self.optimizer, self.last_epoch = optimizer, last_epoch + 1
        # Every member has made its first step already: only that of the first one may count.
        for group in optimizer.param_groups:
            write(group, "lr", group["initial_lr"])
        self.recursive_undo()
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def recursive_undo(self, sched=None) -> None:
        """Take back the step that each schedule made at its construction."""
        pending = [self if sched is None else sched]
        while pending:
            schedule = pending.pop()
            if hasattr(schedule, "_schedulers"):
                pending.extend(schedule._schedulers)
            elif hasattr(schedule, "last_epoch"):
                schedule.last_epoch -= 1

    def step(self) -> None:
        """Step the schedule whose turn it is."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        active = self._schedulers[turn]
        if turn and self._milestones[turn - 1] == self.last_epoch:
            active._update_lr(0)
        else:
            active.step()
        self._last_lr = active.get_last_lr()


class ChainedScheduler(_Composed):
    """Several schedules stepped together, each acting on the result of the one before."""

    def __init__(self, schedulers, optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise ValueError("ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.")
        optimizer = optimizer or schedulers[0].optimizer
        self._check_members(schedulers, optimizer)
        self._schedulers, self.optimizer = schedulers, optimizer
        self._last_lr = read(schedulers[-1].optimizer, "lr")

    def step(self) -> None:
        """Step all schedules."""
        for member in self._schedulers:
            member.step()
        self._last_lr = read(member.optimizer, "lr")
