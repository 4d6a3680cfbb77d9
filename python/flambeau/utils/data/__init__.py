"""Data sets, samplers and loaders."""
from __future__ import annotations

import importlib

from .dataloader import DataLoader, _DatasetKind, default_collate, default_convert, get_worker_info
from .dataset import (ChainDataset, ConcatDataset, Dataset, IterableDataset, StackDataset, Subset, TensorDataset,
                      random_split)
from .distributed import DistributedSampler
from .sampler import (BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler,
                      WeightedRandomSampler)

_PIPES = ("DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "argument_validation", "functional_datapipe",
          "guaranteed_datapipes_determinism", "non_deterministic", "runtime_validation",
          "runtime_validation_disabled")

__all__ = ["BatchSampler", "ChainDataset", "ConcatDataset", "DFIterDataPipe", "DataChunk", "DataLoader", "Dataset",
           "DistributedSampler", "IterDataPipe", "IterableDataset", "MapDataPipe", "RandomSampler", "Sampler",
           "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset",
           "WeightedRandomSampler", "_DatasetKind", "argument_validation", "default_collate", "default_convert",
           "functional_datapipe", "get_worker_info", "guaranteed_datapipes_determinism", "non_deterministic",
           "random_split", "runtime_validation", "runtime_validation_disabled"]


def __getattr__(name):
    if name in _PIPES:
        return getattr(importlib.import_module("flambeau.utils.data.datapipes"), name)
    if name == "datapipes":
        return importlib.import_module("flambeau.utils.data.datapipes")
    raise AttributeError(f"module 'torch.utils.data' has no attribute '{name}'")
