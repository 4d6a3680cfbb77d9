"""Adadelta."""
from __future__ import annotations

from .optimizer import PerParameter, add_square, check, check_lr_tensor, decayed, new_step, zeros_like

__all__ = ["Adadelta", "adadelta"]


class Adadelta(PerParameter):
    """Steps scaled by the ratio of the running sizes of updates and gradients."""

    _complex_decay_first = True
    _rule = "adadelta"
    _capturable_on_xla = False, False
    _group_lists = ("square_avg", "acc_delta", "step")
    _group_defaults = dict(foreach=None, maximize=False, differentiable=False, capturable=False)

    def __init__(self, params, lr=1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
                 foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False,
                 differentiable: bool = False) -> None:
        check_lr_tensor(lr)
        check(0.0 <= lr, f"Invalid learning rate: {lr}")
        check(0.0 <= rho <= 1.0, f"Invalid rho value: {rho}")
        check(0.0 <= eps, f"Invalid epsilon value: {eps}")
        check(0.0 <= weight_decay, f"Invalid weight_decay value: {weight_decay}")
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize,
                                      capturable=capturable, foreach=foreach, differentiable=differentiable))

    def _init_state(self, p, grad, group):
        return {"step": new_step(), "square_avg": zeros_like(p), "acc_delta": zeros_like(p)}

    @classmethod
    def _state_names(cls, group):
        return "square_avg", "acc_delta"

    @classmethod
    def _numbers(cls, group, step, state):
        return group["weight_decay"], group["rho"], 1 - group["rho"], group["eps"], -group["lr"]

    @classmethod
    def _updater(cls, group):
        lr, rho, eps, decay = group["lr"], group["rho"], group["eps"], group["weight_decay"]
        traced = group["differentiable"]

        def update(p, grad, state):
            step, sq, acc = state["step"], state["square_avg"], state["acc_delta"]
            step += 1
            grad = decayed(p, grad, decay)
            add_square(sq, grad, rho)
            past, present = (average.add(eps).sqrt_() for average in (acc, sq))
            change = (past.clone() if traced else past).div_(present).mul_(grad)
            add_square(acc, change, rho)
            p.add_(change, alpha=-lr)

        return update


def adadelta(params: list, grads: list, square_avgs: list, acc_deltas: list, state_steps: list,
             capturable: bool = False, foreach: bool | None = None, differentiable: bool = False,
             has_complex: bool = False, *, lr: float, rho: float, eps: float, weight_decay: float,
             maximize: bool) -> None:
    """One update of lists of tensors in place."""
    options = dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize, capturable=capturable,
                   foreach=foreach, differentiable=differentiable)
    Adadelta._update_lists(options, params, grads, strict=not foreach, square_avg=square_avgs, acc_delta=acc_deltas,
                           step=state_steps)
