"""Modules as functions."""
from ..func import functional_call, stack_module_state

__all__ = ["functional_call", "stack_module_state"]
