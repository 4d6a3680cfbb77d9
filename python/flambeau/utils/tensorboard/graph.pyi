# Made by scripts/stubs.
from builtins import bool as _bool
from typing import Any

from ._record import message as message
def encode_nodes(nodes: Any) -> bytes: ...
def module_graph(model: Any, inputs: Any, verbose: _bool = False) -> bytes: ...
