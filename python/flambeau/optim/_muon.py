"""Muon: momentum with orthogonalised updates, for matrices."""
from __future__ import annotations

import math

import flambeau as _fl

from .optimizer import PerParameter, check, check_lr_tensor, zeros_like

__all__ = ["Muon"]


def orthogonalize(grad, coefficients, steps: int, eps: float):
    """The nearest (semi-)orthogonal matrix of `grad`, about, by Newton-Schulz iterations in bfloat16."""
    check(steps < 100, "Number of steps must be less than 100 for computational efficiency")
    check(grad.dim() == 2, "Input tensor gradient must be a 2D matrix")
    check(len(coefficients) == 3, "Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    x = grad.bfloat16()
    tall = grad.size(0) > grad.size(1)
    if tall:
        x = x.T
    x.div_(x.norm().clamp(min=eps))
    for _ in range(steps):
        gram = x @ x.T
        x = _fl.addmm(x, _fl.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def adjusted_rate(lr: float, how: str | None, shape) -> float:
    """The learning rate for a matrix of `shape`: scaled as in the original work, or to match AdamW's root mean square."""
    rows, columns = shape[:2]
    if how is None or how == "original":
        return lr * math.sqrt(max(1, rows / columns))
    if how == "match_rms_adamw":
        return lr * (0.2 * math.sqrt(max(rows, columns)))
    return lr


class Muon(PerParameter):
    """Momentum whose updates are orthogonalised; for 2-d parameters of hidden layers."""

    _group_lists = ("momentum_buffer",)
    _complex_as_real = False

    def __init__(self, params, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
                 nesterov: bool = True, ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
                 eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None) -> None:
        check_lr_tensor(lr)
        check(0.0 <= lr, f"Learning rate should be >= 0 but is: {lr}")
        check(0.0 <= momentum, f"momentum should be >= 0 but is: {momentum}")
        check(0.0 <= weight_decay, f"weight decay should be >= 0 but is: {weight_decay}")
        check(adjust_lr_fn is None or adjust_lr_fn in ("original", "match_rms_adamw"),
              f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov,
                                      ns_coefficients=ns_coefficients, eps=eps, ns_steps=ns_steps,
                                      adjust_lr_fn=adjust_lr_fn))
        for group in self.param_groups:
            for p in group["params"]:
                check(p.ndim == 2, "Muon only supports 2D parameters whereas we found a parameter with size: "
                                   f"{p.size()}")

    def _gather(self, group):
        if any(p.grad is not None and p.is_complex() for p in group["params"]):
            raise RuntimeError("Muon does not support complex parameters")
        return super()._gather(group)

    def _init_state(self, p, grad, group):
        return {"momentum_buffer": zeros_like(grad)}

    @classmethod
    def _needed_lists(cls, group):
        return set(cls._group_lists)

    @classmethod
    def _updater(cls, group):
        lr, decay, momentum, nesterov = (group[k] for k in ("lr", "weight_decay", "momentum", "nesterov"))

        def update(p, grad, state):
            if grad.ndim != 2:
                raise ValueError("Param gradient must be a 2D matrix")
            buf = state["momentum_buffer"]
            buf.lerp_(grad, 1 - momentum)
            change = grad.lerp(buf, momentum) if nesterov else buf
            change = orthogonalize(change, group["ns_coefficients"], group["ns_steps"], group["eps"])
            p.mul_(1 - lr * decay)
            p.add_(change, alpha=-adjusted_rate(lr, group["adjust_lr_fn"], p.shape))

        return update


def muon(params: list, grads: list, muon_momentum_bufs: list, *, foreach: bool | None = None, lr: float,
         weight_decay: float, momentum: float, nesterov: bool, ns_coefficients: tuple[float, float, float],
         ns_steps: int, eps: float, adjust_lr_fn: str | None, has_complex: bool) -> None:
    """One update of lists of matrices in place."""
    if foreach:
        raise RuntimeError("Foreach is not supported for Muon yet")
    check(not has_complex, "Complex parameters are not supported")
    options = dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov,
                   ns_coefficients=ns_coefficients, eps=eps, ns_steps=ns_steps, adjust_lr_fn=adjust_lr_fn)
    Muon._update_lists(options, params, grads, momentum_buffer=muon_momentum_bufs)
