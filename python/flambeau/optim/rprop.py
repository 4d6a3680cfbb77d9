"""Rprop."""
from __future__ import annotations

import flambeau as _fl

from .optimizer import PerParameter, check, check_lr_tensor, new_step, zeros_like

__all__ = ["Rprop", "rprop"]


class Rprop(PerParameter):
    """Resilient backpropagation: a step size per weight from the signs of its gradients."""

    _rule = "rprop"
    _capturable_on_xla = True, True
    _group_lists = ("prev", "step_size", "step")
    _group_defaults = dict(foreach=None, maximize=False, differentiable=False, capturable=False)

    def __init__(self, params, lr=1e-2, etas: tuple[float, float] = (0.5, 1.2),
                 step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False,
                 foreach: bool | None = None, maximize: bool = False, differentiable: bool = False) -> None:
        check_lr_tensor(lr)
        check(0.0 <= lr, f"Invalid learning rate: {lr}")
        check(0.0 < etas[0] < 1.0 < etas[1], f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, dict(lr=lr, etas=etas, step_sizes=step_sizes, foreach=foreach, maximize=maximize,
                                      differentiable=differentiable, capturable=capturable))

    def _init_state(self, p, grad, group):
        lr = group["lr"]
        return {"step": new_step(), "prev": zeros_like(p),
                "step_size": _fl.full_like(grad, complex(lr, lr) if p.dtype.is_complex else lr)}

    @classmethod
    def _state_names(cls, group):
        return "prev", "step_size"

    @classmethod
    def _numbers(cls, group, step, state):
        return (*group["etas"], *group["step_sizes"])

    @classmethod
    def _updater(cls, group):
        (down, up), (smallest, largest) = group["etas"], group["step_sizes"]
        traced = group["differentiable"]

        def update(p, grad, state):
            step, prev, size = state["step"], state["prev"], state["step_size"]
            step += 1
            agreement = grad.mul(prev.clone() if traced else prev).sign()
            turned = agreement < 0
            factor = _fl.ones_like(agreement).masked_fill_(agreement > 0, up).masked_fill_(turned, down)
            size.mul_(factor).clamp_(smallest, largest)
            grad = grad.masked_fill(turned, 0)
            p.addcmul_(grad.sign(), size, value=-1)
            prev.copy_(grad)

        return update


def rprop(params: list, grads: list, prevs: list, step_sizes: list, state_steps: list, foreach: bool | None = None,
          capturable: bool = False, maximize: bool = False, differentiable: bool = False, has_complex: bool = False, *,
          step_size_min: float, step_size_max: float, etaminus: float, etaplus: float) -> None:
    """One update of lists of tensors in place."""
    options = dict(etas=(etaminus, etaplus), step_sizes=(step_size_min, step_size_max), foreach=foreach,
                   maximize=maximize, differentiable=differentiable, capturable=capturable)
    Rprop._update_lists(options, params, grads, prev=prevs, step_size=step_sizes, step=state_steps)
