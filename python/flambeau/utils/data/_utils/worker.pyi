# Made by scripts/stubs.
from builtins import int as _int
from typing import Any

class WorkerInfo:
    def __init__(self, *, id: Any, num_workers: Any, seed: _int, dataset: Any, rng: Any = None, worker_method: str = 'multiprocessing') -> None: ...
def get_worker_info() -> WorkerInfo | None: ...
