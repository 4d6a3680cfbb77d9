"""Measurements side by side."""
from .measurement import Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

_GREEN, _BOLD, _END = "\033[92m", "\033[1m", "\033[0m"


class Compare:
    """A table for each label: a row for each sub-label and number of threads, a column for each description."""

    def __init__(self, results):
        self._results = []
        self.extend_results(results)
        self._trim = self._warn = False
        self._colors = None

    def extend_results(self, results):
        """More measurements."""
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError("Expected an instance of `Measurement`, " f"got {type(result)} instead.")
        self._results.extend(results)

    def trim_significant_figures(self):
        """Shows only the digits that mean something."""
        self._trim = True

    def colorize(self, rowwise=False):
        """Marks the best of each column, or of each row."""
        self._colors = "row" if rowwise else "column"

    def highlight_warnings(self):
        """Shows which times differ much."""
        self._warn = True

    def __str__(self):
        merged = Measurement.merge(self._results)
        labels = ordered_unique(m.task_spec.label for m in merged)
        return "\n".join(self._table([m for m in merged if m.task_spec.label == label]) for label in labels)

    __repr__ = __str__

    def print(self):
        """Prints the tables."""
        print(str(self))

    def _table(self, results):
        unit, scale = select_unit(min(m.median for m in results))
        columns = ordered_unique(m.task_spec.description for m in results)
        rows = ordered_unique((m.task_spec.num_threads, m.env, m.as_row_name) for m in results)
        rows.sort(key=lambda row: row[0])
        found = {(m.task_spec.num_threads, m.env, m.as_row_name, m.task_spec.description): m for m in results}
        names = {row: " " * 6 + (f"({row[1]})  " if row[1] else "") + row[2] for row in rows}
        digits = max(m.significant_figures for m in results) if self._trim else None
        decimals = 1 if digits is None else self._decimals(results, scale)

        def text(row, column):
            m = found.get((*row, column))
            if m is None:
                return ""
            value = trim_sigfig(m.median / scale, m.significant_figures) if self._trim else m.median / scale
            warning = f" (! {m.iqr / m.median * 100:.0f}%)" if self._warn and m.has_warnings else ""
            return f"{value:.{decimals}f}{warning}"

        cells = {(row, column): text(row, column) for row in rows for column in columns}
        first = max(map(len, names.values()))
        widths = {c: max(len(c or ""), *(len(cells[row, c]) for row in rows)) for c in columns}
        lines = [" " * first + "".join(f"  |  {(c or '').center(widths[c])}" for c in columns)]
        total, threads = len(lines[0]), None
        for row in rows:
            if row[0] != threads:
                threads = row[0]
                lines.append(f"{threads} threads: ".ljust(total, "-"))
            shown = (self._colored(cells[row, c].rjust(widths[c]), found, row, c, rows, columns) for c in columns)
            lines.append(names[row].ljust(first) + "".join(f"  |  {cell}" for cell in shown))
        title = f" {results[0].task_spec.label} " if results[0].task_spec.label else f" {results[0].task_spec.stmt} "
        lines.insert(0, f"[{title.center(total - 2, '-')}]")
        lines += ["", f"Times are in {unit_to_english(unit)}s ({unit})."]
        if self._warn and any(m.has_warnings for m in results):
            lines.append("(! XX%) Measurement has high variance, where XX is the IQR / median * 100.")
        return "\n".join(lines) + "\n"

    def _decimals(self, results, scale):
        """As many as the best known of these times has behind its point, at most one."""
        return int(any(trim_sigfig(v, n) % 1 for v, n in ((m.median / scale, m.significant_figures) for m in results)))

    def _colored(self, cell, found, row, column, rows, columns):
        m = found.get((*row, column))
        if self._colors is None or m is None:
            return cell
        beside = [(r, column) for r in rows] if self._colors == "column" else [(row, c) for c in columns]
        best = min(found[(*r, c)].median for r, c in beside if (*r, c) in found)
        return f"{_GREEN}{_BOLD}{cell}{_END}{_END}" if m.median <= best else cell
