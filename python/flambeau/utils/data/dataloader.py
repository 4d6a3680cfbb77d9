"""`DataLoader`: batches from a data set, in this process or from workers."""
from __future__ import annotations

import contextlib
import itertools
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import flambeau as _fl

from . import _utils
from ._utils import ExceptionWrapper, fetch
from ._utils.collate import default_collate, default_convert
from ._utils.worker import _IterableDatasetStopIteration, _ResumeIteration, get_worker_info
from .dataset import Dataset, IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "get_worker_info", "default_collate", "default_convert"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_collate_fn_t = Callable[[list[_T]], Any]
_worker_init_fn_t = Callable[[int], None]


class _DatasetKind:
    """Data sets looked up by index, and streams."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(kind, *how):
        """What fetches the samples of a data set of this kind."""
        fetchers = {_DatasetKind.Map: fetch._MapDatasetFetcher, _DatasetKind.Iterable: fetch._IterableDatasetFetcher}
        return fetchers[kind](*how)


class _InfiniteConstantSampler(Sampler):
    """None without end: the indices of a stream."""

    def __iter__(self):
        return itertools.repeat(None)


class DataLoader(Generic[_T_co]):
    """Iterates over a data set in batches, shuffled or not, with `num_workers` processes."""

    # Other packages know the class by this: see `as_torch`.
    __module__ = f"{_fl.__name__}.utils.data.dataloader"

    dataset: Dataset[_T_co]
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Sampler
    pin_memory_device: str
    prefetch_factor: int | None
    _iterator: "_BaseDataLoaderIter | None"
    __initialized = False

    def __init__(self, dataset, batch_size: int | None = 1, shuffle: bool | None = None, sampler=None,
                 batch_sampler=None, num_workers: int = 0, collate_fn=None, pin_memory: bool = False,
                 drop_last: bool = False, timeout: float = 0, worker_init_fn=None, multiprocessing_context=None,
                 generator=None, *, prefetch_factor: int | None = None, persistent_workers: bool = False,
                 pin_memory_device: str = "", in_order: bool = True) -> None:
        prefetch_factor = _checked_prefetch(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset, self.num_workers, self.in_order = dataset, num_workers, in_order
        self.prefetch_factor, self.timeout, self.worker_init_fn = prefetch_factor, timeout, worker_init_fn
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.multiprocessing_context = multiprocessing_context

        stream = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if stream else _DatasetKind.Map
        if stream:
            _refuse_order(shuffle, sampler, batch_sampler)
        if shuffle and sampler is not None:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if shuffle or drop_last or batch_size != 1 or sampler is not None:
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                                 "drop_last")
            batch_size = None  # the batch sampler knows
        elif drop_last and batch_size is None:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        self.sampler = _default_order(dataset, stream, shuffle, generator) if sampler is None else sampler
        if batch_size is not None:
            batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self.batch_sampler, self.batch_size, self.drop_last = batch_sampler, batch_size, drop_last
        usual = default_convert if batch_sampler is None else default_collate
        self.collate_fn = usual if collate_fn is None else collate_fn
        self.generator, self.persistent_workers = generator, persistent_workers
        self.__initialized = True
        self._IterableDataset_len_called = self._iterator = None
        self.check_worker_number_rationality()

    def _get_iterator(self) -> "_BaseDataLoaderIter":
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

    @property
    def multiprocessing_context(self):
        """What worker processes are made with; None for the usual way."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context):
        if context is not None:
            if self.num_workers <= 0:
                raise ValueError("multiprocessing_context can only be used with multi-process loading "
                                 f"(num_workers > 0), but got num_workers={self.num_workers}")
            context = _process_context(context)
        self.__multiprocessing_context = context

    def __setattr__(self, attr, val):
        if attr in _FIXED and self.__initialized:
            raise ValueError(f"{attr} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(attr, val)

    def __iter__(self) -> "_BaseDataLoaderIter":
        if not self.persistent_workers or self.num_workers == 0:
            return self._get_iterator()
        if self._iterator is not None:
            self._iterator._reset(self)
        else:
            self._iterator = self._get_iterator()
        return self._iterator

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        if self._dataset_kind != _DatasetKind.Iterable:
            return len(self._index_sampler)
        samples = self._IterableDataset_len_called = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return samples
        full, rest = divmod(samples, self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def check_worker_number_rationality(self) -> None:
        """Warn when there are more workers than processors."""
        if not self.num_workers:
            return
        count, note = os.cpu_count(), " (`cpuset` is not taken into account)"
        with contextlib.suppress(AttributeError, OSError):  # not on every system
            count, note = len(os.sched_getaffinity(0)), ""
        message = f"This DataLoader will create {self.num_workers} worker processes in total. "
        if count is None:
            message += "DataLoader is not able to compute a suggested max number of worker in current system."
        elif self.num_workers > count:
            message += (f"Our suggested max number of worker in current system is {count}{note}, which is smaller than "
                        "what this DataLoader is going to create. Please be aware that excessive worker creation might "
                        "get DataLoader running slow or even freeze, lower the worker number to avoid potential "
                        "slowness/freeze if necessary.")
        else:
            return
        warnings.warn(message, stacklevel=2)


# What a loader keeps for life.
_FIXED = frozenset(("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"))


def _checked_prefetch(workers: int, timeout: float, prefetch: int | None, persistent: bool) -> int | None:
    """The batches asked for ahead of time of each worker; ValueError for options that do not go together."""
    if workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if prefetch is not None:
        if workers == 0:
            raise ValueError("prefetch_factor option could only be specified in multiprocessing."
                             "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None.")
        if prefetch < 0:
            raise ValueError("prefetch_factor option should be non-negative")
    if workers == 0:
        if persistent:
            raise ValueError("persistent_workers option needs num_workers > 0")
        return None
    return 2 if prefetch is None else prefetch


def _refuse_order(shuffle, sampler, batch_sampler) -> None:
    """A stream comes in its own order: ValueError for any option that asks for another."""
    asked = [("shuffle", shuffle)] if shuffle not in (False, None) else []
    asked += [(name, value) for name, value in (("sampler", sampler), ("batch_sampler", batch_sampler))
              if value is not None]
    for name, value in asked:
        raise ValueError(f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                         f"{name}={value}")


def _default_order(dataset, stream: bool, shuffle, generator) -> Sampler:
    """The sampler of a loader that was given none."""
    if stream:
        return _InfiniteConstantSampler()
    return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)


def _process_context(context):
    """A multiprocessing context, given as such or by the name of its start method."""
    import multiprocessing

    if isinstance(context, str):
        known = multiprocessing.get_all_start_methods()
        if context not in known:
            raise ValueError(f"multiprocessing_context option should specify a valid start method in {known!r}, but "
                             f"got multiprocessing_context={context!r}")
        return multiprocessing.get_context(context)
    if not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError("multiprocessing_context option should be a valid context object or a string specifying the "
                        f"start method, but got multiprocessing_context={context}")
    return context


def _default_context():
    """Forked workers where forking is safe, else what the system offers first."""
    import multiprocessing

    forks = os.name == "posix" and sys.platform != "darwin" and "fork" in multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("fork" if forks else None)


class _BaseDataLoaderIter:
    """One pass over a loader."""

    def __init__(self, loader: DataLoader) -> None:
        self._dataset, self._dataset_kind = loader.dataset, loader._dataset_kind
        self._auto_collation, self._collate_fn = loader._auto_collation, loader.collate_fn
        self._drop_last, self._pin_memory = loader.drop_last, loader.pin_memory
        if self._pin_memory and not _fl.accelerator.is_available():
            warnings.warn("'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
                          "used.", stacklevel=4)
            self._pin_memory = False
        self._num_workers, self._persistent_workers = loader.num_workers, loader.persistent_workers
        self._timeout, self._index_sampler = loader.timeout, loader._index_sampler
        self._begin(loader)
        self._base_seed = int(_fl.empty((), dtype=_fl.int64).random_(generator=loader.generator).item())

    def _begin(self, loader) -> None:
        """A new pass over the samplers."""
        self._sampler_iter = iter(self._index_sampler)
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._num_yielded = 0

    def __iter__(self):
        return self

    def _reset(self, loader, first_iter: bool = False) -> None:
        self._begin(loader)

    def _next_index(self):
        return next(self._sampler_iter)

    def _next_data(self):
        raise NotImplementedError

    def __next__(self):
        data = self._next_data()
        self._num_yielded += 1
        promised = self._IterableDataset_len_called
        if promised is not None and self._num_yielded > promised and self._dataset_kind == _DatasetKind.Iterable:
            self._warn_of_length(promised)
        return data

    def _warn_of_length(self, promised: int) -> None:
        """Tell that a stream gave more than its length."""
        message = (f"Length of IterableDataset {self._dataset} was reported to be {promised}(when accessing "
                   f"len(dataloader)), but {self._num_yielded} samples have been fetched. ")
        if self._num_workers > 0:
            message += ("For multiprocessing data-loading, this could be caused by not properly configuring the "
                        "IterableDataset replica at each worker. Please see "
                        "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples.")
        warnings.warn(message, stacklevel=3)

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self):
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Fetches in this process."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        assert self._timeout == 0, "_SingleProcessDataLoaderIter requires timeout == 0"
        self._dataset_fetcher = _DatasetKind.create_fetcher(self._dataset_kind, self._dataset, self._auto_collation,
                                                            self._collate_fn, self._drop_last)

    def _next_data(self):
        data = self._dataset_fetcher.fetch(self._next_index())
        return _utils.pin_memory.pin_memory(data) if self._pin_memory else data


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Has workers fetch ahead and hands their batches out, in order unless told otherwise.

    Every worker has a pair of channels of its own. Waiting is on all result channels and on the processes themselves,
    so that a batch, a death and a time limit are each noticed at once.
    """

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        from multiprocessing import connection

        from ._utils.channel import Channel

        self._wait = connection.wait
        self._prefetch_factor = loader.prefetch_factor
        self._in_order = loader.in_order
        context = loader.multiprocessing_context or _default_context()
        inline = max(512, 65536 // max(1, self._prefetch_factor))
        self._workers: list = []
        self._tasks: list = []
        self._results: list = []
        self._shutdown = False
        try:
            for i in range(self._num_workers):
                ours_in, theirs_in = context.Pipe(duplex=True)
                ours_out, theirs_out = context.Pipe(duplex=True)
                process = context.Process(
                    target=_utils.worker._worker_loop,
                    args=(self._dataset_kind, self._dataset, Channel(theirs_in, inline), Channel(theirs_out, inline),
                          self._auto_collation, self._collate_fn, self._drop_last, self._base_seed,
                          loader.worker_init_fn, i, self._num_workers, self._persistent_workers, os.getpid(),
                          _fl.get_default_dtype()))
                process.daemon = True
                process.start()
                theirs_in.close()
                theirs_out.close()
                self._workers.append(process)
                self._tasks.append(Channel(ours_in, inline))
                self._results.append(Channel(ours_out, inline))
        except BaseException:
            self._shutdown_workers()
            raise
        self._owner = os.getpid()
        self._start(loader)

    def _start(self, loader) -> None:
        self._send_idx = 0  # the next batch to ask for
        self._rcvd_idx = 0  # the next batch to hand out
        self._waiting: dict[int, int] = {}  # batch -> worker
        self._ready: dict = {}  # batches that came before their turn
        self._active = [True] * self._num_workers
        self._next_worker = itertools.cycle(range(self._num_workers))
        for _ in range(self._prefetch_factor * self._num_workers):
            self._try_put_index()

    def _reset(self, loader, first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        for channel in self._tasks:
            channel.send(_ResumeIteration())
        pending = set(range(self._num_workers))
        while pending:
            worker, (index, _) = self._get_message()
            if isinstance(index, _ResumeIteration):
                pending.discard(worker)
        self._start(loader)

    def _try_put_index(self) -> None:
        try:
            index = self._next_index()
        except StopIteration:
            return
        loads = None
        if not self._in_order:
            loads = [0] * self._num_workers
            for worker in self._waiting.values():
                loads[worker] += 1
        for _ in range(self._num_workers):
            worker = next(self._next_worker)
            if self._active[worker] and (loads is None or loads[worker] <= min(
                    n for n, active in zip(loads, self._active) if active)):
                break
        else:
            return
        try:
            self._tasks[worker].send((self._send_idx, index))
        except (BrokenPipeError, ConnectionError):
            self._raise_dead()
        self._waiting[self._send_idx] = worker
        self._send_idx += 1

    def _dead(self) -> list:
        return [w for i, w in enumerate(self._workers)
                if (self._active[i] or self._persistent_workers) and not w.is_alive()]

    def _raise_dead(self):
        for process in self._workers:
            process.join(timeout=0.1)
        pids = ", ".join(str(w.pid) for w in self._dead())
        self._shutdown_workers()
        raise RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly")

    def _get_message(self):
        """The next message of any worker, as ``(worker, message)``."""
        watched = [i for i in range(self._num_workers) if self._persistent_workers or self._active[i]]
        channels = {self._results[i].connection: i for i in watched}
        sentinels = [self._workers[i].sentinel for i in watched]
        ready = self._wait([*channels, *sentinels], self._timeout if self._timeout > 0 else None)
        if not ready:
            self._shutdown_workers()
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
        for item in ready:
            if item in channels:
                worker = channels[item]
                try:
                    return worker, self._results[worker].receive()
                except (EOFError, ConnectionError):
                    self._raise_dead()
        self._raise_dead()

    def _next_data(self):
        while True:
            if self._shutdown:
                raise StopIteration
            if self._in_order:
                if self._rcvd_idx in self._ready:
                    return self._hand_out(self._rcvd_idx)
                if self._rcvd_idx not in self._waiting:
                    if self._rcvd_idx >= self._send_idx:
                        self._finish()
                    self._rcvd_idx += 1  # that worker's stream had ended
                    continue
            else:
                if self._ready:
                    return self._hand_out(next(iter(self._ready)))
                if not self._waiting:
                    self._finish()
            worker, (index, data) = self._get_message()
            self._waiting.pop(index, None)
            if isinstance(data, _IterableDatasetStopIteration):
                self._ended(worker)
                self._try_put_index()
                continue
            self._ready[index] = data

    def _ended(self, worker: int) -> None:
        """A worker's stream is over: nothing more will come of what it was asked for."""
        for index in [i for i, w in self._waiting.items() if w == worker]:
            del self._waiting[index]
        self._active[worker] = False
        if not self._persistent_workers:
            self._stop(worker)

    def _hand_out(self, index: int):
        data = self._ready.pop(index)
        self._rcvd_idx = max(self._rcvd_idx, index + 1) if not self._in_order else index + 1
        self._try_put_index()
        if isinstance(data, ExceptionWrapper):
            data.reraise()
        return _utils.pin_memory.pin_memory(data) if self._pin_memory else data

    def _finish(self):
        if not self._persistent_workers:
            self._shutdown_workers()
        raise StopIteration

    def _stop(self, worker: int) -> None:
        try:
            self._tasks[worker].send(None)
        except (OSError, ValueError):
            pass

    def _shutdown_workers(self) -> None:
        if self._shutdown:
            return
        self._shutdown = True
        for worker in range(len(self._tasks)):
            self._stop(worker)
        for channel in (*self._tasks, *self._results):
            channel.close()
        for process in self._workers:
            process.join(timeout=_utils.MP_STATUS_CHECK_INTERVAL if process.is_alive() else 0)
            if process.is_alive():
                process.terminate()
                process.join(timeout=1)

    def __del__(self):
        if getattr(self, "_owner", None) == os.getpid():
            self._shutdown_workers()
