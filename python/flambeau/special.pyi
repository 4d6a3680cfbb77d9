# Made by scripts/stubs.

from ._C import (
    Tensor as Tensor, special_entr as entr, special_erfcx as erfcx, special_i0e as i0e, special_i1 as i1,
    special_i1e as i1e, special_log_ndtr as log_ndtr, special_ndtr as ndtr, special_ndtri as ndtri,
    special_xlog1py as xlog1py,
)
