"""Gradient scaling on lists of tensors."""


def _amp_foreach_non_finite_check_and_unscale_(tensors, found_inf, inv_scale):
    """Multiplies gradients by `inv_scale`; `found_inf` becomes 1 if one of them is not finite."""
    for t in tensors:
        if not t.isfinite().all():
            found_inf.fill_(1.0)
        t.mul_(inv_scale.to(t.dtype))


def _amp_update_scale_(scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval):
    """Lowers the scale after an overflow, raises it after `growth_interval` steps without one."""
    if found_inf.item():
        scale.mul_(backoff_factor)
        growth_tracker.zero_()
        return scale
    steps = growth_tracker.item() + 1
    if steps == growth_interval:
        grown = scale * growth_factor
        if grown.isfinite():
            scale.copy_(grown)
        steps = 0
    growth_tracker.fill_(steps)
    return scale
