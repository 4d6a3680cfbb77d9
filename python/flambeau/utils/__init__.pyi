# Made by scripts/stubs.

from . import (
    checkpoint as checkpoint, data as data, dlpack as dlpack, flop_counter as flop_counter, hooks as hooks,
    model_zoo as model_zoo, tensorboard as tensorboard,
)
