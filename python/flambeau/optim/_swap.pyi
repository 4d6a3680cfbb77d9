# Made by scripts/stubs.
from typing import Any
from .optimizer import Optimizer

def swap_in_optimizer_params_and_state(optimizer: Optimizer, swapin_parameters: Any, swapin_optim_state: Any) -> Any: ...
