"""RAdam: Adam with a rectified step at the start."""
from __future__ import annotations

from .optimizer import (PerParameter, add_square, check, check_betas, check_lr_tensor, decayed, new_step,
                        shrinking, zeros_like)

__all__ = ["RAdam", "radam"]


class RAdam(PerParameter):
    """Adam whose adaptive part waits until its variance is tractable."""

    _rule = "radam"
    _group_lists = ("exp_avg", "exp_avg_sq", "step")
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

    @classmethod
    def _state_names(cls, group):
        return "exp_avg", "exp_avg_sq"

    @staticmethod
    def _rectification(beta2, step):
        """The factor that makes up for a variance that is not well known yet; 0.0 where it is not known at all."""
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * (beta2**step) / (1 - beta2**step)  # of the average that exp_avg_sq stands for
        if length > 5.0:
            return ((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)) ** 0.5
        return 0.0

    @classmethod
    def _numbers(cls, group, step, state):
        lr, (beta1, beta2) = group["lr"], group["betas"]
        decay = shrinking(lr, group["weight_decay"], group["decoupled_weight_decay"])
        return (*decay, 1 - beta1, beta2, 1 - beta2, 1 - beta1**step, lr, group["eps"], (1 - beta2**step) ** 0.5,
                cls._rectification(beta2, step))

    @classmethod
    def _updater(cls, group):
        lr, (beta1, beta2), eps, decay = group["lr"], group["betas"], group["eps"], group["weight_decay"]
        decoupled = group["decoupled_weight_decay"]

        def update(p, grad, state):
            step, avg, sq = state["step"], state["exp_avg"], state["exp_avg_sq"]
            step += 1
            n = step.item()
            grad = decayed(p, grad, decay, lr if decoupled else None)
            avg.lerp_(grad, 1 - beta1)
            add_square(sq, grad, beta2)
            change = avg / (1 - beta1**n) * lr
            known = cls._rectification(beta2, n)
            if known:
                change = change * ((1 - beta2**n) ** 0.5 / sq.sqrt().add(eps)) * known
            p.add_(change, alpha=-1.0)

        return update


def radam(params: list, grads: list, exp_avgs: list, exp_avg_sqs: list, state_steps: list,
          decoupled_weight_decay: bool = False, foreach: bool | None = None, differentiable: bool = False,
          capturable: bool = False, has_complex: bool = False, maximize: bool = False, *, beta1: float, beta2: float,
          lr: float, weight_decay: float, eps: float) -> None:
    """One update of lists of tensors in place."""
    options = dict(lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=weight_decay, maximize=maximize, foreach=foreach,
                   capturable=capturable, decoupled_weight_decay=decoupled_weight_decay, differentiable=differentiable)
    RAdam._update_lists(options, params, grads, exp_avg=exp_avgs, exp_avg_sq=exp_avg_sqs, step=state_steps)
