# Made by scripts/stubs.
from builtins import bool as _bool
from typing import Any, NamedTuple
from .._C import Tensor

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class ArgsKwargsPair(NamedTuple):
    args: Any
    kwargs: Any
def get_signature_for_torch_op(op: Any, return_schemas: _bool = False) -> Any: ...
def normalize_function(target: Tensor, args: Any, kwargs: Any = None, arg_types: Any = None, kwarg_types: Any = None, normalize_to_only_use_kwargs: _bool = False) -> Any: ...
def normalize_module(root: Any, target: Tensor, args: Any, kwargs: Any = None, normalize_to_only_use_kwargs: _bool = False) -> Any: ...
