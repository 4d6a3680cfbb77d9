from .dataset import Dataset

_T_co = TypeVar("_T_co", covariant=True)

class DataLoader(Generic[_T_co]):
    dataset: Dataset[_T_co]
    batch_sampler: Any
    collate_fn: Callable[[list[Any]], Any]
    worker_init_fn: Callable[[_int], Any] | None
    def __init__(self, dataset: Dataset[_T_co], batch_size: _int | None = 1, shuffle: _bool | None = None, sampler: Iterable[Any] | None = None, batch_sampler: Iterable[Sequence[Any]] | None = None, num_workers: _int = 0, collate_fn: Callable[[list[Any]], Any] | None = None, pin_memory: _bool = False, drop_last: _bool = False, timeout: _float = 0, worker_init_fn: Callable[[_int], Any] | None = None, multiprocessing_context: Any = None, generator: Generator | None = None, *, prefetch_factor: _int | None = None, persistent_workers: _bool = False, pin_memory_device: str = "", in_order: _bool = True) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...
