# Made by scripts/stubs.

from ._C import Tensor as Tensor
