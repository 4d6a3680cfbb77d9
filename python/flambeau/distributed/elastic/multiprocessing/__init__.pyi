# Made by scripts/stubs.

from . import errors as errors
