"""Adagrad."""
from __future__ import annotations

import flambeau as _fl
from flambeau import _C

from .optimizer import PerParameter, check, check_lr_tensor, new_step

__all__ = ["Adagrad", "adagrad"]


class Adagrad(PerParameter):
    """Steps divided by the root of the sum of squared gradients; accepts sparse gradients."""

    _sparse_message = None
    _complex_decay_first = True
    _rule = "adagrad"
    _fused_name = "adagrad"
    _group_lists = ("sum", "step")
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

    def _init_group(self, group, params, grads, *lists):
        has_complex = super()._init_group(group, params, grads, *lists)
        return any(grad.is_sparse for grad in grads), has_complex

    def share_memory(self) -> None:
        """Put the accumulated sums into shared memory."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()

    @classmethod
    def _state_names(cls, group):
        return ("sum",)

    @classmethod
    def _numbers(cls, group, step, state):
        return group["weight_decay"], group["eps"], -(group["lr"] / (1 + (step - 1) * group["lr_decay"]))

    @classmethod
    def _updater(cls, group):
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

                total.add_(_make_sparse(grad, where, values.pow(2)))
                std = total.sparse_mask(grad)._values().sqrt_().add_(eps)
                p.add_(_make_sparse(grad, where, values / std), alpha=-size)
            else:
                total.addcmul_(grad, grad, value=1)
                p.addcdiv_(grad, total.sqrt().add(eps), value=-size)

        return update

    @classmethod
    def _fused(cls, group, params, grads, states, options):
        if any(g.is_sparse for g in grads):
            raise RuntimeError("`fused` does not support sparse grad")
        steps = [s["step"] for s in states]
        _C._foreach_add_(steps, 1)
        names = "lr", "lr_decay", "weight_decay", "eps", "maximize"
        _C._fused_adagrad_(params, grads, [s["sum"] for s in states], steps, **{name: group[name] for name in names},
                           **options)


def _make_sparse(grad, grad_indices, values):
    """A sparse tensor of the gradient's size, with `values` at its indices."""
    return _fl.sparse_coo_tensor(grad_indices, values, grad.size(), check_invariants=False)


def adagrad(params: list, grads: list, state_sums: list, state_steps: list, fused: bool | None = None, grad_scale=None,
            found_inf=None, has_sparse_grad: bool = False, foreach: bool | None = None, differentiable: bool = False,
            has_complex: bool = False, *, lr: float, weight_decay: float, lr_decay: float, eps: float,
            maximize: bool) -> None:
    """One update of lists of tensors in place."""
    if fused and (has_sparse_grad or has_complex):
        raise RuntimeError("`fused` does not support sparse grad or complex param")
    options = dict(lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay, foreach=foreach, maximize=maximize,
                   differentiable=differentiable, fused=fused)
    Adagrad._update_lists(options, params, grads, grad_scale, found_inf, not fused and not foreach, sum=state_sums,
                          step=state_steps)
