"""Running an optimiser on other tensors for a while."""
from __future__ import annotations

import contextlib
from collections import defaultdict

__all__ = ["swap_in_optimizer_params_and_state"]


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(optimizer, swapin_parameters, swapin_optim_state):
    """Put other parameters (in order) and a `state_dict`-shaped state into `optimizer`; put its own back at the end."""
    own_groups, own_state = optimizer.param_groups, optimizer.state
    tensors = list(swapin_parameters.values())
    saved_groups = swapin_optim_state["param_groups"]
    by_number = {}
    groups = []
    for own, saved in zip(own_groups, saved_groups):
        group = {**own, **{k: v for k, v in saved.items() if k != "params"}}
        for number in saved["params"]:
            by_number.setdefault(number, tensors[len(by_number)])
        group["params"] = [by_number[number] for number in saved["params"]]
        groups.append(group)
    state = defaultdict(dict)
    for key, value in swapin_optim_state["state"].items():
        state[by_number.get(key, key)] = dict(value) if isinstance(value, dict) else value
    optimizer.param_groups, optimizer.state = groups, state
    try:
        yield
    finally:
        optimizer.param_groups, optimizer.state = own_groups, own_state
