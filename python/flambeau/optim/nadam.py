"""NAdam: Adam with Nesterov momentum."""
from __future__ import annotations

import flambeau as _fl

from .optimizer import (PerParameter, add_square, check, check_betas, check_lr_tensor, decayed, new_step,
                        scalar_dtype, zeros_like)

__all__ = ["NAdam"]


class NAdam(PerParameter):
    """Adam with Nesterov momentum on a decaying schedule."""

    _capturable_what = "params, mu_products and state_steps"
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

    def _updater(self, group):
        lr, (beta1, beta2), eps, decay = group["lr"], group["betas"], group["eps"], group["weight_decay"]
        decoupled, slow, traced = group["decoupled_weight_decay"], group["momentum_decay"], group["differentiable"]

        def update(p, grad, state):
            step, product, avg, sq = state["step"], state["mu_product"], state["exp_avg"], state["exp_avg_sq"]
            step += 1
            n = step.item()
            grad = decayed(p, grad, decay, lr if decoupled else None)
            now, following = (beta1 * (1.0 - 0.5 * 0.96 ** (k * slow)) for k in (n, n + 1))
            product *= now
            avg.lerp_(grad, 1 - beta1)
            add_square(sq, grad, beta2)
            scale = sq.div(1 - beta2**n).sqrt().add(eps)
            total = product if traced else product.item()
            for part, size in ((grad, -lr * (1.0 - now) / (1.0 - total)),
                               (avg, -lr * following / (1.0 - total * following))):
                if traced:
                    p.addcdiv_(part * size, scale)
                else:
                    p.addcdiv_(part, scale, value=size)

        return update
