# Made by scripts/stubs.

from . import (
    checkpoint as checkpoint, data as data, dlpack as dlpack, hooks as hooks, model_zoo as model_zoo,
    tensorboard as tensorboard,
)
