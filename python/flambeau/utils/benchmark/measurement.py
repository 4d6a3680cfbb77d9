"""What was timed, and the times."""
from __future__ import annotations

import dataclasses
import math
import statistics
import textwrap

_UNITS = {"ns": ("nanosecond", 1e-9), "us": ("microsecond", 1e-6), "ms": ("millisecond", 1e-3), "s": ("second", 1)}
# From here on the middle half of the times is called wide, and very wide.
_WIDE, _VERY_WIDE = 0.1, 0.25


def select_unit(t):
    """The name and size of the unit in which a time in seconds is read best."""
    for name, (_, size) in reversed(_UNITS.items()):
        if t >= size:
            return name, size
    return "ns", 1e-9


def unit_to_english(u):
    """'microsecond' for 'us'."""
    return _UNITS[u][0]


def trim_sigfig(x, n):
    """A number rounded to so many digits."""
    if x != int(x) or x:
        scale = 10 ** (int(math.floor(math.log10(abs(x)))) + 1 - n) if x else 1
        return float(round(x / scale) * scale)
    return float(x)


def ordered_unique(elements):
    """Each element once, in order."""
    return list(dict.fromkeys(elements))


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """A statement, and the words that describe it."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self):
        """What a reader calls it."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": {self.sub_label}" if self.sub_label else "")
        head = f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}"
        return f"{head}\n{textwrap.indent(self.stmt, '  ')}"

    def setup_str(self):
        """The preparation, if there is one."""
        if not self.setup or self.setup == "pass":
            return ""
        if "\n" in self.setup:
            return f"setup:\n{textwrap.indent(self.setup, '  ')}\n"
        return f"setup: {self.setup}"

    def summarize(self):
        """All of it."""
        return "\n".join(filter(None, [self.title, self.description or "", self.setup_str()]))


def _quantile(values, q):
    place = (len(values) - 1) * q
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


@dataclasses.dataclass(repr=False)
class Measurement:
    """The times of a task: each of so many runs."""

    number_per_run: int
    raw_times: list
    task_spec: TaskSpec
    metadata: dict | None = None

    def __getattr__(self, name):
        if not name.startswith("__") and hasattr(TaskSpec, name) or name in TaskSpec.__dataclass_fields__:
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute '{name}'")

    @property
    def times(self):
        """Seconds of one run, for each measurement."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self):
        """Seconds of one run, on average."""
        return statistics.fmean(self.times)

    @property
    def median(self):
        """Seconds of one run; half of the measurements took less."""
        return statistics.median(self.times)

    @property
    def iqr(self):
        """How wide the middle half of the times is."""
        times = sorted(self.times)
        return _quantile(times, 0.75) - _quantile(times, 0.25)

    @property
    def significant_figures(self):
        """How many digits of the median mean something, by the spread of the middle half."""
        times = sorted(self.times)
        middle = times[len(times) // 4 : math.ceil(3 * len(times) / 4)]
        spread = 1.645 * statistics.pstdev(middle) / math.sqrt(len(middle)) if middle else 0.0
        digits = math.floor(math.log10(self.median / max(spread, 1e-9 / self.number_per_run)))
        return min(max(digits, 1), 5)

    @property
    def has_warnings(self):
        """Do the times differ much?"""
        return not self.meets_confidence(_WIDE)

    def meets_confidence(self, threshold=_WIDE):
        """Is the middle half of the times narrow beside the median?"""
        return self.iqr / self.median < threshold

    @property
    def title(self):
        """What a reader calls the task."""
        return self.task_spec.title

    @property
    def env(self):
        """Where it was measured."""
        return self.task_spec.env

    @property
    def as_row_name(self):
        """What a table calls it."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __repr__(self):
        unit, scale = select_unit(self.median)
        runs, n, threads = self.number_per_run, len(self.raw_times), self.task_spec.num_threads
        lines = [object.__repr__(self), self.task_spec.summarize()]
        if n == 1:
            lines.append(f"  {self.median / scale:.2f} {unit}")
        else:
            lines.append(f"  Median: {self.median / scale:.2f} {unit}")
        if n >= 4:
            low, high = (_quantile(sorted(self.times), q) / scale for q in (0.25, 0.75))
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        lines.append(
            f"  {n} measurement{'s' if n > 1 else ''}, {runs} runs {'per measurement' if n > 1 else ''}, {threads} "
            f"thread{'s' if threads > 1 else ''}"
        )
        if self.has_warnings:
            strong = self.iqr / self.median >= _VERY_WIDE
            words = "suggests significant environmental influence" if strong else "could indicate system fluctuation"
            share = self.iqr / self.median * 100
            lines.append(f"  WARNING: Interquartile range is {share:.1f}% of the median measurement.")
            lines.append(f"           This {words}.")
        return "\n".join(lines)

    __str__ = __repr__

    @staticmethod
    def merge(measurements):
        """The measurements of equal tasks as one each."""
        groups = {}
        for m in measurements:
            groups.setdefault(m.task_spec, []).extend(m.times)
        return [Measurement(1, times, task) for task, times in groups.items()]
