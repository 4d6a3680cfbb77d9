# Made by scripts/stubs.
from typing import Any
from ..._C import Tensor
from enum import IntEnum

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class CausalBias(Tensor):
    @staticmethod
    def __new__(cls: Any, variant: Any, seq_len_q: Any, seq_len_kv: Any) -> Any: ...
    def __init__(self, variant: Any, seq_len_q: Any, seq_len_kv: Any) -> None: ...
    variant: Any
    seq_len_q: Any
    seq_len_kv: Any
class CausalVariant(IntEnum):
    UPPER_LEFT = 1
    LOWER_RIGHT = 2
def causal_lower_right(*size: Any) -> Any: ...
def causal_upper_left(*size: Any) -> Any: ...
