"""RAdam: Adam with a rectified step at the start."""
from __future__ import annotations

from .optimizer import (PerParameter, add_square, check, check_betas, check_lr_tensor, decayed, new_step,
                        zeros_like)

__all__ = ["RAdam"]


class RAdam(PerParameter):
    """Adam whose adaptive part waits until its variance is tractable."""

    _group_defaults = dict(maximize=False, foreach=None, capturable=False, differentiable=False,
                           decoupled_weight_decay=False)

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
                 decoupled_weight_decay: bool = False, *, foreach: bool | None = None, maximize: bool = False,
                 capturable: bool = False, differentiable: bool = False) -> None:
        check_lr_tensor(lr)
        check(0.0 <= lr, f"Invalid learning rate: {lr}")
        check(0.0 <= eps, f"Invalid epsilon value: {eps}")
        check_betas(betas)
        check(0.0 <= weight_decay, f"Invalid weight_decay value: {weight_decay}")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize,
                                      foreach=foreach, capturable=capturable,
                                      decoupled_weight_decay=decoupled_weight_decay, differentiable=differentiable))

    def _init_state(self, p, grad, group):
        return {"step": new_step(), "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}

    def _updater(self, group):
        lr, (beta1, beta2), eps, decay = group["lr"], group["betas"], group["eps"], group["weight_decay"]
        decoupled = group["decoupled_weight_decay"]
        longest = 2 / (1 - beta2) - 1

        def update(p, grad, state):
            step, avg, sq = state["step"], state["exp_avg"], state["exp_avg_sq"]
            step += 1
            n = step.item()
            grad = decayed(p, grad, decay, lr if decoupled else None)
            avg.lerp_(grad, 1 - beta1)
            add_square(sq, grad, beta2)
            left = 1 - beta2**n
            change = avg / (1 - beta1**n) * lr
            length = longest - 2 * n * (beta2**n) / left  # of the average that sq stands for
            if length > 5.0:  # long enough for its variance to be known
                known = ((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)) ** 0.5
                change = change * (left**0.5 / sq.sqrt().add(eps)) * known
            p.add_(change, alpha=-1.0)

        return update
