# Made by scripts/stubs.

from . import pass_base as pass_base
