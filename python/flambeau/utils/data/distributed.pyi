# Made by scripts/stubs.
from builtins import bool as _bool, int as _int
from collections.abc import Iterator, Sized
from typing import Any
from .sampler import Sampler

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class DistributedSampler(Sampler[_int]):
    def __init__(self, dataset: Sized, num_replicas: _int | None = None, rank: _int | None = None, shuffle: _bool = True, seed: _int = 0, drop_last: _bool = False) -> None: ...
    def __iter__(self) -> Iterator[_int]: ...
    def __len__(self) -> _int: ...
    def set_epoch(self, epoch: _int) -> None: ...
    dataset: Sized
    num_replicas: _int | None
    rank: _int | None
    epoch: Any
    drop_last: _bool
    total_size: Any
    shuffle: _bool
    seed: _int
    num_samples: Any
