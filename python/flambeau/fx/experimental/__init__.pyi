# Made by scripts/stubs.

from . import proxy_tensor as proxy_tensor, symbolic_shapes as symbolic_shapes
