# Made by scripts/stubs.

from .. import Timer as Timer, timer as timer
