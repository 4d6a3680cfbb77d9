# Made by scripts/stubs.

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class TorchVersion(str): ...
