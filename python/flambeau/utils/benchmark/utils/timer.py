"""Timing of statements."""
from .. import Timer, timer

__all__ = ["Timer", "timer"]
