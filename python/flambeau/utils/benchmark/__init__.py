"""Timing of statements, with warm-up, a number of threads, and tables of results."""
import contextlib
import textwrap
import timeit
from time import perf_counter as timer

from .compare import Compare
from .measurement import Measurement, TaskSpec, ordered_unique, select_unit, trim_sigfig, unit_to_english

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "ordered_unique", "select_unit", "set_torch_threads", "timer",
           "trim_sigfig", "unit_to_english"]  # fmt: skip


@contextlib.contextmanager
def set_torch_threads(n):
    """Inside, operators use so many threads."""
    import flambeau

    before = flambeau.get_num_threads()
    try:
        flambeau.set_num_threads(n)
        yield
    finally:
        flambeau.set_num_threads(before)


class Timer:
    """Times a Python statement; `globals` has the names it uses, `torch` is always among them."""

    def __init__(
        self, stmt="pass", setup="pass", global_setup="", timer=timer, globals=None, label=None, sub_label=None,
        description=None, env=None, num_threads=1, language="python",
    ):  # fmt: skip
        import flambeau

        if str(getattr(language, "name", language)).lower() not in ("python", "py"):
            raise NotImplementedError(f"Timer: statements in {language} cannot be compiled; language must be 'python'")
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got `{global_setup}`. Most likely this code can simply be moved to `setup`."
            )
        stmt, setup = (textwrap.dedent(text).strip("\n") for text in (stmt, setup))
        names = dict(globals or {})
        names.setdefault("torch", flambeau)
        self._timer = timeit.Timer(stmt, setup, timer, names)
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _time(self, number):
        # Never nothing, however coarse the clock is.
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number=1000000):
        """One measurement of so many runs, after a few to warm up."""
        with set_torch_threads(self._task_spec.num_threads):
            self._time(max(number // 100, 2))
            return Measurement(number, [self._time(number)], self._task_spec)

    def repeat(self, repeat=-1, number=-1):
        """Not done: `blocked_autorange` is."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback=None):
        """Not done: `blocked_autorange` is."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block_size(self, min_run_time):
        """How many runs take so long that the clock costs nothing beside them."""
        self._time(2)
        overhead = sorted(timeit.Timer("pass").timeit(0) for _ in range(5))[2]
        number = 1
        while True:
            taken = self._time(number)
            if taken > min_run_time:
                return number
            if taken > min_run_time / 1000 and overhead / taken <= 1e-4:
                return number
            number *= 10

    def _measured(self, number, stop, callback):
        times, total = [], 0.0
        while True:
            taken = self._time(number)
            times.append(taken)
            total += taken
            if callback is not None:
                callback(number, taken)
            if stop(times, total):
                return Measurement(number, times, self._task_spec)

    def blocked_autorange(self, callback=None, min_run_time=0.2):
        """Measures blocks of runs until that much time is spent."""
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)
            return self._measured(number, lambda times, total: total >= min_run_time, callback)

    def adaptive_autorange(self, threshold=0.1, *, min_run_time=0.01, max_run_time=10.0, callback=None):
        """Measures blocks of runs until half of them lie so near to the median, or time is up."""

        def stop(times, total):
            enough = len(times) > 3 and Measurement(number, times, self._task_spec).meets_confidence(threshold)
            return total >= max_run_time or (enough and total >= min_run_time)

        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)
            return self._measured(number, stop, callback)
