"""Adamax: Adam with the infinity norm."""
from __future__ import annotations

import flambeau as _fl

from .optimizer import PerParameter, check, check_betas, check_lr_tensor, decayed, new_step, zeros_like

__all__ = ["Adamax", "adamax"]


class Adamax(PerParameter):
    """Adam's variant with the running maximum of gradients in place of the second moment."""

    _complex_decay_first = True
    _rule = "adamax"
    _group_lists = ("exp_avg", "exp_inf", "step")
    _group_defaults = dict(foreach=None, maximize=False, differentiable=False, capturable=False)

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
                 foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
                 capturable: bool = False) -> None:
        check_lr_tensor(lr)
        check(0.0 <= lr, f"Invalid learning rate: {lr}")
        check(0.0 <= eps, f"Invalid epsilon value: {eps}")
        check_betas(betas)
        check(0.0 <= weight_decay, f"Invalid weight_decay value: {weight_decay}")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable, capturable=capturable))

    def _init_state(self, p, grad, group):
        return {"step": new_step(), "exp_avg": zeros_like(p), "exp_inf": zeros_like(p)}

    @classmethod
    def _state_names(cls, group):
        return "exp_avg", "exp_inf"

    @classmethod
    def _numbers(cls, group, step, state):
        lr, (beta1, beta2) = group["lr"], group["betas"]
        return group["weight_decay"], 1 - beta1, beta2, group["eps"], -(lr / (1 - beta1**step))

    @classmethod
    def _updater(cls, group):
        lr, (beta1, beta2), eps, decay = group["lr"], group["betas"], group["eps"], group["weight_decay"]
        traced = group["differentiable"]

        def update(p, grad, state):
            step, avg, top = state["step"], state["exp_avg"], state["exp_inf"]
            step += 1
            grad = decayed(p, grad, decay)
            avg.lerp_(grad, 1 - beta1)
            if traced:
                both = _fl.cat([top.mul_(beta2).unsqueeze(0), grad.abs().add_(eps).unsqueeze_(0)], 0)
                top.copy_(_fl.amax(both, 0, keepdim=False))
            else:
                _fl.maximum(top.mul_(beta2), grad.abs().add_(eps), out=top)
            p.addcdiv_(avg, top, value=-(lr / (1 - beta1 ** step.item())))

        return update


def adamax(params: list, grads: list, exp_avgs: list, exp_infs: list, state_steps: list, foreach: bool | None = None,
           maximize: bool = False, differentiable: bool = False, capturable: bool = False, has_complex: bool = False, *,
           eps: float, beta1: float, beta2: float, lr: float, weight_decay: float) -> None:
    """One update of lists of tensors in place."""
    options = dict(lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=weight_decay, foreach=foreach, maximize=maximize,
                   differentiable=differentiable, capturable=capturable)
    Adamax._update_lists(options, params, grads, exp_avg=exp_avgs, exp_inf=exp_infs, step=state_steps)
