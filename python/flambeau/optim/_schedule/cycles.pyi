# Made by scripts/stubs.
from builtins import bool as _bool
from ..lr_scheduler import LRScheduler

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class _Cycling(LRScheduler):
    cycle_momentum: _bool
    use_beta1: _bool
