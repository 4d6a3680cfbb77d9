"""Results that come later."""
from __future__ import annotations

import threading
from typing import Any, Callable, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A result that another thread, or a later line, gives; callbacks run when it is there."""

    def __init__(self, *, devices=None) -> None:
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._complete = threading.Event()

    def done(self) -> bool:
        """Whether there is a result, or an error."""
        return self._complete.is_set()

    def wait(self) -> T:
        """The result, once it is there; the error is raised."""
        self._complete.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def value(self) -> T:
        """The result, which has to be there."""
        if not self.done():
            raise RuntimeError("the result of a Future was asked for before it was there; wait() waits for it")
        return self.wait()

    def set_result(self, result: T) -> None:
        """Complete with a result."""
        self._finish(result, None)

    def set_exception(self, result) -> None:
        """Complete with an error."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(None, result)

    def _finish(self, value, error) -> None:
        with self._lock:
            if self.done():
                raise RuntimeError("Attempting to mark a completed Future as complete again. Note that a Future can only be "
                                   "marked completed once.")
            self._value, self._error = value, error
            callbacks, self._callbacks = self._callbacks, []
            self._complete.set()
        for callback in callbacks:
            callback()

    def _when_done(self, callback) -> None:
        with self._lock:
            if not self.done():
                self._callbacks.append(callback)
                return
        callback()

    def then(self, callback) -> Future:
        """The future of `callback(self)`, which is called when this one is complete."""
        following: Future = Future()

        def run():
            try:
                result = callback(self)
            except Exception as error:
                following.set_exception(error)
            else:
                following.set_result(result)

        self._when_done(run)
        return following

    def add_done_callback(self, callback) -> None:
        """Call `callback(self)` when this one is complete; what it raises is reported, and nothing else."""

        def run():
            try:
                callback(self)
            except Exception:
                import traceback

                traceback.print_exc()

        self._when_done(run)


def collect_all(futures) -> Future:
    """A future of the list of the futures, complete when all of them are."""
    futures = list(futures)
    result: Future = Future()
    remaining = [len(futures)]
    lock = threading.Lock()

    def one_more():
        with lock:
            remaining[0] -= 1
            last = remaining[0] == 0
        if last:
            result.set_result(futures)

    for future in futures:
        future._when_done(one_more)
    if not futures:
        result.set_result(futures)
    return result


def wait_all(futures) -> list:
    """The results of all futures; the first error is raised."""
    return [future.wait() for future in collect_all(futures).wait()]
