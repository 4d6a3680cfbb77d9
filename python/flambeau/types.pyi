# Made by scripts/stubs.
from typing import Any

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class BoolLikeType(int): ...
Device: Any
FileLike: Any
class FloatLikeType:
    fromhex: Any
    real: Any
    imag: Any
class IntLikeType:
    from_bytes: Any
    real: Any
    imag: Any
    numerator: Any
    denominator: Any
Number: Any
PySymType: Any
class Storage: ...
