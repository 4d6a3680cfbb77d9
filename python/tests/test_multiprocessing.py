"""Processes that share tensors, and what is raised when one of them fails."""
import gc
import multiprocessing.reduction as reduction
import os
import pickle

import flambeau as torch
import flambeau.multiprocessing as mp
import pytest


def add_one(index, tensor, parameter):
    tensor[index] += 1
    with torch.no_grad():
        parameter.mul_(2)


def test_memory_is_shared():
    tensor, parameter = torch.zeros(2), torch.nn.Parameter(torch.ones(1))
    mp.spawn(add_one, (tensor, parameter), nprocs=1)
    assert tensor.tolist() == [1, 0] and parameter.tolist() == [2] and tensor.is_shared()
    mp.start_processes(add_one, (tensor, parameter), nprocs=2, start_method="fork")
    assert tensor.tolist() == [2, 1]


def answer(questions, answers):
    for tensor in iter(questions.get, None):
        answers.put((tensor.detach().sum(), tensor.requires_grad))


def test_queues():
    context = mp.get_context("fork")
    questions, answers = context.Queue(), context.Queue()
    process = context.Process(target=answer, args=(questions, answers), daemon=True)
    process.start()
    for tensor in (torch.arange(6.0).view(2, 3).t(), torch.ones(3, requires_grad=True), torch.empty(0)):
        questions.put(tensor)
        total, needs = answers.get(timeout=20)
        assert total.item() == tensor.sum().item() and needs == tensor.requires_grad
    questions.put(None)
    process.join(20)
    assert process.exitcode == 0


def test_sharing_strategies():
    """Programs choose one by name when they start."""
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    before = mp.get_sharing_strategy()
    try:
        mp.set_sharing_strategy("file_system")
        assert mp.get_sharing_strategy() == "file_system"
        tensor, parameter = torch.zeros(2).share_memory_(), torch.nn.Parameter(torch.ones(1))
        mp.start_processes(add_one, (tensor, parameter), nprocs=2, start_method="fork")
        assert tensor.tolist() == [1, 1]
    finally:
        mp.set_sharing_strategy(before)
    with pytest.raises(AssertionError, match="invalid sharing strategy 'names'"):
        mp.set_sharing_strategy("names")


def test_descriptors_are_closed():
    gc.collect()  # what earlier tests left open
    count = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else None
    tensor = torch.ones(4).share_memory_()
    assert tensor.is_shared() and tensor.tolist() == [1] * 4
    del tensor
    assert count is None or len(os.listdir("/proc/self/fd")) <= count  # threads of earlier tests may end meanwhile
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor which requires_grad"):
        reduction.ForkingPickler.dumps(torch.ones(1, requires_grad=True) * 2)


def fail(index):
    if index == 1:
        raise ValueError("bad luck")


def leave(index):
    os._exit(3)


def test_failures():
    with pytest.raises(mp.ProcessRaisedException, match="-- Process 1 terminated with the following error:") as caught:
        mp.start_processes(fail, nprocs=2, start_method="fork")
    assert "ValueError: bad luck" in str(caught.value) and caught.value.error_index == 1
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with exit code 3") as caught:
        mp.start_processes(leave, nprocs=1, start_method="fork")
    assert pickle.loads(pickle.dumps(caught.value)).exit_code == 3
