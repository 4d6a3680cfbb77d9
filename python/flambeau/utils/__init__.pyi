# Made by scripts/stubs.
from typing import Any

from . import (
    benchmark as benchmark, checkpoint as checkpoint, collect_env as collect_env, cpp_extension as cpp_extension,
    data as data, deterministic as deterministic, dlpack as dlpack, flop_counter as flop_counter, hooks as hooks,
    model_zoo as model_zoo, module_tracker as module_tracker, tensorboard as tensorboard, weak as weak,
)
def set_module(obj: Any, mod: Any) -> None: ...
def swap_tensors(t1: Any, t2: Any) -> Any: ...
