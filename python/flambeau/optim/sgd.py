"""Stochastic gradient descent with momentum."""
from __future__ import annotations

import flambeau as _fl
from flambeau import _C

from .optimizer import PerParameter, check, check_lr_tensor, is_tensor

__all__ = ["SGD", "sgd"]


class SGD(PerParameter):
    """Gradient descent: momentum, dampening, Nesterov's variant, L2 penalty."""

    _sparse_message = None
    _complex_as_real = False
    _rule = "sgd"
    _group_defaults = dict(nesterov=False, maximize=False, foreach=None, differentiable=False, fused=False)

    def __init__(self, params, lr=1e-3, momentum: float = 0, dampening: float = 0, weight_decay=0,
                 nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None,
                 differentiable: bool = False, fused: bool | None = None) -> None:
        check_lr_tensor(lr)
        check(not lr < 0.0, f"Invalid learning rate: {lr}")
        check(not momentum < 0.0, f"Invalid momentum value: {momentum}")
        check(not weight_decay < 0.0, f"Invalid weight_decay value: {weight_decay}")
        check(not nesterov or (momentum > 0 and dampening == 0),
              "Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
                                      nesterov=nesterov, maximize=maximize, foreach=foreach,
                                      differentiable=differentiable, fused=fused))
        self._check_fused()

    def _init_state(self, p, grad, group):
        return {}

    def _gather(self, group):
        rows = [(p, p.grad, self.state[p] if group["momentum"] != 0 else None)
                for p in group["params"] if p.grad is not None]
        return tuple(map(list, zip(*rows))) if rows else ([], [], [])

    def _init_group(self, group, params, grads, momentum_buffer_list):
        rows = self._gather(group)
        params.extend(rows[0])
        grads.extend(rows[1])
        if group["momentum"] != 0:
            momentum_buffer_list.extend(state.get("momentum_buffer") for state in rows[2])
        return any(grad.is_sparse for grad in rows[1])

    @classmethod
    def _needed_lists(cls, group):
        return {"momentum_buffer"} if group["momentum"] != 0 else set()

    @classmethod
    def _update_together(cls, group, params, grads, states):
        momentum = group["momentum"]
        if group["differentiable"] or is_tensor(group["lr"]) or is_tensor(group["weight_decay"]):
            return False
        buffers = [state.get("momentum_buffer") for state in states] if momentum != 0 else []
        if not _C._are_alike(params, grads, [g if b is None else b for g, b in zip(grads, buffers)]):
            return False
        numbers = [group["weight_decay"], momentum, 1 - group["dampening"], float(bool(group["nesterov"])), 0.0,
                   -group["lr"]]
        old = [i for i, buffer in enumerate(buffers) if buffer is not None]
        if len(old) == len(buffers):
            _C._optimizer_update_(params, grads, buffers, cls._rule, numbers, group["maximize"])
            return True
        new = [i for i, buffer in enumerate(buffers) if buffer is None]
        for i in new:
            buffers[i] = states[i]["momentum_buffer"] = _fl.empty_like(grads[i], memory_format=_fl.preserve_format)
        for fresh, part in ((0.0, old), (1.0, new)):
            if part:
                numbers[4] = fresh
                lists = ([values[i] for i in part] for values in (params, grads, buffers))
                _C._optimizer_update_(*lists, cls._rule, numbers, group["maximize"])
        return True

    @classmethod
    def _updater(cls, group):
        lr, momentum, decay = group["lr"], group["momentum"], group["weight_decay"]
        keep, nesterov = 1 - group["dampening"], group["nesterov"]
        traced = group["differentiable"]

        def update(p, grad, state):
            if is_tensor(decay) or decay != 0:
                if is_tensor(decay) and traced and decay.requires_grad:
                    grad = grad.addcmul(p.clone(), decay)
                else:
                    grad = grad.add(p, alpha=decay)
            if momentum != 0:
                buf = state.get("momentum_buffer")
                if buf is None:
                    buf = state["momentum_buffer"] = grad.detach().clone()
                else:
                    buf.mul_(momentum).add_(grad, alpha=keep)
                grad = grad.add(buf, alpha=momentum) if nesterov else buf
            if is_tensor(lr) and traced and lr.requires_grad:
                p.addcmul_(grad, lr, value=-1)
            else:
                p.add_(grad, alpha=-lr)

        return update

    @classmethod
    def _fused(cls, group, params, grads, states, options):
        momentum = group["momentum"]
        buffers, first = [], False
        if momentum != 0:
            first = all(s.get("momentum_buffer") is None for s in states)
            for p, s in zip(params, states):
                if s.get("momentum_buffer") is None:
                    s["momentum_buffer"] = _fl.empty_like(p) if first else _fl.zeros_like(p)
            buffers = [s["momentum_buffer"] for s in states]
        names = "lr", "weight_decay", "momentum", "dampening", "nesterov", "maximize"
        _C._fused_sgd_(params, grads, buffers, is_first_step=first, **{name: group[name] for name in names}, **options)


def sgd(params: list, d_p_list: list, momentum_buffer_list: list, has_sparse_grad: bool = False,
        foreach: bool | None = None, fused: bool | None = None, grad_scale=None, found_inf=None, *, weight_decay: float,
        momentum: float, lr: float, dampening: float, nesterov: bool, maximize: bool) -> None:
    """One update of lists of tensors in place; where `momentum_buffer_list` has None, the new buffer is put there."""
    options = dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov,
                   maximize=maximize, fused=fused and not foreach, differentiable=_fl.is_grad_enabled())
    SGD._update_lists(options, params, d_p_list, grad_scale, found_inf, momentum_buffer=momentum_buffer_list)
