# Made by scripts/stubs.
from builtins import bool as _bool, float as _float, int as _int
from typing import Any
from ..._C import Tensor, _Device, _dtype
from .batchnorm import _LazyNormBase, _NormBase

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class InstanceNorm1d(_InstanceNorm): ...
class InstanceNorm2d(_InstanceNorm): ...
class InstanceNorm3d(_InstanceNorm): ...
class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    cls_to_become: Any
class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    cls_to_become: Any
class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    cls_to_become: Any
class _InstanceNorm(_NormBase):
    def __init__(self, num_features: _int, eps: _float = 1e-05, momentum: _float | None = 0.1, affine: _bool = False, track_running_stats: _bool = False, device: _Device | None = None, dtype: _dtype | None = None, *, bias: _bool = True) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...
