# Made by scripts/stubs.

from . import windows as windows
