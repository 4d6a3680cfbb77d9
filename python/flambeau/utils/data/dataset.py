"""Data sets: by index, by iteration, and built from other data sets."""
from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import flambeau as _fl

__all__ = ["Dataset", "IterableDataset", "TensorDataset", "StackDataset", "ConcatDataset", "ChainDataset", "Subset",
           "random_split"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """A map from keys to samples: subclasses define `__getitem__`, usually `__len__`, perhaps `__getitems__`."""

    def __getitem__(self, index) -> _T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: "Dataset") -> "ConcatDataset":
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co], Iterable[_T_co]):
    """A stream of samples: subclasses define `__iter__`."""

    def __add__(self, other: Dataset):
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """Samples are rows of tensors of the same first size."""

    def __init__(self, *tensors) -> None:
        assert all(tensors[0].size(0) == tensor.size(0) for tensor in tensors), "Size mismatch between tensors"
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset):
    """Several data sets side by side: samples are tuples (from arguments) or dicts (from keywords)."""

    def __init__(self, *args: Dataset, **kwargs: Dataset) -> None:
        if args:
            if kwargs:
                raise ValueError("Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like "
                                 "input/output, but both types are given.")
            parts: Iterable = args
            self.datasets = args
        elif kwargs:
            parts = kwargs.values()
            self.datasets = kwargs
        else:
            raise ValueError("At least one dataset should be passed")
        self._length = len(next(iter(parts)))
        if any(self._length != len(part) for part in parts):
            raise ValueError("Size mismatch between datasets")

    def __getitem__(self, index):
        if isinstance(self.datasets, dict):
            return {key: part[index] for key, part in self.datasets.items()}
        return tuple(part[index] for part in self.datasets)

    def __getitems__(self, indices: list):
        def column(part):
            if callable(getattr(part, "__getitems__", None)):
                items = part.__getitems__(indices)
                if len(items) != len(indices):
                    raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, "
                                     f"got {len(items)}")
                return items
            return [part[i] for i in indices]

        if isinstance(self.datasets, dict):
            columns = {key: column(part) for key, part in self.datasets.items()}
            return [{key: values[i] for key, values in columns.items()} for i in range(len(indices))]
        return list(zip(*(column(part) for part in self.datasets)))

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[_T_co]):
    """Several data sets one after the other."""

    datasets: list
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence) -> list[int]:
        """The running total of the lengths."""
        return list(itertools.accumulate(len(part) for part in sequence))

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        super().__init__()
        self.datasets = list(datasets)
        assert len(self.datasets) > 0, "datasets should not be an empty iterable"
        for part in self.datasets:
            assert not isinstance(part, IterableDataset), "ConcatDataset does not support IterableDataset"
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx):
        at = idx if idx >= 0 else idx + len(self)
        if at < 0:
            raise ValueError("absolute value of index should not exceed dataset length")
        which = bisect.bisect_right(self.cumulative_sizes, at)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][at - before]

    @property
    def cummulative_sizes(self) -> list[int]:
        """Deprecated: `cumulative_sizes`."""
        warnings.warn("`cummulative_sizes` attribute is renamed to `cumulative_sizes`", FutureWarning, stacklevel=2)
        return self.cumulative_sizes


class ChainDataset(IterableDataset):
    """Several streams one after the other."""

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        super().__init__()
        self.datasets = datasets

    def _parts(self) -> Iterator:
        for part in self.datasets:
            assert isinstance(part, IterableDataset), "ChainDataset only supports IterableDataset"
            yield part

    def __iter__(self):
        for part in self._parts():
            yield from part

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts())


class Subset(Dataset[_T_co]):
    """The samples of a data set at given indices."""

    def __init__(self, dataset: Dataset[_T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx):
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list:
        chosen = [self.indices[i] for i in indices]
        at_once = getattr(self.dataset, "__getitems__", None)
        return at_once(chosen) if callable(at_once) else [self.dataset[i] for i in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset[_T], lengths: Sequence, generator=None) -> list[Subset[_T]]:
    """Parts of the given lengths (or fractions that add up to 1), drawn at random without overlap."""
    total, count = sum(lengths), len(dataset)
    if total <= 1 and math.isclose(total, 1):
        lengths = _shares(lengths, count)
    if sum(lengths) != count:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = _fl.randperm(count, generator=_fl.default_generator if generator is None else generator).tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, order[end - length:end]) for end, length in zip(ends, lengths)]


def _shares(fractions: Sequence, count: int) -> list[int]:
    """Whole numbers near the fractions of `count`; what rounding leaves over goes to the first ones."""
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    sizes = [math.floor(count * fraction) for fraction in fractions]
    for i in range(count - sum(sizes)):
        sizes[i % len(sizes)] += 1
    for i, size in enumerate(sizes):
        if size == 0:
            warnings.warn(f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=3)
    return sizes
