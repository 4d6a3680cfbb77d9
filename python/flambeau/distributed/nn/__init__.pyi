# Made by scripts/stubs.
from typing import Any

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
from . import functional as functional
from .. import (
    all_gather as all_gather, all_reduce as all_reduce, all_to_all as all_to_all,
    all_to_all_single as all_to_all_single, broadcast as broadcast, gather as gather,
    init_process_group as init_process_group, reduce as reduce, reduce_scatter as reduce_scatter, scatter as scatter,
)
from ...nn.modules.module import Module as Module
class RemoteModule(Module):
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
