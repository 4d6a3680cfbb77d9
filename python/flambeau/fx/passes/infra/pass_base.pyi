# Made by scripts/stubs.
from typing import Any, NamedTuple
from abc import ABC

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class PassBase(ABC):
    def __call__(self, graph_module: Any) -> Any: ...
    def call(self, graph_module: Any) -> Any: ...
    def requires(self, graph_module: Any) -> Any: ...
    def ensures(self, graph_module: Any) -> Any: ...
class PassResult(NamedTuple):
    graph_module: Any
    modified: Any
