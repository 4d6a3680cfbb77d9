"""Averaged stochastic gradient descent."""
from __future__ import annotations

import flambeau as _fl

from .optimizer import PerParameter, check, check_lr_tensor, decayed, new_step, scalar_dtype, value_of, zeros_like

__all__ = ["ASGD", "asgd"]


class ASGD(PerParameter):
    """Gradient descent that also keeps the average of its weights (``state[p]["ax"]``)."""

    _rule, _by_step = "asgd", False
    _capturable_what = ("params, mus, etas, and state_steps",) * 2
    _steps_message = None  # numbers are taken, too
    _group_lists = ("mu", "ax", "eta", "step")
    _group_defaults = dict(foreach=None, maximize=False, differentiable=False, capturable=False)

    def __init__(self, params, lr=1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
                 weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False) -> None:
        check_lr_tensor(lr)
        check(0.0 <= lr, f"Invalid learning rate: {lr}")
        check(0.0 <= weight_decay, f"Invalid weight_decay value: {weight_decay}")
        super().__init__(params, dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay,
                                      foreach=foreach, maximize=maximize, differentiable=differentiable,
                                      capturable=capturable))

    def __setstate__(self, state):
        super().__setstate__(state)
        for entry in self.state.values():
            for key in ("eta", "mu"):
                if entry and key in entry and not isinstance(entry[key], _fl.Tensor):
                    entry[key] = _fl.tensor(entry[key], dtype=scalar_dtype())

    def _init_state(self, p, grad, group):
        return {"step": new_step(), "eta": _fl.as_tensor(group["lr"], dtype=scalar_dtype()).clone().detach(),
                "mu": new_step(1.0), "ax": zeros_like(p)}

    @classmethod
    def _state_names(cls, group):
        return ("ax",)

    @staticmethod
    def _schedule(group, step, state):
        """The size of this step and the parameter's weight in the average; sets those of the next one."""
        lr, lambd = group["lr"], group["lambd"]
        size, weight = state["eta"].item(), state["mu"].item()
        state["eta"].copy_(_fl.as_tensor(lr / ((1 + lambd * lr * step) ** group["alpha"])))
        state["mu"].copy_(_fl.as_tensor(1 / max(1, step - group["t0"])))
        return size, weight

    @classmethod
    def _numbers(cls, group, step, state):
        size, weight = cls._schedule(group, step, state)
        return group["weight_decay"], 1 - group["lambd"] * size, -size, weight

    @classmethod
    def _updater(cls, group):
        lambd, decay = group["lambd"], group["weight_decay"]

        def update(p, grad, state):
            step, ax = state["step"], state["ax"]
            step += 1
            grad = decayed(p, grad, decay)
            size, weight = cls._schedule(group, value_of(step), state)
            p.mul_(1 - lambd * size)
            p.add_(grad, alpha=-size)
            if weight != 1:
                ax.add_(p.sub(ax).mul_(weight))
            else:
                ax.copy_(p)

        return update


def asgd(params: list, grads: list, axs: list, mus: list, etas: list, state_steps: list, foreach: bool | None = None,
         maximize: bool = False, differentiable: bool = False, capturable: bool = False, has_complex: bool = False, *,
         lambd: float, lr: float, t0: float, alpha: float, weight_decay: float) -> None:
    """One update of lists of tensors in place."""
    options = dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay, foreach=foreach,
                   maximize=maximize, differentiable=differentiable, capturable=capturable)
    ASGD._update_lists(options, params, grads, ax=axs, mu=mus, eta=etas, step=state_steps)
