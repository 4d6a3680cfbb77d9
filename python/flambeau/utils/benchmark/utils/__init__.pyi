# Made by scripts/stubs.

from . import common as common, compare as compare, timer as timer
