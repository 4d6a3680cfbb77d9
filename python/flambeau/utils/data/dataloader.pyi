# Made by scripts/stubs.
from builtins import bool as _bool, float as _float, int as _int
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar
from ..._C import Generator
from .dataset import Dataset
from .dataset import Dataset
from .sampler import Sampler

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
from ._utils.collate import default_collate as default_collate, default_convert as default_convert
from ._utils.worker import get_worker_info as get_worker_info
_T_co = TypeVar("_T_co", covariant=True)
class DataLoader(Generic[_T_co]):
    dataset: Dataset[_T_co]
    batch_sampler: Any
    collate_fn: Callable[[list[Any]], Any]
    worker_init_fn: Callable[[_int], Any] | None
    def __init__(self, dataset: Dataset[_T_co], batch_size: _int | None = 1, shuffle: _bool | None = None, sampler: Iterable[Any] | None = None, batch_sampler: Iterable[Sequence[Any]] | None = None, num_workers: _int = 0, collate_fn: Callable[[list[Any]], Any] | None = None, pin_memory: _bool = False, drop_last: _bool = False, timeout: _float = 0, worker_init_fn: Callable[[_int], Any] | None = None, multiprocessing_context: Any = None, generator: Generator | None = None, *, prefetch_factor: _int | None = None, persistent_workers: _bool = False, pin_memory_device: str = "", in_order: _bool = True) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...
    multiprocessing_context: Any
    def __len__(self) -> _int: ...
    def check_worker_number_rationality(self) -> None: ...
    batch_size: _int | None
    num_workers: _int
    pin_memory: _bool
    drop_last: _bool
    timeout: _float
    sampler: Sampler[Any]
    pin_memory_device: str
    prefetch_factor: _int | None
    in_order: _bool
    generator: Generator | None
    persistent_workers: _bool
class _DatasetKind:
    Map: _int
    Iterable: _int
    @staticmethod
    def create_fetcher(kind: Any, *how: Any) -> Any: ...
