"""Optimisers as functions of lists of tensors, which they update in place."""
from __future__ import annotations

from .adadelta import adadelta
from .adagrad import _make_sparse, adagrad
from .adam import adam
from .adamax import adamax
from .adamw import adamw
from .asgd import asgd
from .nadam import nadam
from .radam import radam
from .rmsprop import rmsprop
from .rprop import rprop
from .sgd import sgd
from .sparse_adam import SparseAdam

__all__ = []


def sparse_adam(params: list, grads: list, exp_avgs: list, exp_avg_sqs: list, state_steps: list, *, eps: float,
                beta1: float, beta2: float, lr: float, maximize: bool) -> None:
    """One update in place where the sparse gradients have entries; `state_steps` are numbers, counted by the caller."""
    options = dict(lr=lr, betas=(beta1, beta2), eps=eps, maximize=maximize)
    SparseAdam._update_lists(options, params, grads, exp_avg=exp_avgs, exp_avg_sq=exp_avg_sqs, step=state_steps)
