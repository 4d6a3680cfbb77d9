"""Apple's GPUs: this build drives none."""
from ._no_device import functions

globals().update(functions("mps", "MPS"))
