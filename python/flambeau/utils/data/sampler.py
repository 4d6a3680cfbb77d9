"""Orders in which samples are drawn."""
from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Generic, TypeVar

import flambeau as _fl

__all__ = ["BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler",
           "WeightedRandomSampler"]

_T_co = TypeVar("_T_co", covariant=True)


class Sampler(Generic[_T_co]):
    """Base of all samplers: `__iter__` yields indices, or lists of them."""

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError


def _fresh_generator():
    """A generator seeded from the default one."""
    generator = _fl.Generator()
    generator.manual_seed(int(_fl.empty((), dtype=_fl.int64).random_().item()))
    return generator


def _check_count(name: str, value, truths: bool = True) -> None:
    """ValueError for anything but an integer above zero; a bool passes for one unless told otherwise."""
    if not isinstance(value, int) or value <= 0 or (not truths and isinstance(value, bool)):
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


def _check_flag(name: str, value, error: type[Exception] = ValueError) -> None:
    if not isinstance(value, bool):
        raise error(f"{name} should be a boolean value, but got {name}={value}")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, …"""

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A random permutation (repeated as needed for `num_samples`), or draws with replacement."""

    data_source: Sized
    replacement: bool

    def __init__(self, data_source: Sized, replacement: bool = False, num_samples: int | None = None,
                 generator=None) -> None:
        self.data_source, self.generator = data_source, generator
        self.replacement, self._num_samples = replacement, num_samples
        _check_flag("replacement", replacement, TypeError)
        _check_count("num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many indices one pass draws."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n = len(self.data_source)
        generator = _fresh_generator() if self.generator is None else self.generator
        chunk = 32 if self.replacement else n  # what is drawn at once
        full, rest = divmod(self.num_samples, chunk)
        for wanted in itertools.chain(itertools.repeat(chunk, full), [rest]):
            if self.replacement:
                yield from _fl.randint(n, (wanted,), dtype=_fl.int64, generator=generator).tolist()
            else:
                yield from _fl.randperm(n, generator=generator).tolist()[:wanted]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order."""

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator=None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in _fl.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with probabilities proportional to `weights`."""

    def __init__(self, weights: Sequence[float], num_samples: int, replacement: bool = True,
                 generator=None) -> None:
        _check_count("num_samples", num_samples, truths=False)
        _check_flag("replacement", replacement)
        self.weights = _fl.as_tensor(weights, dtype=_fl.double)
        if self.weights.dim() != 1:
            raise ValueError("weights should be a 1d sequence but given weights have shape "
                             f"{tuple(self.weights.shape)}")
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        yield from _fl.multinomial(self.weights, self.num_samples, self.replacement,
                                   generator=self.generator).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list]):
    """Lists of `batch_size` indices from another sampler."""

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        _check_count("batch_size", batch_size, truths=False)
        _check_flag("drop_last", drop_last)
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        full, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return full + (rest > 0 and not self.drop_last)
