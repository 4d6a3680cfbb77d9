"""Adam for sparse gradients."""
from __future__ import annotations

import math

import flambeau as _fl

from .optimizer import PerParameter, check, check_betas, check_lr_tensor, zeros_like

__all__ = ["SparseAdam"]


class SparseAdam(PerParameter):
    """Adam that updates moments and weights only where the sparse gradient has entries."""

    _sparse_message = None
    _tensor_step = False
    _steps_message = None
    _complex_as_real = False
    _group_defaults = dict(maximize=False)

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps: float = 1e-8, maximize: bool = False) -> None:
        check_lr_tensor(lr)
        check(0.0 < lr, f"Invalid learning rate: {lr}")
        check(0.0 < eps, f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, maximize=maximize))
        sparse, complex_ = [], []
        for i, group in enumerate(self.param_groups):
            for j, p in enumerate(group["params"]):
                if p.is_sparse:
                    sparse.append([i, j])
                if p.is_complex():
                    complex_.append([i, j])
        check(not sparse, f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")
        check(not complex_, f"Complex params at indices {complex_}: SparseAdam does not support complex parameters")

    def _gather(self, group):
        if any(p.grad is not None and not p.grad.is_sparse for p in group["params"]):
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        params, grads, states = super()._gather(group)
        for state in states:
            state["step"] += 1
        return params, grads, states

    def _init_state(self, p, grad, group):
        return {"step": 0, "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}

    @classmethod
    def _needed_lists(cls, group):
        return {"exp_avg", "exp_avg_sq", "step"}

    @classmethod
    def _updater(cls, group):
        lr, (beta1, beta2), eps = group["lr"], group["betas"], group["eps"]

        def update(p, grad, state):
            n = state["step"]
            grad = grad.coalesce()
            where, values, size = grad._indices(), grad._values(), grad.size()
            if values.numel() == 0:
                return

            def rows(v):
                if where.dim() == 0 or v.dim() == 0:
                    return grad.new_empty(0).resize_as_(grad)
                return _fl.sparse_coo_tensor(where, v, size, check_invariants=False)

            avg, sq = state["exp_avg"], state["exp_avg_sq"]

            def moved(average, towards, share):
                """Move the rows of an average; returns them."""
                before = average.sparse_mask(grad)._values()
                change = towards.sub(before).mul_(share)
                average.add_(rows(change))
                return change.add_(before)

            mean, square = moved(avg, values, 1 - beta1), moved(sq, values.pow(2), 1 - beta2)
            rate = lr * math.sqrt(1 - beta2**n) / (1 - beta1**n)
            p.add_(rows(-rate * mean.div_(square.sqrt_().add_(eps))))

        return update
