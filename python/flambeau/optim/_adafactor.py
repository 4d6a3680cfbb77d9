"""Adafactor."""
from __future__ import annotations

import flambeau as _fl

from .optimizer import PerParameter, check, check_lr_tensor, new_step, value_of, zeros_like

__all__ = ["Adafactor", "adafactor"]


class Adafactor(PerParameter):
    """Adaptive steps with the second moment of a matrix factored into a row and a column."""

    _scaling_message = "Grad scaling should occur outside of optimizer.step()"
    _steps_message = "`state_steps` argument must contain a list of singleton tensors"
    _lists_have_gaps = True
    _group_lists = ("row_var", "col_var", "variance", "step")
    _group_defaults = dict(foreach=None)
    _complex_as_real = False

    def __init__(self, params, lr=1e-2, beta2_decay: float = -0.8, eps: tuple[float | None, float] = (None, 1e-3),
                 d: float = 1.0, weight_decay: float = 0.0, *, foreach: bool | None = None,
                 maximize: bool = False) -> None:
        check_lr_tensor(lr)
        check(0.0 <= lr, f"Learning rate should be >= 0 but is: {lr}")
        check(beta2_decay <= 0.0, f"beta2_decay should be <= 0 but is: {beta2_decay}")
        check(eps[0] is None or 0.0 <= eps[0], f"epsilon1 should be >= 0 but is: {eps[0]}")
        check(0.0 <= eps[1], f"epsilon2 should be >= 0 but is: {eps[1]}")
        check(1.0 <= d, f"Clipping threshold d should be >= 1 but is: {d}")
        check(0.0 <= weight_decay, f"weight_decay should be >= 0 but is: {weight_decay}")
        super().__init__(params, dict(lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay,
                                      foreach=foreach, maximize=maximize))

    def _gather(self, group):
        if any(p.grad is not None and p.is_complex() for p in group["params"]):
            raise RuntimeError("Adafactor does not support complex parameters")
        return super()._gather(group)

    def _init_state(self, p, grad, group):
        state = {"step": new_step()}
        if grad.dim() > 1:
            rows, columns = list(grad.shape), list(grad.shape)
            rows[-1], columns[-2] = 1, 1
            state["row_var"], state["col_var"] = grad.new_zeros(rows), grad.new_zeros(columns)
        else:
            state["variance"] = zeros_like(grad)
        return state

    @classmethod
    def _needed_lists(cls, group):
        return set(cls._group_lists)

    @classmethod
    def _updater(cls, group):
        lr, beta2_decay, (eps1, eps2), d, decay = (
            group[k] for k in ("lr", "beta2_decay", "eps", "d", "weight_decay"))

        def update(p, grad, state):
            tiny = _fl.finfo(p.dtype).eps if eps1 is None else eps1
            state["step"] += 1
            n = state["step"].item()
            size = max(eps2, _root_mean_square(p)) * min(lr, 1 / n**0.5)
            if decay != 0:
                p.mul_(1 - lr * decay)
            second = _factored if grad.dim() > 1 else _whole
            change = second(state, grad, n**beta2_decay, tiny).clamp_(min=tiny * tiny).rsqrt_().mul_(grad)
            p.add_(change, alpha=value_of(-size / max(1.0, _root_mean_square(change, d))))

        return update


def _root_mean_square(tensor, scale: float = 1.0) -> float:
    return tensor.norm(2).item() / (tensor.numel() ** 0.5 * scale)


def _whole(state, grad, share: float, tiny: float):
    """The second moment of a vector."""
    return state["variance"].lerp_(grad * grad, share).clone()


def _factored(state, grad, share: float, tiny: float):
    """The second moment of a matrix, as the product of the running means of its rows and its columns."""
    for name, dim in (("row_var", -1), ("col_var", -2)):
        mean = _fl.norm(grad, dim=dim, keepdim=True).square_().div_(grad.size(dim))
        state[name].lerp_(mean, share)
    rows = state["row_var"]
    return (rows @ state["col_var"]).div_(rows.mean(dim=-2, keepdim=True).clamp_(min=tiny))


def adafactor(params: list, grads: list, row_vars: list, col_vars: list, variances: list, state_steps: list,
              foreach: bool | None = None, grad_scale=None, found_inf=None, has_complex: bool = False, *, d: float, lr,
              beta2_decay: float, weight_decay: float, eps1: float | None, eps2: float, maximize: bool) -> None:
    """One update of lists of tensors in place: `row_vars` and `col_vars` are for matrices, `variances` for vectors."""
    options = dict(lr=lr, beta2_decay=beta2_decay, eps=(eps1, eps2), d=d, weight_decay=weight_decay, foreach=foreach,
                   maximize=maximize)
    Adafactor._update_lists(options, params, grads, grad_scale, found_inf, row_var=row_vars, col_var=col_vars,
                            variance=variances, step=state_steps)
