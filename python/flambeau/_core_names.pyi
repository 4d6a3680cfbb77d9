# Made by scripts/stubs.
from typing import Any
from typing_extensions import Self
from enum import Enum

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class AcceleratorError(RuntimeError): ...
class DeviceObjType(_ScriptType):
    annotation_str: str
class DispatchKey(Enum):
    Undefined = 0
    CPU = 1
    CUDA = 2
    Meta = 3
    XPU = 4
    MPS = 5
    SparseCPU = 6
    QuantizedCPU = 7
    CompositeImplicitAutograd = 8
    CompositeExplicitAutograd = 9
    BackendSelect = 10
    Python = 11
    ADInplaceOrView = 12
    Autograd = 13
    AutogradCPU = 14
    AutogradCUDA = 15
    AutogradXPU = 16
    AutogradMeta = 17
    AutocastCPU = 18
    AutocastCUDA = 19
    AutocastXPU = 20
    AutocastMPS = 21
    FuncTorchBatched = 22
    Functionalize = 23
    PreDispatch = 24
class DispatchKeySet:
    def __init__(self, *keys: Any) -> None: ...
    def __or__(self, other: Any) -> Any: ...
    def __and__(self, other: Any) -> Any: ...
    def __sub__(self, other: Any) -> Any: ...
    def has(self, key: Any) -> Any: ...
    keys: Any
class ExcludeDispatchKeyGuard:
    def __init__(self, keys: Any) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: Any) -> None: ...
    devices: Any
    inner: Any
class FatalError(Exception): ...
class OutOfMemoryError(RuntimeError): ...
class TensorType(_ScriptType):
    annotation_str: str
    @classmethod
    def getInferred(cls) -> Any: ...
    @classmethod
    def create_from_tensor(cls, t: Any) -> Any: ...
class _ScriptType:
    annotation_str: str
    @classmethod
    def get(cls) -> Any: ...
    def kind(self) -> Any: ...
