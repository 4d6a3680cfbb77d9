"""Measurements and how they are written."""
from .. import set_torch_threads
from ..measurement import Measurement, TaskSpec, ordered_unique, select_unit, trim_sigfig, unit_to_english

__all__ = ["Measurement", "TaskSpec", "ordered_unique", "select_unit", "set_torch_threads", "trim_sigfig", "unit_to_english"]
