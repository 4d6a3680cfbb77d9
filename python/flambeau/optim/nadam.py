"""NAdam: Adam with Nesterov momentum."""
from __future__ import annotations

import flambeau as _fl

from .optimizer import (PerParameter, add_square, check, check_betas, check_lr_tensor, decayed, new_step,
                        scalar_dtype, shrinking, zeros_like)

__all__ = ["NAdam", "nadam"]


class NAdam(PerParameter):
    """Adam with Nesterov momentum on a decaying schedule."""

    _rule, _by_step = "nadam", False
    _capturable_what = "params, mu_products and state_steps", "params, mu_products, and state_steps"
    _group_lists = ("exp_avg", "exp_avg_sq", "mu_product", "step")
    _group_defaults = dict(maximize=False, foreach=None, capturable=False, differentiable=False,
                           decoupled_weight_decay=False)

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
                 momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
                 foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
                 differentiable: bool = False) -> None:
        check_lr_tensor(lr)
        check(0.0 <= lr, f"Invalid learning rate: {lr}")
        check(0.0 <= eps, f"Invalid epsilon value: {eps}")
        check_betas(betas)
        check(0.0 <= weight_decay, f"Invalid weight_decay value: {weight_decay}")
        check(0.0 <= momentum_decay, f"Invalid momentum_decay value: {momentum_decay}")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                                      momentum_decay=momentum_decay, decoupled_weight_decay=decoupled_weight_decay,
                                      maximize=maximize, foreach=foreach, capturable=capturable,
                                      differentiable=differentiable))

    def __setstate__(self, state):
        super().__setstate__(state)
        for entry in self.state.values():
            if entry and "mu_product" in entry and not isinstance(entry["mu_product"], _fl.Tensor):
                entry["mu_product"] = _fl.tensor(entry["mu_product"], dtype=scalar_dtype())

    def _init_state(self, p, grad, group):
        return {"step": new_step(), "mu_product": new_step(1.0), "exp_avg": zeros_like(p),
                "exp_avg_sq": zeros_like(p)}

    @classmethod
    def _state_names(cls, group):
        return "exp_avg", "exp_avg_sq"

    @staticmethod
    def _sizes(group, step, state):
        """The sizes of the steps along the gradient and its average; counts the momentum into its product."""
        lr, beta1 = group["lr"], group["betas"][0]
        now, following = (beta1 * (1.0 - 0.5 * 0.96 ** (k * group["momentum_decay"])) for k in (step, step + 1))
        product = state["mu_product"]
        product *= now
        total = product if group["differentiable"] else product.item()
        return -lr * (1.0 - now) / (1.0 - total), -lr * following / (1.0 - total * following)

    @classmethod
    def _numbers(cls, group, step, state):
        beta1, beta2 = group["betas"]
        decay = shrinking(group["lr"], group["weight_decay"], group["decoupled_weight_decay"])
        averages = 1 - beta1, beta2, 1 - beta2, 1 - beta2**step, group["eps"]
        return (*decay, *averages, *cls._sizes(group, step, state))

    @classmethod
    def _updater(cls, group):
        lr, (beta1, beta2), eps, decay = group["lr"], group["betas"], group["eps"], group["weight_decay"]
        decoupled, traced = group["decoupled_weight_decay"], group["differentiable"]

        def update(p, grad, state):
            step, avg, sq = state["step"], state["exp_avg"], state["exp_avg_sq"]
            step += 1
            n = step.item()
            grad = decayed(p, grad, decay, lr if decoupled else None)
            avg.lerp_(grad, 1 - beta1)
            add_square(sq, grad, beta2)
            scale = sq.div(1 - beta2**n).sqrt().add(eps)
            for part, size in zip((grad, avg), cls._sizes(group, n, state)):
                if traced:
                    p.addcdiv_(part * size, scale)
                else:
                    p.addcdiv_(part, scale, value=size)

        return update


def nadam(params: list, grads: list, exp_avgs: list, exp_avg_sqs: list, mu_products: list, state_steps: list,
          decoupled_weight_decay: bool = False, foreach: bool | None = None, capturable: bool = False,
          differentiable: bool = False, has_complex: bool = False, maximize: bool = False, *, beta1: float,
          beta2: float, lr: float, weight_decay: float, momentum_decay: float, eps: float) -> None:
    """One update of lists of tensors in place."""
    options = dict(lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay,
                   decoupled_weight_decay=decoupled_weight_decay, maximize=maximize, foreach=foreach,
                   capturable=capturable, differentiable=differentiable)
    NAdam._update_lists(options, params, grads, exp_avg=exp_avgs, exp_avg_sq=exp_avg_sqs, mu_product=mu_products,
                        step=state_steps)
