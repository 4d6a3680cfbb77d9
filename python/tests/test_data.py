"""Data sets, samplers and loaders."""
import json
import os
import pathlib

import pytest

import flambeau as fl
from flambeau.utils.data import (ChainDataset, ConcatDataset, DataLoader, Dataset, IterableDataset, RandomSampler,
                                 StackDataset, Subset, SubsetRandomSampler, TensorDataset, WeightedRandomSampler,
                                 default_collate, get_worker_info, random_split)

RECORDED = json.loads((pathlib.Path(__file__).parent / "data" / "recorded_training.json").read_text())
R = list(range(10))


class Rows(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, i):
        return {"x": fl.full((50, 60), float(i)), "i": i, "s": "a" * i}


class Failing(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        if i == 2:
            raise KeyError("boo")
        return i


class Dying(Failing):
    def __getitem__(self, i):
        os._exit(3)


class Slow(Failing):
    def __getitem__(self, i):
        import time

        time.sleep(5)


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        worker = 0 if info is None else info.id
        return iter(range(worker * 100, worker * 100 + 2 + 3 * worker))


class Seeds(Failing):
    def __len__(self):
        return 1

    def __getitem__(self, i):
        import random

        return [str(get_worker_info().seed), random.random()]


def test_samplers_draw_the_recorded_orders():
    fl.manual_seed(3)
    drawn = [list(RandomSampler(R)), list(RandomSampler(R, True, 12)), list(RandomSampler(R, False, 25)),
             list(SubsetRandomSampler(R)), list(WeightedRandomSampler([1.0, 2, 3], 5)),
             list(WeightedRandomSampler([1.0, 2, 3], 3, False))]
    assert drawn == RECORDED["samplers"]
    fl.manual_seed(3)
    assert [b.tolist() for b in DataLoader(R, 4, True)] == RECORDED["loader"]
    assert [s.indices for s in random_split(R, [0.35, 0.35, 0.3], fl.Generator().manual_seed(1))] == RECORDED["split"]


def test_numpy_seeds_of_workers():
    from flambeau.utils.data._utils.worker import _generate_state

    assert [_generate_state(5, 1), _generate_state(2**40 + 3, 2)] == RECORDED["state"]


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_give_the_same_batches(persistent):
    fl.manual_seed(3)
    loader = DataLoader(Rows(), 4, True, num_workers=2, persistent_workers=persistent)
    batches = list(loader)
    assert [b["i"].tolist() for b in batches] == RECORDED["loader"]
    assert all(float(x[0, 0]) == i for b in batches for x, i in zip(b["x"], b["i"].tolist()))
    assert sorted(i for b in loader for i in b["i"].tolist()) == R
    for _ in loader:
        break
    assert len(list(loader)) == 3


def test_streams_of_unequal_length():
    assert sorted(int(x) for x in DataLoader(Stream(), num_workers=2)) == [0, 1, 100, 101, 102, 103, 104]
    assert sorted(int(x) for x in DataLoader(Stream(), num_workers=2, in_order=False)) == [0, 1, 100, 101, 102, 103, 104]


def test_worker_seeds():
    fl.manual_seed(0)
    (seed,), number = next(iter(DataLoader(Seeds(), num_workers=1)))
    assert seed == "900450186894289455"
    assert number.item() == 0.21315340548154382


def test_failures_of_workers_are_reported():
    with pytest.raises(KeyError) as caught:
        list(DataLoader(Failing(), num_workers=2))
    assert "Caught KeyError in DataLoader worker process 0.\nOriginal Traceback" in str(caught.value)
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly"):
        list(DataLoader(Dying(), num_workers=1))
    with pytest.raises(RuntimeError, match="DataLoader timed out after 1 seconds"):
        list(DataLoader(Slow(), num_workers=1, timeout=1))


def test_data_sets():
    pairs = TensorDataset(fl.arange(4), fl.arange(4) * 2)
    assert [int(v) for v in pairs[3]] == [3, 6]
    joined = ConcatDataset([R, [10, 11]])
    assert len(joined) == 12 and joined[10] == 10 and joined[-1] == 11
    assert list(ChainDataset([Stream(), Stream()])) == [0, 1, 0, 1]
    assert StackDataset(a=R, b=R)[2] == {"a": 2, "b": 2}
    assert Subset(R, [4, 5]).__getitems__([1]) == [5]


def test_collate():
    batch = default_collate([{"a": 1, "b": (2.0, "x")}, {"a": 3, "b": (4.0, "y")}])
    assert batch["a"].tolist() == [1, 3] and batch["b"][0].dtype == fl.float64 and batch["b"][1] == ("x", "y")
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors, numpy arrays, numbers"):
        default_collate([object()])
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        default_collate([[1, 2], [1]])


@pytest.mark.parametrize("options,text", [
    (dict(num_workers=-1), "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."),
    (dict(batch_size=0), "batch_size should be a positive integer value, but got batch_size=0"),
    (dict(sampler=[1], shuffle=True), "sampler option is mutually exclusive with shuffle"),
    (dict(persistent_workers=True), "persistent_workers option needs num_workers > 0"),
])
def test_errors(options, text):
    with pytest.raises(ValueError) as caught:
        DataLoader(R, **options)
    assert str(caught.value) == text
