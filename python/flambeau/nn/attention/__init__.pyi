# Made by scripts/stubs.
from builtins import bool as _bool
from typing import Any
from enum import IntEnum

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
from . import bias as bias, flex_attention as flex_attention
class SDPBackend(IntEnum):
    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4
WARN_FOR_UNFUSED_KERNELS: _bool
def activate_flash_attention_impl(impl: Any) -> Any: ...
def current_flash_attention_impl() -> Any: ...
def list_flash_attention_impls() -> Any: ...
def register_flash_attention_impl(impl: Any, *, register_fn: Any) -> Any: ...
def restore_flash_attention_impl(_raise_warn: _bool = True) -> Any: ...
def sdpa_kernel(backends: Any, set_priority: _bool = False) -> Any: ...
