"""Adam and, through `decoupled_weight_decay`, AdamW."""
from __future__ import annotations

import flambeau as _fl
from flambeau import _C

from .optimizer import (PerParameter, _to_scalar, check, check_betas, check_lr_tensor, is_tensor, new_step,
                        scalar_dtype, shrinking, zeros_like)

__all__ = ["Adam", "adam"]


class Adam(PerParameter):
    """Adaptive moments, with AMSGrad and coupled or decoupled weight decay."""

    _sparse_message = "Adam does not support sparse gradients, please consider SparseAdam instead"
    _complex_decay_first = True
    _rule = "adam"
    _fused_name = "Adam"
    _group_lists = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step")
    _group_defaults = dict(amsgrad=False, maximize=False, foreach=None, capturable=False, differentiable=False,
                           decoupled_weight_decay=False, fused=None)

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
                 amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
                 capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
                 decoupled_weight_decay: bool = False) -> None:
        if is_tensor(lr):
            check(not (foreach and not capturable),
                  "lr as a Tensor is not supported for capturable=False and foreach=True")
            check_lr_tensor(lr)
        check(0.0 <= lr, f"Invalid learning rate: {lr}")
        check(0.0 <= eps, f"Invalid epsilon value: {eps}")
        check_betas(betas)
        check(weight_decay >= 0.0, f"Invalid weight_decay value: {weight_decay}")
        check(is_tensor(betas[0]) == is_tensor(betas[1]), "betas must be either both floats or both Tensors")
        for i, beta in enumerate(betas):
            if is_tensor(beta):
                check(capturable or not foreach,
                      f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True")
                check(beta.numel() == 1, f"Tensor betas[{i}] must be 1-element")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
                                      maximize=maximize, foreach=foreach, capturable=capturable,
                                      differentiable=differentiable, fused=fused,
                                      decoupled_weight_decay=decoupled_weight_decay))
        self._check_fused()

    def _init_state(self, p, grad, group):
        if group["fused"]:
            step = _fl.zeros((), dtype=scalar_dtype(True), device=p.device)
        else:
            step = new_step()
        state = {"step": step, "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(p)
        return state

    def _gather(self, group):
        params, grads, states = super()._gather(group)
        if group["differentiable"] and any(s["step"].requires_grad for s in states):
            raise RuntimeError("`requires_grad` is not supported for `step` in differentiable mode")
        return params, grads, states

    @classmethod
    def _update(cls, group, params, grads, states, scaling=None, together=True):
        if group["foreach"] and not group["capturable"] and not group["fused"]:
            if is_tensor(group["lr"]):
                raise RuntimeError("lr as a Tensor is not supported for capturable=False and foreach=True")
            for i, beta in enumerate(group["betas"], 1):
                check(not is_tensor(beta), f"beta{i} as a Tensor is not supported for capturable=False and foreach=True")
        super()._update(group, params, grads, states, scaling, together)

    @classmethod
    def _state_names(cls, group):
        return ("exp_avg", "exp_avg_sq") + ("max_exp_avg_sq",) * bool(group["amsgrad"])

    @classmethod
    def _numbers(cls, group, step, state):
        lr, (beta1, beta2) = group["lr"], group["betas"]
        decay = shrinking(lr, group["weight_decay"], group["decoupled_weight_decay"])
        return (*decay, 1 - beta1, beta2, 1 - beta2, (1 - beta2**step) ** 0.5, group["eps"], -(lr / (1 - beta1**step)))

    @classmethod
    def _updater(cls, group):
        lr, eps, decay = group["lr"], group["eps"], group["weight_decay"]
        beta1, beta2 = map(_to_scalar, group["betas"])
        decoupled, amsgrad, traced = group["decoupled_weight_decay"], group["amsgrad"], group["differentiable"]

        def update(p, grad, state):
            step, avg, sq = state["step"], state["exp_avg"], state["exp_avg_sq"]
            step += 1
            if decay != 0:
                if decoupled:
                    p.mul_(1 - lr * decay)
                else:
                    grad = grad.add(p, alpha=decay)
            if is_tensor(beta1):
                avg.lerp_(grad, (1 - beta1).to(avg.dtype))
            else:
                avg.lerp_(grad, 1 - beta1)
            if traced and is_tensor(beta2) and beta2.requires_grad:
                sq.lerp_(grad.square(), (1 - beta2).to(sq.dtype))
            else:
                sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
            if traced:
                scale2 = (1 - beta2**step).sqrt()
                size = (lr / (1 - beta1**step)).neg()
                second = sq
                if amsgrad:
                    largest = state["max_exp_avg_sq"]
                    largest.copy_(_fl.maximum(largest.clone(), sq))
                    second = largest
                p.addcdiv_(avg.clone(), (second.clone().sqrt() / (scale2 * size)).add_(eps / size))
                return
            n = step.item()
            size = lr / (1 - beta1**n)
            scale2 = (1 - beta2**n) ** 0.5
            if amsgrad:
                second = state["max_exp_avg_sq"]
                _fl.maximum(second, sq, out=second)
            else:
                second = sq
            p.addcdiv_(avg, (second.sqrt() / scale2).add_(eps), value=-size)

        return update

    @classmethod
    def _fused(cls, group, params, grads, states, options):
        beta1, beta2 = (b.item() if is_tensor(b) else b for b in group["betas"])
        steps = [s["step"] for s in states]
        _C._foreach_add_(steps, 1)
        kernel = _C._fused_adamw_ if group["decoupled_weight_decay"] else _C._fused_adam_
        averages = cls._state_names(group)
        tensors = [[s[name] for s in states] for name in averages] + [[]] * (3 - len(averages))
        kernel(params, grads, *tensors, steps, beta1=beta1, beta2=beta2,
               **{name: group[name] for name in ("lr", "weight_decay", "eps", "amsgrad", "maximize")}, **options)
        if options["found_inf"] is not None:
            _C._foreach_sub_(steps, [options["found_inf"]] * len(steps))


def adam(params: list, grads: list, exp_avgs: list, exp_avg_sqs: list, max_exp_avg_sqs: list, state_steps: list,
         foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
         fused: bool | None = None, grad_scale=None, found_inf=None, has_complex: bool = False,
         decoupled_weight_decay: bool = False, *, amsgrad: bool, beta1, beta2, lr, weight_decay: float, eps: float,
         maximize: bool) -> None:
    """One update of lists of tensors in place; `max_exp_avg_sqs` may be empty without `amsgrad`."""
    options = dict(lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize,
                   foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused,
                   decoupled_weight_decay=decoupled_weight_decay)
    Adam._update_lists(options, params, grads, grad_scale, found_inf, exp_avg=exp_avgs, exp_avg_sq=exp_avg_sqs,
                       max_exp_avg_sq=max_exp_avg_sqs, step=state_steps)
