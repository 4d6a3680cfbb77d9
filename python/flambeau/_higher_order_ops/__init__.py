"""Operators that take functions, run eagerly."""
from .._control import cond, while_loop
from .associative_scan import associative_scan

__all__ = ["associative_scan", "cond", "while_loop"]
