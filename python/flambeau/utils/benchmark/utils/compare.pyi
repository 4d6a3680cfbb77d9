# Made by scripts/stubs.

from ..compare import Compare as Compare
