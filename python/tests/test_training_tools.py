"""Comparison, mixed precision, checkpointing, event files, the hub and random states."""
import json
import pathlib
import struct

import pytest

import flambeau as fl
from flambeau import amp, hub, optim, random, testing
from flambeau.utils import checkpoint as cp
from flambeau.utils.tensorboard import SummaryWriter
from flambeau.utils.tensorboard._record import crc32c, masked_crc32c

RECORDED = json.loads((pathlib.Path(__file__).parent / "data" / "recorded_training.json").read_text())


def message(actual, expected, **options):
    with pytest.raises(AssertionError) as caught:
        testing.assert_close(actual, expected, **options)
    return str(caught.value)


def test_assert_close_messages():
    a = fl.arange(6.0).reshape(2, 3)
    testing.assert_close(a, a + 1e-7)
    testing.assert_close([a, {"k": a}], [a, {"k": a}])
    assert message(a, a + 1) == (
        "Tensor-likes are not close!\n\nMismatched elements: 6 / 6 (100.0%)\nGreatest absolute difference: 1.0 at index "
        "(0, 0) (up to 1e-05 allowed)\nGreatest relative difference: 1.0 at index (0, 0) (up to 1.3e-06 allowed)")
    assert message({"a": [1.0]}, {"a": [1.5]}).endswith("\n\nThe failure occurred for item ['a'][0]")
    assert message(1, 2) == "Scalars are not equal!\n\nExpected 2 but got 1.\nAbsolute difference: 1\nRelative difference: 0.5"
    assert message(a, a.double()) == "The values for attribute 'dtype' do not match: torch.float32 != torch.float64."
    assert message(a, a[:1]) == ("The values for attribute 'shape' do not match: torch.Size([2, 3]) != "
                                 "torch.Size([1, 3]).")
    assert message(a, a + 1, msg="own") == "own"
    assert message([1], [1, 2]) == "The length of the sequences mismatch: 1 != 2"
    with pytest.raises(ValueError, match="Both 'rtol' and 'atol' must be either specified or omitted"):
        testing.assert_close(a, a, rtol=1)
    with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of type"):
        testing.assert_close("a", "a")


def test_make_tensor():
    fl.manual_seed(0)
    for dtype, numbers in zip((fl.float32, fl.int64, fl.bool), RECORDED["make"]):
        made = testing.make_tensor(2, 3, dtype=dtype, device="cpu")
        assert made.double().flatten().tolist() == pytest.approx(numbers)
    assert not testing.make_tensor(2, 3, dtype=fl.float32, device="cpu", noncontiguous=True).is_contiguous()


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint(reentrant):
    lin = fl.nn.Linear(3, 3)
    x = fl.ones(2, 3, requires_grad=True)

    def block(v):
        return fl.nn.functional.dropout(lin(v)).sin()

    fl.manual_seed(0)
    block(x).sum().backward()
    plain, x.grad = x.grad, None
    fl.manual_seed(0)
    cp.checkpoint(block, x, use_reentrant=reentrant).sum().backward()
    assert fl.equal(x.grad, plain)


def test_checkpoint_notices_another_computation():
    calls = []

    def block(v):
        calls.append(1)
        return v.sin().exp() if len(calls) == 1 else v.sin()

    with pytest.raises(cp.CheckpointError, match="A different number of tensors was saved"):
        cp.checkpoint(block, fl.ones(2, requires_grad=True), use_reentrant=False).sum().backward()


def test_grad_scaler():
    p = fl.nn.Parameter(fl.ones(2))
    optimizer = optim.SGD([p], lr=0.1)
    scaler = amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
    scaler.scale(p.sum()).backward()
    assert p.grad.tolist() == [4, 4]
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == pytest.approx([0.9, 0.9]) and scaler.get_scale() == 8.0
    p.grad = fl.tensor([float("inf"), 1.0])
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == pytest.approx([0.9, 0.9]) and scaler.get_scale() == 4.0


def test_autocast():
    a = fl.ones(2, 3)
    with amp.autocast("cpu"):
        assert (a @ a.t()).dtype == fl.bfloat16 and a.sin().dtype == fl.float32
        with amp.autocast("cpu", enabled=False):
            assert (a @ a.t()).dtype == fl.float32
    assert (a @ a.t()).dtype == fl.float32


def test_older_names_of_mixed_precision():
    with pytest.warns(FutureWarning, match=r"`torch.cuda.amp.autocast\(args...\)` is deprecated. .*autocast\('cuda', args...\)"):
        with pytest.warns(UserWarning, match="CUDA is not available"):
            block = fl.cuda.amp.autocast()
    with block:
        assert fl.mm(fl.ones(2, 2), fl.ones(2, 2)).dtype == fl.float32
    with pytest.warns(FutureWarning, match=r"torch.amp.GradScaler\('cuda', args...\)"):
        assert not fl.cuda.amp.GradScaler(enabled=False).is_enabled()
    with pytest.warns(FutureWarning, match=r"torch.cpu.amp.autocast"), fl.cpu.amp.autocast():
        assert fl.mm(fl.ones(2, 2), fl.ones(2, 2)).dtype == fl.bfloat16
    with pytest.warns(FutureWarning, match=r"torch.cpu.amp.GradScaler"):
        assert fl.cpu.amp.GradScaler(init_scale=4.0).get_scale() == 4
    with pytest.warns(FutureWarning, match=r"torch.amp.custom_[fb]wd\(args..., device_type='cuda'\)"):

        class Double(fl.autograd.Function):
            @staticmethod
            @fl.cuda.amp.custom_fwd
            def forward(ctx, x):
                return x * 2

            @staticmethod
            @fl.cuda.amp.custom_bwd
            def backward(ctx, g):
                return g * 2

    x = fl.ones(2, requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_random_states():
    random.manual_seed(3)
    state = random.get_rng_state()
    first = fl.rand(2)
    random.set_rng_state(state)
    with random.fork_rng():
        fl.rand(5)
    assert fl.equal(fl.rand(2), first) and random.initial_seed() == 3


def test_event_files(tmp_path):
    assert crc32c(b"123456789") == 0xE3069283
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 0.5, 7)
        writer.add_histogram("h", fl.arange(10.0))
        writer.add_image("i", fl.rand(3, 4, 5))
        writer.add_scalar("exact", 0.1, 7, new_style=True, double_precision=True)
    (path,) = tmp_path.iterdir()
    data, events = path.read_bytes(), []
    while data:
        (n,) = struct.unpack("<Q", data[:8])
        assert masked_crc32c(data[:8]) == data[8:12] and masked_crc32c(data[12:12 + n]) == data[12 + n:16 + n]
        events.append(data[12:12 + n])
        data = data[16 + n:]
    assert len(events) == 5 and struct.pack("<d", 0.1) in events[4] and b"brain.Event:2" in events[0] and b"loss" in events[1] and b"\x89PNG" in events[3]


def test_local_hub(tmp_path):
    (tmp_path / "hubconf.py").write_text("dependencies = ['json']\ndef model(k=1):\n    'doc'\n    return k + 1\n")
    assert hub.load(str(tmp_path), "model", source="local", k=4) == 5
    with pytest.raises(RuntimeError, match="Cannot find callable other in hubconf"):
        hub.load(str(tmp_path), "other", source="local")
