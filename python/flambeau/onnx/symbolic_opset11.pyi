# Made by scripts/stubs.

