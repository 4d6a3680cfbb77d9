"""Attention whose scores a function changes or masks, computed with plain operators.

Gradients flow on every device, and the largest scores can be asked for: PyTorch offers both on its GPUs only.
"""
import inspect
import math
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, TypedDict

from ... import _C, vmap
from ..._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from ._block_mask import BlockMask, block_counts, noop_mask, pair, partial_and_full

__all__ = ["BlockMask", "flex_attention", "AuxOutput", "AuxRequest", "FlexKernelOptions", "create_block_mask", "create_mask",
           "or_masks", "and_masks", "noop_mask"]  # fmt: skip

# A function of the score and its batch, head, query and key; and one of the last four.
_score_mod_signature = Callable[[_C.Tensor, _C.Tensor, _C.Tensor, _C.Tensor, _C.Tensor], _C.Tensor]
_mask_mod_signature = Callable[[_C.Tensor, _C.Tensor, _C.Tensor, _C.Tensor], _C.Tensor]
_DEFAULT_SPARSE_BLOCK_SIZE = 128
_LARGE_SPARSE_BLOCK_SIZE = 1 << 30


class AuxRequest(NamedTuple):
    """Which further results `flex_attention` returns."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The further results that were asked for."""

    lse: _C.Tensor | None = None
    max_scores: _C.Tensor | None = None


class FlexKernelOptions(TypedDict, total=False):
    """Settings of PyTorch's GPU kernels: accepted, and without effect."""

    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int
    BLOCK_M1: int
    BLOCK_N1: int
    BLOCK_M2: int
    BLOCK_N2: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    FORCE_USE_FLEX_ATTENTION: bool
    USE_TMA: bool
    kpack: int
    matrix_instr_nonkdim: int
    waves_per_eu: int
    BACKEND: str


class _ModificationType(Enum):
    SCORE_MOD = 1
    MASK_MOD = 2
    UNKNOWN = 3


def _get_mod_type(fn):
    """Whether a function changes scores (five arguments) or masks (four)."""
    given = inspect.signature(fn).parameters.values()
    count = sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in given)
    if count == 5:
        return _ModificationType.SCORE_MOD
    return _ModificationType.MASK_MOD if count == 4 else _ModificationType.UNKNOWN


def _vmap_for_bhqkv(fn, prefix):
    """`fn` mapped over batch, head, query and key indices, which come after other arguments."""
    for place in (3, 2, 1, 0):
        fn = vmap(fn, (*prefix, *(0 if i == place else None for i in range(4))))
    return fn


def _indices(sizes, device):
    return [_C.arange(size, device=device) for size in sizes]


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device=None):
    """The mask, or the changed scores of zero, for every index: a tensor of shape (B, H, Q_LEN, KV_LEN)."""
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    kind = _get_mod_type(mod_fn)
    if kind is _ModificationType.UNKNOWN:
        raise AssertionError(f"Expected 4 or 5 positional args, got {len(inspect.signature(mod_fn).parameters)}")
    with TransformGetItemToIndex():
        if kind is _ModificationType.MASK_MOD:
            return _vmap_for_bhqkv(mod_fn, ())(*_indices(sizes, device))
        return _changed(mod_fn, _C.zeros(sizes, device=device))


def _changed(score_mod, scores):
    with TransformGetItemToIndex():
        return _vmap_for_bhqkv(score_mod, (0,))(scores, *_indices(scores.shape, scores.device))


