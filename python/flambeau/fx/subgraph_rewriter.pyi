# Made by scripts/stubs.
from builtins import bool as _bool
from typing import Any, NamedTuple
from .._C import Tensor

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class InternalMatch:
    def __init__(self, anchors: list[Any], nodes_map: dict[Any, Any] = ..., placeholder_nodes: list[Any] = ..., returning_nodes: list[Any] = ..., name_node_map: dict[Any, Any] = ...) -> None: ...
    anchors: list[Any]
    nodes_map: dict[Any, Any]
    placeholder_nodes: list[Any]
    returning_nodes: list[Any]
    name_node_map: dict[Any, Any]
class Match(NamedTuple):
    anchor: Any
    nodes_map: Any
class ReplacedPatterns:
    def __init__(self, anchor: Tensor, nodes_map: dict[Any, Any], replacements: list[Any]) -> None: ...
    anchor: Any
    nodes_map: dict[Any, Any]
    replacements: list[Any]
def replace_pattern(gm: Any, pattern: Any, replacement: Any) -> Any: ...
def replace_pattern_with_filters(gm: Any, pattern: Any, replacement: Any = None, match_filters: Any = None, ignore_literals: _bool = False, replacement_callback: Any = None, node_name_match: str = '') -> Any: ...
