"""Meta's accelerators: this build drives none."""
from ._no_device import functions

globals().update(functions("mtia", "MTIA"))