def create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN, device=None, BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE, _compile=False,
                      separate_full_blocks=True, compute_dq_write_order=False, dq_kv_order=True):  # fmt: skip
    """The blocks of a mask that have something in them; the orders that only GPU kernels read are not computed."""
    kind = _get_mod_type(mask_mod)
    if kind is not _ModificationType.MASK_MOD:
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    sizes = pair(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    partial, full = partial_and_full(mask, sizes, separate_full_blocks)
    num, where = block_counts(partial)
    full_num, full_where = (None, None) if full is None else block_counts(full)
    return BlockMask.from_kv_blocks(num, where, full_num, full_where, sizes, mask_mod, (Q_LEN, KV_LEN))


def _create_empty_block_mask(query, key):
    """One block over everything."""
    ones = _C.ones(1, 1, 1, dtype=_C.int32, device=query.device)
    return BlockMask.from_kv_blocks(
        ones, ones.new_zeros(1, 1, 1, 1), BLOCK_SIZE=_LARGE_SPARSE_BLOCK_SIZE, seq_lengths=(1, 1)
    )


def _joined(mask_mods, start, join):
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def mask(b, h, q_idx, kv_idx):
        result = b.new_full((), start, dtype=_C.bool)
        for mod in mask_mods:
            result = join(result, mod(b, h, q_idx, kv_idx))
        return result

    return mask


def or_masks(*mask_mods):
    """A mask that holds where one of these holds."""
    return _joined(mask_mods, False, lambda a, b: a | b)


def and_masks(*mask_mods):
    """A mask that holds where all of these hold."""
    return _joined(mask_mods, True, lambda a, b: a & b)


def _check(query, key, value, block_mask, enable_gqa):
    if any(t.dim() != 4 for t in (query, key, value)):
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"Expect query and key/value to have the same embedding dimension but got E={query.shape[-1]} and "
            f"E={key.shape[-1]}."
        )
    heads, shared = query.shape[1], key.shape[1]
    if not enable_gqa and heads != shared:
        raise ValueError(
            "Expect query and key/value to have the same number of heads "
            f"but got Hq={heads} and Hkv={shared}. Try setting enable_gqa=True for GQA."
        )
    if enable_gqa and heads % shared:
        raise ValueError(
            "Expect number of query heads to be a multiple of kv heads for GQA "
            f"but got Hq={heads} and Hkv={shared}."
        )
    if query.shape[0] != key.shape[0] and (block_mask is None or key.shape[0] != 1):
        raise ValueError(
            "Expect query and key/value to have the same batch size, or non-none block_mask, "
            f"but got block_mask={block_mask}, Bq={query.shape[0]}, and Bkv={key.shape[0]}."
        )


def _check_lengths(block_mask, q_len, kv_len):
    there_q, there_kv = block_mask.shape[-2:]
    if block_mask.BLOCK_SIZE[0] == _LARGE_SPARSE_BLOCK_SIZE or (there_q, there_kv) == (q_len, kv_len):
        return
    text = f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={q_len} and kv_len={kv_len}. "
    if q_len > there_q or kv_len > there_kv:
        raise ValueError(
            text + "As the block mask was created for a smaller length than you're using it for, "
            "you likely need to create a new block mask."
        )
    raise ValueError(
        text + "As the block mask was created for a larger length than you're using it for, you can either 1. create a new "
        "block mask with the correct length, or 2. 'adjust' the existing block mask to the correct length by calling "
        "block_mask._adjust(q_len, kv_len). This essentially 'crops' the block mask to the upper left corner, which does "
        "not work for all mask_mods!"
    )


def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False,
                   kernel_options=None, *, return_aux=None):  # fmt: skip
    """Scaled dot-product attention; `score_mod(score, b, h, q, k)` changes each score, and masked ones do not count."""
    if return_lse and return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. return_lse is deprecated, "
            "please use return_aux=AuxRequest(lse=True) instead."
        )
    _check(query, key, value, block_mask, enable_gqa)
    if block_mask is not None:
        _check_lengths(block_mask, query.shape[-2], key.shape[-2])
    repeats = query.shape[1] // key.shape[1]
    if repeats > 1:
        key, value = (t.repeat_interleave(repeats, dim=1) for t in (key, value))
    working = _C.float64 if query.dtype == _C.float64 else _C.float32
    scores = query.matmul(key.transpose(-2, -1)).to(working)
    scores = scores * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if score_mod is not None:
        scores = _changed(score_mod, scores).to(working)
    if block_mask is not None:
        allowed = create_mask(block_mask.mask_mod, *scores.shape, device=query.device)
        scores = scores.masked_fill(~allowed, -math.inf)
    largest = scores.amax(-1)
    # A row without allowed keys gives zeros, where a softmax would give NaN.
    empty = (largest == -math.inf).unsqueeze(-1)
    weights = scores.masked_fill(empty, 0).softmax(-1).masked_fill(empty, 0)
    result = weights.to(query.dtype).matmul(value)
    if return_lse:
        return result, scores.logsumexp(-1)
    if return_aux is not None:
        return result, AuxOutput(
            scores.logsumexp(-1) if return_aux.lse else None, largest if return_aux.max_scores else None
        )
    return result
