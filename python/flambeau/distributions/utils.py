"""Helpers shared by the distributions."""
import math
from functools import update_wrapper
from numbers import Number

import flambeau as fl

__all__ = [
    "broadcast_all", "logits_to_probs", "clamp_probs", "probs_to_logits", "lazy_property", "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]  # fmt: skip

euler_constant = 0.57721566490153286060


def _is_tensor_like(x):
    return isinstance(x, fl.Tensor) or hasattr(type(x), "__torch_function__")


def broadcast_all(*values):
    """Broadcasts numbers and tensors together; numbers take the dtype and device of the first tensor."""
    plain = [v for v in values if not _is_tensor_like(v)]
    if not all(isinstance(v, Number) for v in plain):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    if plain:
        leader = next((v for v in values if isinstance(v, fl.Tensor)), None)
        kind = {"dtype": fl.get_default_dtype()} if leader is None else _kind(leader)
        values = (v if _is_tensor_like(v) else fl.tensor(v, **kind) for v in values)
    return fl.broadcast_tensors(*values)


def _kind(tensor):
    """The dtype and device of a tensor, as keyword arguments."""
    return {"dtype": tensor.dtype, "device": tensor.device}


def _standard_normal(shape, dtype, device):
    return fl.randn(shape, dtype=dtype, device=device)


def _sum_rightmost(value, dim):
    """Sums out the `dim` rightmost dimensions."""
    return value if dim == 0 else value.reshape(value.shape[: value.dim() - dim] + (-1,)).sum(-1)


def logits_to_probs(logits, is_binary=False):
    """Probabilities from log-odds, or from unnormalized log probabilities over the last dimension."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def clamp_probs(probs):
    """Probabilities moved into the open interval (0, 1)."""
    gap = fl.finfo(probs.dtype).eps
    return probs.clamp(gap, 1 - gap)


def probs_to_logits(probs, is_binary=False):
    """Logits of probabilities: log-odds, or log probabilities over the last dimension."""
    inner = clamp_probs(probs)
    return inner.log() - (-inner).log1p() if is_binary else inner.log()


class lazy_property:
    """An attribute computed when first read, and kept; seen from the class it is the descriptor itself."""

    def __init__(self, wrapped):
        update_wrapper(self, wrapped)
        self.wrapped = wrapped

    def __set_name__(self, owner, name):
        self._slot = name

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        slot = getattr(self, "_slot", self.wrapped.__name__)
        with fl.enable_grad():
            return vars(instance).setdefault(slot, self.wrapped(instance))


def _triangle_size(count, diag):
    """n such that n x n matrices have `count` entries on and below diagonal `diag`; None if there is none."""
    # below the main diagonal that is a triangle of n + diag rows; above it, a square with a corner cut off
    corner = diag * (diag + 1) if diag > 0 else 0
    linear = 1 + 2 * diag if diag > 0 else 1
    root = math.isqrt(linear**2 + 4 * corner + 8 * count)
    twice = root - linear - (2 * diag if diag < 0 else 0)
    exact = root**2 == linear**2 + 4 * corner + 8 * count
    return twice // 2 if exact and twice % 2 == 0 else None


def vec_to_tril_matrix(vec, diag=0):
    """Packs (..., N(N+1)/2) values row by row into the lower triangle of (..., N, N) matrices."""
    n = _triangle_size(vec.shape[-1], diag)
    if n is None:
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower triangular part of "
            "a square D x D matrix."
        )
    full = vec.new_zeros(vec.shape[:-1] + (n, n))
    full[(..., *fl.tril_indices(n, n, diag, device=vec.device))] = vec
    return full


def tril_matrix_to_vec(mat, diag=0):
    """The lower triangle of (..., N, N) matrices as (..., N(N+1)/2) values, row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat[(..., *fl.tril_indices(n, n, diag, device=mat.device))]
