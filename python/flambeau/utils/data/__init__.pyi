# Made by scripts/stubs.

from . import (
    dataloader as dataloader, datapipes as datapipes, dataset as dataset, distributed as distributed,
    sampler as sampler,
)
from ._utils.collate import default_collate as default_collate, default_convert as default_convert
from ._utils.worker import get_worker_info as get_worker_info
from .dataloader import DataLoader as DataLoader, _DatasetKind as _DatasetKind
from .datapipes import (
    DFIterDataPipe as DFIterDataPipe, DataChunk as DataChunk, IterDataPipe as IterDataPipe, MapDataPipe as MapDataPipe,
    argument_validation as argument_validation, functional_datapipe as functional_datapipe,
    guaranteed_datapipes_determinism as guaranteed_datapipes_determinism, non_deterministic as non_deterministic,
    runtime_validation as runtime_validation, runtime_validation_disabled as runtime_validation_disabled,
)
from .dataset import (
    ChainDataset as ChainDataset, ConcatDataset as ConcatDataset, Dataset as Dataset,
    IterableDataset as IterableDataset, StackDataset as StackDataset, Subset as Subset, TensorDataset as TensorDataset,
    random_split as random_split,
)
from .distributed import DistributedSampler as DistributedSampler
from .sampler import (
    BatchSampler as BatchSampler, RandomSampler as RandomSampler, Sampler as Sampler,
    SequentialSampler as SequentialSampler, SubsetRandomSampler as SubsetRandomSampler,
    WeightedRandomSampler as WeightedRandomSampler,
)
