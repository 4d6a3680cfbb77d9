"""Checks on the order of substrings in a text."""
from __future__ import annotations


class FileCheck:
    """A chain of expectations about a text: ``FileCheck().check("a").check_not("b").run(text)``."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, str, int, bool]] = []

    def _add(self, kind: str, text: str, count: int = 1, exactly: bool = False) -> "FileCheck":
        self.steps.append((kind, text, count, exactly))
        return self

    def check(self, text: str) -> "FileCheck":
        """`text` follows somewhere after what was found before."""
        return self._add("CHECK", text)

    def check_not(self, text: str) -> "FileCheck":
        """`text` does not occur before the next thing found."""
        return self._add("CHECK-NOT", text)

    def check_same(self, text: str) -> "FileCheck":
        """`text` follows on the same line."""
        return self._add("CHECK-SAME", text)

    def check_next(self, text: str) -> "FileCheck":
        """`text` occurs on the next line."""
        return self._add("CHECK-NEXT", text)

    def check_count(self, text: str, count: int, exactly: bool = False) -> "FileCheck":
        """`text` occurs `count` times (and no more, if `exactly`)."""
        return self._add("CHECK-COUNT", text, count, exactly)

    def check_dag(self, text: str) -> "FileCheck":
        """`text` occurs, in any order with its neighbours of this kind."""
        return self._add("CHECK-DAG", text)

    def run(self, text) -> None:
        """Raise RuntimeError unless all expectations hold."""
        text = str(text)
        at = 0
        forbidden: list[str] = []
        dag_end = 0
        for i, (kind, want, count, exactly) in enumerate(self.steps):
            start = at
            if kind == "CHECK-NOT":
                forbidden.append(want)
                continue
            if kind == "CHECK-DAG":
                if i == 0 or self.steps[i - 1][0] != "CHECK-DAG":
                    dag_end = at
                found = self._find(text, want, dag_end, len(text), kind)
                at = max(at, found + len(want))
            elif kind == "CHECK-COUNT":
                for _ in range(count):
                    at = self._find(text, want, at, len(text), kind) + len(want)
                if exactly and text.find(want, at) >= 0:
                    raise RuntimeError(f"Expected to not find \"{want}\" but found it\nFrom {kind}-{count}: {want}")
                found = start
            else:
                end = len(text)
                line = text.find("\n", at)
                if kind == "CHECK-SAME":
                    end = line if line >= 0 else end
                elif kind == "CHECK-NEXT":
                    start = line + 1 if line >= 0 else end
                    after = text.find("\n", start)
                    end = after if after >= 0 else end
                found = self._find(text, want, start, end, kind)
                at = found + len(want)
            for bad in forbidden:
                self._absent(text, bad, start, found)
            forbidden = []
        for bad in forbidden:
            self._absent(text, bad, at, len(text))

    @staticmethod
    def _find(text: str, want: str, start: int, end: int, kind: str) -> int:
        found = text.find(want, start, end)
        if found < 0:
            raise RuntimeError(f"Expected to find \"{want}\" but did not find it\nSearched string:\n{text[start:end]}\n"
                               f"From {kind}: {want}\n")
        return found

    @staticmethod
    def _absent(text: str, bad: str, start: int, end: int) -> None:
        if text.find(bad, start, end) >= 0:
            raise RuntimeError(f"Expected to not find \"{bad}\" but found it\nSearched string:\n{text[start:end]}\n"
                               f"From CHECK-NOT: {bad}\n")
