"""RMSprop."""
from __future__ import annotations

from .optimizer import PerParameter, check, check_lr_tensor, decayed, new_step, zeros_like

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(PerParameter):
    """Steps divided by the running root mean square of the gradient, optionally centred, with momentum."""

    _complex_decay_first = True
    _rule = "rmsprop"
    _capturable_on_xla = True, True
    _group_lists = ("square_avg", "momentum_buffer", "grad_avg", "step")
    _group_defaults = dict(momentum=0, centered=False, foreach=None, maximize=False, differentiable=False,
                           capturable=False)

    def __init__(self, params, lr=1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
                 momentum: float = 0, centered: bool = False, capturable: bool = False,
                 foreach: bool | None = None, maximize: bool = False, differentiable: bool = False) -> None:
        check_lr_tensor(lr)
        check(0.0 <= lr, f"Invalid learning rate: {lr}")
        check(0.0 <= eps, f"Invalid epsilon value: {eps}")
        check(0.0 <= momentum, f"Invalid momentum value: {momentum}")
        check(0.0 <= weight_decay, f"Invalid weight_decay value: {weight_decay}")
        check(0.0 <= alpha, f"Invalid alpha value: {alpha}")
        super().__init__(params, dict(lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered,
                                      weight_decay=weight_decay, capturable=capturable, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable))

    def _init_state(self, p, grad, group):
        state = {"step": new_step(), "square_avg": zeros_like(p)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(p)
        if group["centered"]:
            state["grad_avg"] = zeros_like(p)
        return state

    @classmethod
    def _state_names(cls, group):
        return ("square_avg",) + ("grad_avg",) * bool(group["centered"]) + ("momentum_buffer",) * (group["momentum"] > 0)

    @classmethod
    def _numbers(cls, group, step, state):
        alpha, centered = group["alpha"], float(bool(group["centered"]))
        return group["weight_decay"], alpha, 1 - alpha, centered, group["eps"], group["momentum"], -group["lr"]

    @classmethod
    def _updater(cls, group):
        lr, alpha, eps, decay = group["lr"], group["alpha"], group["eps"], group["weight_decay"]
        momentum, centered, traced = group["momentum"], group["centered"], group["differentiable"]

        def update(p, grad, state):
            step, sq = state["step"], state["square_avg"]
            step += 1
            grad = decayed(p, grad, decay)
            sq.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
            if centered:
                mean = state["grad_avg"]
                mean.lerp_(grad, 1 - alpha)
                avg = sq.addcmul(mean, mean, value=-1).sqrt_()
            else:
                avg = sq.sqrt()
            avg = avg.add(eps) if traced else avg.add_(eps)
            if momentum > 0:
                buf = state["momentum_buffer"]
                buf.mul_(momentum).addcdiv_(grad, avg)
                p.add_(buf, alpha=-lr)
            else:
                p.addcdiv_(grad, avg, value=-lr)

        return update


def rmsprop(params: list, grads: list, square_avgs: list, grad_avgs: list, momentum_buffer_list: list,
            state_steps: list, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
            capturable: bool = False, has_complex: bool = False, *, lr: float, alpha: float, eps: float,
            weight_decay: float, momentum: float, centered: bool) -> None:
    """One update of lists of tensors in place; what `centered` and `momentum` need may be empty without them."""
    options = dict(lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered, weight_decay=weight_decay,
                   capturable=capturable, foreach=foreach, maximize=maximize, differentiable=differentiable)
    RMSprop._update_lists(options, params, grads, square_avg=square_avgs, grad_avg=grad_avgs,
                          momentum_buffer=momentum_buffer_list, step=state_steps)
