"""L-BFGS with an optional line search after the strong Wolfe conditions."""
from __future__ import annotations

import flambeau as _fl

from ._wolfe import StrongWolfe, Trial, cubic_minimum
from .optimizer import Optimizer, check, check_lr_tensor

__all__ = ["LBFGS"]


def _real_vector(tensor):
    """All elements of a tensor, sparse or complex ones included, as real numbers in one dim."""
    dense = tensor.to_dense() if tensor.is_sparse else tensor
    return (_fl.view_as_real(dense) if dense.is_complex() else dense).reshape(-1)


def _remember(memory: dict, change, move, limit: int) -> None:
    """Note how the gradient changed over the last move, if that tells of a curvature, in place of the oldest pair."""
    curvature = change.dot(move)
    if curvature > 1e-10:
        for name, value in (("old_dirs", change), ("old_stps", move), ("ro", 1.0 / curvature)):
            kept = memory[name]
            if len(kept) == limit:
                del kept[0]
            kept.append(value)
        memory["H_diag"] = curvature / change.dot(change)


def _quasi_newton(memory: dict, grad, limit: int):
    """The direction: minus the gradient times the inverse Hessian that the remembered pairs imply."""
    pairs = list(zip(memory["old_dirs"], memory["old_stps"], memory["ro"]))
    weights = memory.setdefault("al", [None] * limit)
    result = grad.neg()
    for i in reversed(range(len(pairs))):
        change, move, inverse = pairs[i]
        weights[i] = move.dot(result) * inverse
        result.add_(change, alpha=-weights[i])
    result = result.mul(memory["H_diag"])
    for weight, (change, move, inverse) in zip(weights, pairs):
        result.add_(move, alpha=weight - change.dot(result) * inverse)
    return result


def _cubic_interpolate(x1, f1, g1, x2, f2, g2, bounds=None):
    """The minimiser of the cubic through two points with their slopes, within the bounds (else between them)."""
    return cubic_minimum(Trial(x1, f1, None, g1), Trial(x2, f2, None, g2), bounds)


def _strong_wolfe(obj_func, x, t, d, f, g, gtd, c1=1e-4, c2=0.9, tolerance_change=1e-9, max_ls=25):
    """Loss, gradient and length of a good step along `d`, and how often `obj_func(x, t, d)` was asked for the first two."""
    search = StrongWolfe(lambda step: obj_func(x, step, d), d, Trial(0, f, g, gtd), tolerance_change, max_ls)
    search.c1, search.c2 = c1, c2
    found = search.find(t)
    return found.loss, found.grad, found.step, search.evaluations


class LBFGS(Optimizer):
    """Limited-memory BFGS over one parameter group; `step` needs a closure."""

    def __init__(self, params, lr=1, max_iter: int = 20, max_eval: int | None = None, tolerance_grad: float = 1e-7,
                 tolerance_change: float = 1e-9, history_size: int = 100,
                 line_search_fn: str | None = None) -> None:
        check_lr_tensor(lr)
        check(0.0 <= lr, f"Invalid learning rate: {lr}")
        if max_eval is None:
            max_eval = max_iter * 5 // 4
        super().__init__(params, dict(lr=lr, max_iter=max_iter, max_eval=max_eval, tolerance_grad=tolerance_grad,
                                      tolerance_change=tolerance_change, history_size=history_size,
                                      line_search_fn=line_search_fn))
        check(len(self.param_groups) == 1, "LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]
        self._numel_cache = None

    def _numel(self) -> int:
        if self._numel_cache is None:
            self._numel_cache = sum(p.numel() * (1 + p.is_complex()) for p in self._params)
        return self._numel_cache

    def _gather_flat_grad(self):
        """All gradients in one vector."""
        return _fl.cat([_real_vector(_fl.zeros_like(p) if p.grad is None else p.grad) for p in self._params])

    def _add_grad(self, step_size, direction) -> None:
        """Move the parameters along a flat direction."""
        offset = 0
        for p in self._params:
            view = _fl.view_as_real(p) if p.is_complex() else p
            n = view.numel()
            view.add_(direction[offset:offset + n].view_as(view), alpha=step_size)
            offset += n
        assert offset == self._numel()

    def _clone_param(self):
        return [p.clone(memory_format=_fl.contiguous_format) for p in self._params]

    def _set_param(self, values) -> None:
        for p, value in zip(self._params, values):
            p.copy_(value)

    def _directional_evaluate(self, closure, x, t, d):
        """Loss and gradient at ``x + t * d``."""
        self._add_grad(t, d)
        loss = float(closure())
        grad = self._gather_flat_grad()
        self._set_param(x)
        return loss, grad

    def step(self, closure):
        """Up to `max_iter` iterations; `closure` clears the gradients, computes the loss and its gradients."""
        assert len(self.param_groups) == 1
        with _fl.no_grad():
            def evaluated():
                with _fl.enable_grad():
                    return closure()

            return self._run(evaluated)

    def _line_search(self, closure, step, direction, start: Trial, limit: int):
        """The trial that the search settles on after at most `limit` rounds, and how often it evaluated the closure."""
        origin = self._clone_param()
        search = StrongWolfe(lambda t: self._directional_evaluate(closure, origin, t, direction), direction, start,
                             limit=limit)
        return search.find(step), search.evaluations

    def _run(self, closure):
        group = self.param_groups[0]
        lr, limit, most = group["lr"], group["history_size"], group["max_iter"]
        method = group["line_search_fn"]
        state = self.state[self._params[0]]
        for count in ("func_evals", "n_iter"):
            state.setdefault(count, 0)

        first_loss = closure()
        loss, grad = float(first_loss), self._gather_flat_grad()
        state["func_evals"] += 1
        evaluations = 1
        if self._converged(grad):
            return first_loss
        for rounds in range(1, most + 1):
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                direction = grad.neg()
                state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
                step = min(1.0, 1.0 / grad.abs().sum()) * lr
            else:
                _remember(state, grad.sub(state["prev_flat_grad"]), state["d"].mul(state["t"]), limit)
                direction = _quasi_newton(state, grad, limit)
                step = lr
            before = loss
            state.update(d=direction, t=step, prev_flat_grad=grad.clone(), prev_loss=loss)
            slope = grad.dot(direction)
            if slope > -group["tolerance_change"]:
                break
            used = 0
            if method is not None:
                if method != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                start = Trial(0, loss, grad, slope)
                left = group["max_eval"] - evaluations
                (step, loss, grad, _), used = self._line_search(closure, step, direction, start, left)
                state["t"] = step
            self._add_grad(step, direction)
            if method is None and rounds != most:  # nothing would use the last one
                loss, grad, used = float(closure()), self._gather_flat_grad(), 1
            evaluations += used
            state["func_evals"] += used
            if evaluations >= group["max_eval"] or self._stalled(direction, step, loss - before):
                break
            if used and self._converged(grad):
                break
        return first_loss

    def _converged(self, grad) -> bool:
        return bool(grad.abs().max() <= self.param_groups[0]["tolerance_grad"])

    def _stalled(self, direction, step, gain) -> bool:
        least = self.param_groups[0]["tolerance_change"]
        return bool(direction.mul(step).abs().max() <= least) or abs(gain) < least
