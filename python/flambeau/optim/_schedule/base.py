"""What all schedules share: the base class, and how rates are read from and written to parameter groups."""
from __future__ import annotations

import contextlib
import functools
import types
import warnings
import weakref
from typing import Any

import flambeau as _fl

from ..optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed "
    "form is used instead of the new chainable form, where available. Please open an issue if you are unable to "
    "replicate your use case: https://github.com/pytorch/pytorch/issues/new/choose."
)
_DOCS = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
_STEP_REPLACED = (
    "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. Please, make "
    f"sure to call `optimizer.step()` before `lr_scheduler.step()`. {_DOCS}"
)
_STEP_MISSING = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should call "
    "them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to do this will result in "
    f"PyTorch skipping the first value of the learning rate schedule. {_DOCS}"
)
_NOT_RESUMABLE = (
    "param 'initial_lr' is not specified in param_groups[{}] when resuming scheduler with last_epoch >= 0.\n"
    "This typically happens when:\n"
    "1. You're trying to resume training from a checkpoint but haven't properly loaded the optimizer state\n"
    "2. You're using last_epoch >= 0 for a fresh training run (not recommended)"
)


def copied(value: Any) -> Any:
    """A rate that later in-place changes of the group do not reach."""
    return value.clone() if isinstance(value, _fl.Tensor) else value


def read(optimizer: Optimizer, key: str) -> list:
    """The entry `key` of each group, tensors copied."""
    return [copied(group[key]) for group in optimizer.param_groups]


def write(group: dict[str, Any], key: str, value: Any) -> None:
    """Set an entry of a group; a tensor keeps its identity."""
    present = group[key]
    if isinstance(present, _fl.Tensor):
        present.fill_(value.item() if isinstance(value, _fl.Tensor) else value)
    else:
        group[key] = value


def per_group(name: str, optimizer: Optimizer, value: Any) -> list:
    """`value` for every group, or a list of the right length."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise ValueError(f"{name} must have the same length as optimizer.param_groups. "
                         f"{name} has {len(value)} values, param_groups has {count}.")
    return list(value)


def check_optimizer(optimizer: Any) -> None:
    """TypeError for anything but an optimiser."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def check_positive_integer(name: str, value: Any) -> None:
    """ValueError for anything but an integer above zero."""
    if value <= 0 or not isinstance(value, int):
        raise ValueError(f"Expected positive integer {name}, but got {value}")


def dump_callable(function: Any) -> dict | None:
    """What a state dictionary keeps of a callable: an object's attributes, nothing of a function."""
    if function is None or isinstance(function, types.FunctionType):
        return None
    return dict(vars(function))


def load_callable(function: Any, saved: dict | None) -> None:
    """The reverse of `dump_callable`."""
    if saved is not None:
        vars(function).update(saved)


@contextlib.contextmanager
def _raised(owner: Any, name: str):
    """A boolean attribute that is True within a block."""
    setattr(owner, name, True)
    try:
        yield
    finally:
        setattr(owner, name, False)


def _count_steps(optimizer: Optimizer) -> None:
    """Replace `optimizer.step` by one that notes that it ran (once per optimiser, without keeping it alive)."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    plain, owner = optimizer.step.__func__, weakref.ref(optimizer)

    @functools.wraps(plain)
    def step(*args, **kwargs):
        alive = owner()
        alive._opt_called = True
        return plain(alive, *args, **kwargs)

    step._wrapped_by_lr_sched = True
    optimizer.step = step


class LRScheduler:
    """Base of all schedules: `get_lr` computes the next rate of each group from the current state."""

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False
    # Attributes that never go into a state dictionary.
    _unsaved: tuple[str, ...] = ("optimizer",)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(_NOT_RESUMABLE.format(i))
        self.base_lrs = read(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _count_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the rates of the first epoch."""
        self._step_count = 0
        with _raised(self, "_is_initial"):
            self.step()

    def state_dict(self) -> dict[str, Any]:
        """All attributes that a checkpoint needs."""
        return {key: value for key, value in vars(self).items() if key not in self._unsaved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a `state_dict`."""
        vars(self).update(state_dict)

    def get_last_lr(self) -> list:
        """The rates computed last."""
        return self._last_lr

    def get_lr(self) -> list:
        """The next rate of each group."""
        raise NotImplementedError

    def _lrs(self) -> list:
        """The groups' present rates; warns when `get_lr` is called from outside."""
        if not self._get_lr_called_within_step:
            warnings.warn("To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                          UserWarning, stacklevel=3)
        return read(self.optimizer, "lr")

    def _order_of_steps(self) -> str | None:
        """What is wrong with the way the optimiser and this schedule are stepped, if anything."""
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            return _STEP_REPLACED
        return None if getattr(self.optimizer, "_opt_called", False) else _STEP_MISSING

    def step(self, epoch: int | None = None) -> None:
        """Move on by one epoch (or to `epoch`) and set the rates."""
        complaint = self._order_of_steps() if self._step_count == 1 else None
        if complaint is not None:
            warnings.warn(complaint, UserWarning, stacklevel=2)
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._step_count += 1
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        """Set the rates of the next epoch, or those of `epoch`, by the closed form where there is one."""
        compute = self.get_lr
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            compute = getattr(self, "_get_closed_form_lr", compute)
        self.last_epoch = epoch
        self._apply(compute)

    def _apply(self, compute) -> None:
        """Write the rates that `compute` returns into the groups."""
        with _raised(self, "_get_lr_called_within_step"):
            rates = compute()
        for group, rate in zip(self.optimizer.param_groups, rates):
            write(group, "lr", rate)
        self._note_rates()

    def _note_rates(self) -> None:
        self._last_lr = read(self.optimizer, "lr")


class _enable_get_lr_call:
    """Within it, `get_lr` of a schedule does not warn that it should not be called."""

    def __init__(self, o) -> None:
        self.o = o

    def __enter__(self):
        self.o._get_lr_called_within_step = True
        return self

    def __exit__(self, type, value, traceback) -> None:
        self.o._get_lr_called_within_step = False
