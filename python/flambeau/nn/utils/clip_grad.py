"""Limiting the size of gradients."""
import types
import warnings

from ... import _C

__all__ = ["clip_grad_norm_", "clip_grad_norm", "clip_grad_value_"]


def _as_list(tensors):
    return [tensors] if isinstance(tensors, _C.Tensor) else list(tensors)


def _by_device(tensors):
    """The tensors of each device and dtype: what one fused operator can take."""
    groups = {}
    for t in tensors:
        groups.setdefault((t.device, t.dtype), []).append(t)
    return groups.values()


def _get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all tensors as if they were one vector."""
    with _C.no_grad():
        tensors = _as_list(tensors)
        norm_type = float(norm_type)
        if len(tensors) == 0:
            return _C.tensor(0.0)
        if foreach is False:
            norms = [_C.linalg.vector_norm(t, norm_type) for t in tensors]
        else:
            norms = [norm for group in _by_device(tensors) for norm in _C._foreach_norm(group, norm_type)]
        home = tensors[0].device
        total = _C.linalg.vector_norm(_C.stack([norm.to(home) for norm in norms]), norm_type)
        if error_if_nonfinite and not total.isfinite():
            raise RuntimeError(
                f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be clipped. "
                "To disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
            )
        return total


def _clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scale the gradients so that `total_norm` becomes at most `max_norm`."""
    with _C.no_grad():
        grads = [p.grad for p in _as_list(parameters) if p.grad is not None]
        if len(grads) == 0:
            return
        # Multiplying by 1 is cheaper than asking whether it is 1.
        factor = _C.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
        if foreach is False:
            for g in grads:
                g.mul_(factor.to(g.device))
        else:
            for group in _by_device(grads):
                _C._foreach_mul_(group, factor.to(group[0].device))


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scale the gradients so that their norm, all together, is at most `max_norm`; returns the norm before."""
    generator = isinstance(parameters, types.GeneratorType)
    parameters = _as_list(parameters)
    if generator and len(parameters) == 0:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3)
    max_norm = float(max_norm)
    grads = [p.grad for p in parameters if p.grad is not None]
    total_norm = _get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    _clip_grads_with_norm_(parameters, max_norm, total_norm, foreach)
    return total_norm


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Deprecated: `clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Cut every element of the gradients to [-clip_value, clip_value]."""
    with _C.no_grad():
        clip_value = float(clip_value)
        grads = [p.grad for p in _as_list(parameters) if p.grad is not None]
        if foreach is False:
            for g in grads:
                g.clamp_(min=-clip_value, max=clip_value)
        else:
            for group in _by_device(grads):
                _C._foreach_clamp_min_(group, -clip_value)
                _C._foreach_clamp_max_(group, clip_value)
