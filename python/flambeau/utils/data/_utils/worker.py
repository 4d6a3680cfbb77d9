"""What runs in a worker process of a `DataLoader`."""
from __future__ import annotations

import os
import random
import sys
from typing import NamedTuple

import flambeau as _fl

from . import MP_STATUS_CHECK_INTERVAL, ExceptionWrapper


class WorkerInfo:
    """A worker's `id`, `num_workers`, `seed` and its copy of the `dataset`."""

    def __init__(self, *, id, num_workers, seed, dataset, rng=None, worker_method="multiprocessing") -> None:
        self.__dict__.update(id=id, num_workers=num_workers, seed=seed, dataset=dataset, rng=rng,
                             worker_method=worker_method)

    def __setattr__(self, key, value):
        raise RuntimeError(f"Cannot assign attributes to {type(self).__name__} objects")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process, what it is; None in the main process."""
    return _worker_info


class _IterableDatasetStopIteration(NamedTuple):
    """A stream has ended in this worker."""

    worker_id: int


class _ResumeIteration(NamedTuple):
    """A persistent worker is to start the data set anew."""

    seed: int | None = None


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Four well-mixed 32-bit numbers for NumPy's generator, as NumPy's own seed sequences mix them."""
    mask = 0xFFFFFFFF
    constant = 0x43B0D7E5

    def scramble(value: int) -> int:
        nonlocal constant
        value = (value ^ constant) & mask
        constant = constant * 0x931E8875 & mask
        value = value * constant & mask
        return value ^ (value >> 16)

    pool = [scramble(v) for v in (worker_id, base_seed & mask, base_seed >> 32, 0)]
    for source in range(4):
        for target in range(4):
            if source != target:
                mixed = (0xCA01F9DD * pool[target] - 0x4973F715 * scramble(pool[source])) & mask
                pool[target] = mixed ^ (mixed >> 16)
    constant = 0x8B51F9DD
    state = []
    for value in pool:
        value ^= constant
        constant = constant * 0x58F38DED & mask
        value = value * constant & mask
        state.append(value ^ (value >> 16))
    return state


def _seed_all(base_seed: int, worker_id: int) -> int:
    seed = base_seed + worker_id
    random.seed(seed)
    _fl.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(_generate_state(base_seed, worker_id))
    return seed


def _receive(tasks, parent: int):
    """The next task; None when the parent is gone."""
    while True:
        try:
            if tasks.connection.poll(MP_STATUS_CHECK_INTERVAL):
                return tasks.receive()
        except (EOFError, ConnectionError):
            return None
        if os.getppid() != parent:
            return None


def _worker_loop(kind, dataset, tasks, results, auto_collation, collate_fn, drop_last, base_seed, init_fn, worker_id,
                 num_workers, persistent, parent, default_dtype=None) -> None:
    """Fetch the batches asked for until told to stop."""
    global _worker_info
    try:
        import signal

        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _fl.set_num_threads(1)
        if default_dtype is not None and default_dtype != _fl.get_default_dtype():
            _fl.set_default_dtype(default_dtype)
        seed = _seed_all(base_seed, worker_id)
        _worker_info = WorkerInfo(id=worker_id, num_workers=num_workers, seed=seed, dataset=dataset)
        from ..dataloader import _DatasetKind

        problem = fetcher = None

        def start() -> None:
            nonlocal fetcher
            fetcher = _DatasetKind.create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last)

        try:
            if init_fn is not None:
                init_fn(worker_id)
            start()
        except Exception:
            problem = ExceptionWrapper(where=f"in DataLoader worker process {worker_id}")

        ended = False
        while True:
            task = _receive(tasks, parent)
            if task is None:
                break
            if isinstance(task, _ResumeIteration):
                ended = False
                try:
                    start()
                except Exception:
                    problem = ExceptionWrapper(where=f"in DataLoader worker process {worker_id}")
                results.send((task, None))
                continue
            index, wanted = task
            if problem is not None:
                data, problem = problem, None
            elif ended:
                continue
            else:
                try:
                    data = fetcher.fetch(wanted)
                except StopIteration if kind == _DatasetKind.Iterable else ():
                    data = _IterableDatasetStopIteration(worker_id)
                    ended = True
                except Exception:
                    data = ExceptionWrapper(where=f"in DataLoader worker process {worker_id}")
            _send(results, index, data, worker_id)
            del data, wanted
    except KeyboardInterrupt:
        pass
    finally:
        results.close()


def _send(results, index, data, worker_id: int) -> None:
    try:
        results.send((index, data))
        return
    except (BrokenPipeError, ConnectionError):
        return
    except Exception:
        wrapped = data if isinstance(data, ExceptionWrapper) else ExceptionWrapper(
            where=f"in DataLoader worker process {worker_id}")
    try:
        results.send((index, wrapped))
    except Exception:  # an exception class that cannot be sent
        wrapped.exc_type = RuntimeError
        results.send((index, wrapped))
