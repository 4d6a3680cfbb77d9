# Made by scripts/stubs.
from builtins import float as _float
from ..lr_scheduler import LRScheduler

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class _Cosine(LRScheduler):
    eta_min: _float
