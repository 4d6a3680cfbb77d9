# Made by scripts/stubs.

from . import (
    adadelta as adadelta, adagrad as adagrad, adam as adam, adamax as adamax, adamw as adamw, asgd as asgd,
    lbfgs as lbfgs, lr_scheduler as lr_scheduler, nadam as nadam, optimizer as optimizer, radam as radam,
    rmsprop as rmsprop, rprop as rprop, sgd as sgd, sparse_adam as sparse_adam, swa_utils as swa_utils,
)
from .._names import under_own_name as under_own_name
from ._adafactor import Adafactor as Adafactor
from ._muon import Muon as Muon
from ._swap import swap_in_optimizer_params_and_state as swap_in_optimizer_params_and_state
from .adadelta import Adadelta as Adadelta
from .adagrad import Adagrad as Adagrad
from .adam import Adam as Adam
from .adamax import Adamax as Adamax
from .adamw import AdamW as AdamW
from .asgd import ASGD as ASGD
from .lbfgs import LBFGS as LBFGS
from .nadam import NAdam as NAdam
from .optimizer import Optimizer as Optimizer
from .radam import RAdam as RAdam
from .rmsprop import RMSprop as RMSprop
from .rprop import Rprop as Rprop
from .sgd import SGD as SGD
from .sparse_adam import SparseAdam as SparseAdam
