"""The version of the interface as text that compares like a version."""
from .version import __version__ as _text

__all__ = ["TorchVersion"]


def _parts(version):
    """A version as a tuple that sorts: numbers, then how far before the release it is.

    Raises ValueError for what is not a version.
    """
    public = str(version).strip().lstrip("v").split("+")[0]
    numbers, stage = [], (3, 0)
    for part in public.replace("-", ".").split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        rest = part[len(digits) :]
        if digits:
            numbers.append(int(digits))
        if rest:
            kind = rest.rstrip("0123456789")
            rank = {"dev": 0, "a": 1, "alpha": 1, "b": 1, "beta": 1, "rc": 2, "c": 2, "post": 4}.get(kind)
            if rank is None:
                raise ValueError(f"Invalid version: '{version}'")
            stage = (rank, int(rest[len(kind) :] or 0))
    if not numbers:
        raise ValueError(f"Invalid version: '{version}'")
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers), stage


def _local(version):
    return str(version).partition("+")[2]


class TorchVersion(str):
    """A version that is text, and can be compared with texts and tuples of numbers too."""

    __slots__ = ()

    def _compare(self, other, as_versions, as_texts):
        try:
            if isinstance(other, (tuple, list)):
                other = ".".join(map(str, other))
            mine, theirs = (_parts(self), _local(self)), (_parts(other), _local(other))
        except ValueError:
            return as_texts(str(other))
        return as_versions(mine, theirs)

    def __gt__(self, other):
        return self._compare(other, lambda a, b: a > b, super().__gt__)

    def __lt__(self, other):
        return self._compare(other, lambda a, b: a < b, super().__lt__)

    def __eq__(self, other):
        return self._compare(other, lambda a, b: a == b, super().__eq__)

    def __ge__(self, other):
        return self._compare(other, lambda a, b: a >= b, super().__ge__)

    def __le__(self, other):
        return self._compare(other, lambda a, b: a <= b, super().__le__)

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__


__version__ = TorchVersion(_text)
