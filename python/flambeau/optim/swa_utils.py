"""Weight averaging: stochastic (SWA) and exponential (EMA)."""
from __future__ import annotations

import itertools
import math
import warnings
from copy import deepcopy

import flambeau as _fl
from flambeau.nn import Module
from flambeau.utils._foreach_utils import _group_tensors_by_device_and_dtype

from ._schedule.base import per_group, read
from .lr_scheduler import LRScheduler

__all__ = ["AveragedModel", "update_bn", "SWALR", "get_ema_multi_avg_fn", "get_swa_multi_avg_fn", "get_ema_avg_fn",
           "get_swa_avg_fn"]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _moves_by_lerp(tensors) -> bool:
    return _fl.is_floating_point(tensors[0]) or _fl.is_complex(tensors[0])


def get_ema_multi_avg_fn(decay=0.999):
    """``averaged = decay * averaged + (1 - decay) * current`` over lists of parameters."""
    _check_decay(decay)

    @_fl.no_grad()
    def ema_update(ema_param_list, current_param_list, _):
        if _moves_by_lerp(ema_param_list):
            _fl._foreach_lerp_(ema_param_list, current_param_list, 1 - decay)
            return
        for mean, now in zip(ema_param_list, current_param_list):
            mean.copy_(mean * decay + now * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn():
    """The equal average over lists of parameters."""

    @_fl.no_grad()
    def swa_update(averaged_param_list, current_param_list, num_averaged):
        count = num_averaged + 1
        if _moves_by_lerp(averaged_param_list):
            share = 1 / count
            _fl._foreach_lerp_(averaged_param_list, current_param_list,
                               share.item() if isinstance(share, _fl.Tensor) else share)
            return
        for mean, now in zip(averaged_param_list, current_param_list):
            mean.add_((now - mean) / count)

    return swa_update


def get_ema_avg_fn(decay=0.999):
    """``averaged = decay * averaged + (1 - decay) * current`` for one parameter."""
    _check_decay(decay)

    @_fl.no_grad()
    def ema_update(ema_param, current_param, num_averaged):
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn():
    """The equal average for one parameter."""

    @_fl.no_grad()
    def swa_update(averaged_param, current_param, num_averaged):
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of `model` whose parameters are averages over calls of `update_parameters`."""

    n_averaged: object

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False) -> None:
        super().__init__()
        assert avg_fn is None or multi_avg_fn is None, "Only one of avg_fn and multi_avg_fn should be provided"
        copy = deepcopy(model)
        self.module = copy if device is None else copy.to(device)
        self.register_buffer("n_averaged", _fl.tensor(0, dtype=_fl.long, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def update_parameters(self, model) -> None:
        """Average in the present parameters of `model`."""
        if self.use_buffers:
            own = itertools.chain(self.module.parameters(), self.module.buffers())
            new = itertools.chain(model.parameters(), model.buffers())
        else:
            own, new = self.parameters(), model.parameters()
        pairs = [(a.detach(), b.detach().to(a.device)) for a, b in zip(own, new)]
        count = self.n_averaged
        if count == 0:
            for a, b in pairs:
                a.copy_(b)
        elif self.multi_avg_fn is None:
            average = self.avg_fn or get_swa_avg_fn()
            for a, b in pairs:
                a.copy_(average(a, b, count.to(a.device)))
        else:
            groups = _group_tensors_by_device_and_dtype([list(side) for side in zip(*pairs)]) if pairs else {}
            for (device, _), ((ours, theirs), _) in groups.items():
                self.multi_avg_fn(ours, theirs, count.to(device))
        if not self.use_buffers:
            for a, b in zip(self.module.buffers(), model.buffers()):
                a.detach().copy_(b.detach().to(a.device))
        self.n_averaged += 1


@_fl.no_grad()
def update_bn(loader, model, device=None) -> None:
    """Recompute the running statistics of all batch-norm layers in one pass over `loader`."""
    layers = [(m, m.momentum) for m in model.modules() if isinstance(m, _fl.nn.modules.batchnorm._BatchNorm)]
    if not layers:
        return
    for layer, _ in layers:
        layer.reset_running_stats()
        layer.momentum = None  # a plain average over the batches
    mode = model.training
    model.train()
    for batch in loader:
        inputs = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(inputs if device is None else inputs.to(device))
    for layer, momentum in layers:
        layer.momentum = momentum
    model.train(mode)


class SWALR(LRScheduler):
    """Anneals the rates to `swa_lr` in `anneal_epochs` epochs and stays there."""

    def __init__(self, optimizer, swa_lr: float, anneal_epochs=10, anneal_strategy: str = "cos",
                 last_epoch=-1) -> None:
        for group, target in zip(optimizer.param_groups, per_group("swa_lr", optimizer, swa_lr)):
            group["swa_lr"] = target
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _cosine_anneal(t):
        return (1 - math.cos(math.pi * t)) / 2

    @staticmethod
    def _linear_anneal(t):
        return t

    @staticmethod
    def _get_initial_lr(lr, swa_lr, alpha):
        return swa_lr if alpha == 1 else (lr - alpha * swa_lr) / (1 - alpha)

    def _progress(self, step: int) -> float:
        """How far the annealing has gone at a step: 0 at the start, 1 from `anneal_epochs` on."""
        curve = self._cosine_anneal if self._anneal_strategy == "cos" else self._linear_anneal
        return curve(max(0, min(1, step / max(1, self.anneal_epochs))))

    def get_lr(self):
        if not self._get_lr_called_within_step:
            warnings.warn("To get the last learning rate computed by the scheduler, please use get_last_lr().",
                          UserWarning, stacklevel=2)
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._progress(step - 1), self._progress(step)
        targets = [group["swa_lr"] for group in self.optimizer.param_groups]
        return [target * now + self._get_initial_lr(rate, target, before) * (1 - now)
                for rate, target in zip(read(self.optimizer, "lr"), targets)]
