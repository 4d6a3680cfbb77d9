"""Learning-rate schedules."""
from __future__ import annotations

from ._schedule.base import EPOCH_DEPRECATION_WARNING, LRScheduler, _enable_get_lr_call
from ._schedule.compose import ChainedScheduler, SequentialLR
from ._schedule.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from ._schedule.cycles import CyclicLR, OneCycleLR
from ._schedule.factors import (ConstantLR, ExponentialLR, LambdaLR, LinearLR, MultiplicativeLR, MultiStepLR,
                                PolynomialLR, StepLR)
from ._schedule.plateau import ReduceLROnPlateau

__all__ = ["LambdaLR", "MultiplicativeLR", "StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR",
           "SequentialLR", "CosineAnnealingLR", "ChainedScheduler", "ReduceLROnPlateau", "CyclicLR",
           "CosineAnnealingWarmRestarts", "OneCycleLR", "PolynomialLR", "LRScheduler"]

_LRScheduler = LRScheduler  # the name that it had once

for _name in __all__:  # classes are pickled and shown under their public home
    globals()[_name].__module__ = __name__
