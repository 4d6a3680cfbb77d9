# Made by scripts/stubs.
from typing import Any
from .._C import Tensor, _Device
from enum import IntEnum

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class DLDeviceType(IntEnum):
    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17
def from_dlpack(ext_tensor: Any, *, device: _Device | None = None, copy: Any = None) -> Any: ...
def to_dlpack(tensor: Tensor) -> Any: ...
