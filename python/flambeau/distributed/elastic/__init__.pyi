# Made by scripts/stubs.

from . import multiprocessing as multiprocessing
