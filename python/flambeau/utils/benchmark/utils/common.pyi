# Made by scripts/stubs.

from .. import set_torch_threads as set_torch_threads
from ..measurement import (
    Measurement as Measurement, TaskSpec as TaskSpec, ordered_unique as ordered_unique, select_unit as select_unit,
    trim_sigfig as trim_sigfig, unit_to_english as unit_to_english,
)
