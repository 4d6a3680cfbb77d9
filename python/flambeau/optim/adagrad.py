"""Adagrad."""
from __future__ import annotations

import flambeau as _fl
from flambeau import _C

from .optimizer import PerParameter, check, check_lr_tensor, new_step

__all__ = ["Adagrad"]


class Adagrad(PerParameter):
    """Steps divided by the root of the sum of squared gradients; accepts sparse gradients."""

    _sparse_message = None
    _complex_decay_first = True
    _rule = "adagrad"
    _group_defaults = dict(foreach=None, maximize=False, differentiable=False, fused=None)

    def __init__(self, params, lr=1e-2, lr_decay: float = 0, weight_decay: float = 0,
                 initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
                 maximize: bool = False, differentiable: bool = False, fused: bool | None = None) -> None:
        check_lr_tensor(lr)
        check(0.0 <= lr, f"Invalid learning rate: {lr}")
        check(0.0 <= lr_decay, f"Invalid lr_decay value: {lr_decay}")
        check(0.0 <= weight_decay, f"Invalid weight_decay value: {weight_decay}")
        check(0.0 <= initial_accumulator_value,
              f"Invalid initial_accumulator_value value: {initial_accumulator_value}")
        check(0.0 <= eps, f"Invalid epsilon value: {eps}")
        super().__init__(params, dict(lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay,
                                      initial_accumulator_value=initial_accumulator_value, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable, fused=fused))
        self._check_fused()
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p] = self._init_state(p, None, group)

    def _init_state(self, p, grad, group):
        start = group["initial_accumulator_value"]
        return {"step": new_step(), "sum": _fl.full_like(p, complex(start, start) if p.is_complex() else start,
                                                         memory_format=_fl.preserve_format)}

    def share_memory(self) -> None:
        """Put the accumulated sums into shared memory."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()

    def _state_names(self, group):
        return ("sum",)

    def _numbers(self, group, step, state):
        return group["weight_decay"], group["eps"], -(group["lr"] / (1 + (step - 1) * group["lr_decay"]))

    def _updater(self, group):
        lr, lr_decay, decay, eps = group["lr"], group["lr_decay"], group["weight_decay"], group["eps"]

        def update(p, grad, state):
            step, total = state["step"], state["sum"]
            step += 1
            if decay != 0:
                if grad.is_sparse:
                    raise RuntimeError("weight_decay option is not compatible with sparse gradients")
                grad = grad.add(p, alpha=decay)
            size = lr / (1 + (step.item() - 1) * lr_decay)
            if grad.is_sparse:
                grad = grad.coalesce()
                where, values = grad._indices(), grad._values()

                def rows(v):
                    return _fl.sparse_coo_tensor(where, v, grad.size(), check_invariants=False)

                total.add_(rows(values.pow(2)))
                std = total.sparse_mask(grad)._values().sqrt_().add_(eps)
                p.add_(rows(values / std), alpha=-size)
            else:
                total.addcmul_(grad, grad, value=1)
                p.addcdiv_(grad, total.sqrt().add(eps), value=-size)

        return update

    def _fused(self, group, params, grads, states):
        if any(g.is_sparse for g in grads):
            raise RuntimeError("`fused` does not support sparse grad")
        steps = [s["step"] for s in states]
        _C._foreach_add_(steps, 1)
        options = self._kernel_options(group, "lr", "lr_decay", "weight_decay", "eps", "maximize")
        _C._fused_adagrad_(params, grads, [s["sum"] for s in states], steps, **options)
