"""Optimisers, learning-rate schedules and weight averaging."""
from __future__ import annotations

from .._names import under_own_name
from ._adafactor import Adafactor
from ._muon import Muon
from ._swap import swap_in_optimizer_params_and_state
from .adadelta import Adadelta
from .adagrad import Adagrad
from .adam import Adam
from .adamax import Adamax
from .adamw import AdamW
from .asgd import ASGD
from .lbfgs import LBFGS
from .nadam import NAdam
from .optimizer import Optimizer
from .radam import RAdam
from .rmsprop import RMSprop
from .rprop import Rprop
from .sgd import SGD
from .sparse_adam import SparseAdam

__all__ = ["ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam",
           "Optimizer", "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam", "lr_scheduler", "swa_utils",
           "swap_in_optimizer_params_and_state"]

for _class in (ASGD, Adadelta, Adafactor, Adagrad, Adam, Adamax, Muon, NAdam, RAdam, RMSprop, Rprop, SGD, SparseAdam):
    under_own_name(_class, "step")
del _class


def __getattr__(name):
    if name in ("lr_scheduler", "swa_utils"):  # imported when first used
        import importlib

        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'torch.optim' has no attribute '{name}'")
