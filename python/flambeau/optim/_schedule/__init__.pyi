# Made by scripts/stubs.

from . import (
    base as base, compose as compose, cosine as cosine, cycles as cycles, factors as factors, plateau as plateau,
)
