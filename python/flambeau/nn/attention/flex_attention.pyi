# Made by scripts/stubs.
from builtins import bool as _bool, int as _int
from typing import Any, NamedTuple
from ..._C import _Device

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
from ._block_mask import BlockMask as BlockMask, noop_mask as noop_mask
class AuxOutput(NamedTuple):
    lse: Any
    max_scores: Any
class AuxRequest(NamedTuple):
    lse: Any
    max_scores: Any
class FlexKernelOptions(dict[Any, Any]):
    num_warps: _int
    num_stages: _int
    BLOCK_M: _int
    BLOCK_N: _int
    BLOCK_M1: _int
    BLOCK_N1: _int
    BLOCK_M2: _int
    BLOCK_N2: _int
    PRESCALE_QK: _bool
    ROWS_GUARANTEED_SAFE: _bool
    BLOCKS_ARE_CONTIGUOUS: _bool
    WRITE_DQ: _bool
    FORCE_USE_FLEX_ATTENTION: _bool
    USE_TMA: _bool
    kpack: _int
    matrix_instr_nonkdim: _int
    waves_per_eu: _int
    BACKEND: str
def and_masks(*mask_mods: Any) -> Any: ...
def create_block_mask(mask_mod: Any, B: Any, H: Any, Q_LEN: Any, KV_LEN: Any, device: _Device | None = None, BLOCK_SIZE: _int = 128, _compile: _bool = False, separate_full_blocks: _bool = True, compute_dq_write_order: _bool = False, dq_kv_order: _bool = True) -> Any: ...
def create_mask(mod_fn: Any, B: Any, H: Any, Q_LEN: Any, KV_LEN: Any, device: _Device | None = None) -> Any: ...
def flex_attention(query: Any, key: Any, value: Any, score_mod: Any = None, block_mask: Any = None, scale: Any = None, enable_gqa: _bool = False, return_lse: _bool = False, kernel_options: Any = None, *, return_aux: Any = None) -> Any: ...
def or_masks(*mask_mods: Any) -> Any: ...
