# Made by scripts/stubs.

from ._C import _LinAlgError as LinAlgError, Tensor as Tensor, linalg_vector_norm as vector_norm
