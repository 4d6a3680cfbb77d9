"""Fetching samples from a data set by indices."""
from __future__ import annotations

import itertools


class _BaseDatasetFetcher:
    """Turns what a sampler yields into what a loader returns."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last) -> None:
        self.dataset, self.auto_collation = dataset, auto_collation
        self.collate_fn, self.drop_last = collate_fn, drop_last

    def fetch(self, possibly_batched_index):
        """The collated samples of one index, or of a list of indices; StopIteration when there are none."""
        get = self._batch if self.auto_collation else self._single
        return self.collate_fn(get(possibly_batched_index))

    def _single(self, index):
        raise NotImplementedError

    def _batch(self, indices):
        raise NotImplementedError


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    """Takes as many samples from a stream as there are indices."""

    def __init__(self, *how) -> None:
        super().__init__(*how)
        self.dataset_iter = iter(self.dataset)
        self.ended = False

    def _single(self, index):
        return next(self.dataset_iter)

    def _batch(self, indices):
        if self.ended:  # a stream is not asked again after its end
            raise StopIteration
        wanted = len(indices)
        samples = list(itertools.islice(self.dataset_iter, wanted))
        self.ended = len(samples) < wanted
        if not samples or (self.ended and self.drop_last):
            raise StopIteration
        return samples


class _MapDatasetFetcher(_BaseDatasetFetcher):
    """Looks samples up by index, all at once where the data set has `__getitems__`."""

    def _single(self, index):
        return self.dataset[index]

    def _batch(self, indices):
        at_once = getattr(self.dataset, "__getitems__", None)
        if at_once:
            return at_once(indices)
        return [self.dataset[index] for index in indices]
