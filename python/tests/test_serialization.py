"""Files: recorded ones, round trips, and what bad ones get."""
import base64
import collections
import copy
import io
import json
import os
import pathlib
import pickle
import zipfile

import pytest

import flambeau as fl
from flambeau import serialization as s

RECORDED = json.loads((pathlib.Path(__file__).parent / "data" / "recorded_training.json").read_text())


def check(loaded):
    a = fl.arange(6.0).reshape(2, 3)
    assert fl.equal(loaded["a"], a) and fl.equal(loaded["v"], a[1]) and fl.equal(loaded["t"], a.t())
    assert loaded["v"].untyped_storage().data_ptr() == loaded["a"].untyped_storage().data_ptr()
    assert loaded["t"].stride() == (1, 3) and loaded["h"].dtype == fl.float16 and loaded["b"].dtype == fl.bool
    assert loaded["p"].requires_grad and fl.equal(loaded["sp"].to_dense(), a)
    assert loaded["i"] == 3 and loaded["l"] == [1, "x", None, (2.5,)] and loaded["d"] == fl.float32
    assert loaded["s"] == fl.Size([1]) and loaded["dev"] == fl.device("cpu")


def dumped(obj, **options):
    file = io.BytesIO()
    s.save(obj, file, **options)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["zip", "legacy"])
@pytest.mark.parametrize("weights_only", [True, False])
def test_recorded_files(kind, weights_only):
    loaded = s.load(io.BytesIO(base64.b64decode(RECORDED["file_" + kind])), weights_only=weights_only)
    check(loaded)
    again = dumped(loaded, _use_new_zipfile_serialization=kind == "zip")
    check(s.load(io.BytesIO(again), weights_only=weights_only))


def test_layout_of_the_container():
    data = dumped({"a": fl.ones(3)})
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        names = [n.partition("/")[2] for n in archive.namelist()]
        assert names == ["data.pkl", ".format_version", ".storage_alignment", "byteorder", "data/0", "version",
                         ".data/serialization_id"]
        entry = archive.getinfo("archive/data/0")
        head = data[entry.header_offset:entry.header_offset + 30]
        start = entry.header_offset + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
        assert start % 64 == 0
        assert b"torch._utils\n_rebuild_tensor_v2" in archive.read("archive/data.pkl")


def test_files_are_whole_or_not_there(tmp_path):
    class Unpicklable:
        def __reduce__(self):
            raise ValueError("no")

    path = tmp_path / "x.pt"
    s.save({"a": fl.ones(2)}, path)
    with pytest.raises(ValueError):
        s.save([fl.ones(1000), Unpicklable()], path)
    assert fl.equal(s.load(path)["a"], fl.ones(2))
    assert os.listdir(tmp_path) == ["x.pt"]
    with pytest.raises(RuntimeError, match="Parent directory .* does not exist."):
        s.save(1, tmp_path / "no" / "x.pt")


def test_mapped_files(tmp_path):
    path = str(tmp_path / "x.pt")
    s.save({"a": fl.arange(100.0)}, path)
    loaded = s.load(path, mmap=True)["a"]
    loaded += 1
    assert loaded[0].item() == 1 and s.load(path)["a"][0].item() == 0
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        s.load(io.BytesIO(dumped(fl.ones(2))), mmap=True)


class Evil:
    def __reduce__(self):
        return os.system, ("echo broken-in > /dev/null",)


class Own:
    def __init__(self):
        self.x = 1


def test_nothing_runs_from_a_file():
    with pytest.raises(pickle.UnpicklingError, match="whose module posix is blocked"):
        s.load(io.BytesIO(dumped(Evil())))
    with pytest.raises(pickle.UnpicklingError, match="Unsupported global: GLOBAL .*Own was not an allowed global"):
        s.load(io.BytesIO(dumped(Own())))
    assert s.get_unsafe_globals_in_checkpoint(io.BytesIO(dumped(Evil()))) == ["posix.system"]
    with s.safe_globals([Own]):
        assert s.load(io.BytesIO(dumped(Own()))).x == 1
    assert s.get_safe_globals() == []


def container(code):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", code)
        archive.writestr("archive/byteorder", "little")
        archive.writestr("archive/version", "3\n")
    return io.BytesIO(file.getvalue())


@pytest.mark.parametrize("code,error", [
    (b"\x80\x02c__builtin__\neval\nX\x01\x00\x00\x001\x85R.", pickle.UnpicklingError),
    (b"\x80\x02K\x01K\x02R.", pickle.UnpicklingError), (b"\x80\x02]\xff.", pickle.UnpicklingError),
    (b"\x80\x02N}b.", pickle.UnpicklingError), (b"\x80\x02ctorch\nload\n.", pickle.UnpicklingError),
    (b"\x80\x02X\x07\x00\x00\x00storageQ.", pickle.UnpicklingError), (b"\x80\x02", EOFError), (b"\x80\x02h\x05.", KeyError),
    (b"\x80\x02(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ.", RuntimeError),
    (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R.", TypeError),
])
def test_hostile_pickles(code, error):
    with pytest.raises(error):
        s.load(container(code))


def test_corrupt_and_truncated_files():
    a = fl.arange(6.0)
    data = dumped({"a": a})
    with pytest.raises(RuntimeError, match="PytorchStreamReader failed reading zip archive: failed finding central dir"):
        s.load(io.BytesIO(data[: len(data) // 2]))
    broken = bytearray(data)
    broken[data.index(bytes(a.view(fl.uint8).tolist()))] ^= 1
    with pytest.raises(RuntimeError, match="CRC-32 check failed"):
        s.load(io.BytesIO(broken))
    with pytest.raises(EOFError):
        s.load(io.BytesIO(b""))
    for cut in range(0, len(data), 37):
        with pytest.raises(Exception):
            s.load(io.BytesIO(data[:cut]))


def test_devices():
    data = dumped({"a": fl.ones(2)})
    assert s.load(io.BytesIO(data), map_location="meta")["a"].device.type == "meta"
    assert s.load(io.BytesIO(data), map_location=lambda storage, location: storage)["a"].tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="don't know how to restore data location of torch.*UntypedStorage"):
        s.load(io.BytesIO(data), map_location="bogus")


def test_modules_and_counters():
    obj = collections.Counter("aab"), fl.nn.Linear(2, 2)
    loaded = s.load(io.BytesIO(dumped(obj)), weights_only=False)
    assert loaded[0] == obj[0] and fl.equal(loaded[1].weight, obj[1].weight)


def test_files_as_memory(tmp_path):
    path = str(tmp_path / "numbers")
    fl.from_file(path, shared=True, size=4, dtype=fl.int32).copy_(fl.arange(4))
    assert fl.UntypedStorage.from_file(path, False, 16).tolist()[4] == 1
    private = fl.from_file(path, size=2, dtype=fl.int32)
    private.zero_()
    assert fl.from_file(path, size=2, dtype=fl.int32).tolist() == [0, 1]
    with pytest.raises(RuntimeError, match=r"size <16> is smaller than the required mapping size <32>"):
        fl.from_file(path, size=8, dtype=fl.int32)
    with pytest.raises(RuntimeError, match=r"unable to open file <.*> in read-only mode: No such file or directory \(2\)"):
        fl.from_file(path + "x", size=8)


def test_archives_by_record(tmp_path):
    path = str(tmp_path / "weights.pt")
    fl.save({"x": fl.arange(3)}, path)
    reader = fl.PyTorchFileReader(path)
    assert reader.version() == 3 and {"data.pkl", "data/0"} <= set(reader.get_all_records())
    assert reader.get_storage_from_record("data/0", 3, fl.int64).tolist() == [0, 1, 2]
    assert reader.get_storage_from_record("data/0", 24, fl.UntypedStorage).untyped_storage().nbytes() == 24
    other = str(tmp_path / "other.pt")
    writer = fl.PyTorchFileWriter(other)
    for name in ("data.pkl", "byteorder", "data/0"):
        data = reader.get_record(name)
        writer.write_record(name, data, len(data))
    writer.write_end_of_file()
    assert fl.load(other)["x"].tolist() == [0, 1, 2] and writer.archive_name() == "other"


@pytest.mark.parametrize("n", [0, 1, 15, 16, 63, 64, 65, 80, 127, 128, 1000, 4095, 4096, 70001, 1 << 20, (1 << 20) + 7])
def test_checksums_are_those_of_zip_files(n):
    file = io.BytesIO()
    s.save(fl.arange(n).to(fl.uint8), file)
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        assert archive.read("archive/data/0") == bytes(i % 256 for i in range(n))
    file.seek(0)
    assert fl.equal(s.load(file), fl.arange(n).to(fl.uint8))


def test_generators_are_saved_and_copied():
    generator = fl.Generator().manual_seed(7)
    fl.rand(3, generator=generator)
    file = io.BytesIO(dumped({"generator": generator}))
    made = [copy.deepcopy(generator), copy.copy(generator), pickle.loads(pickle.dumps(generator)), generator.clone_state(),
            s.load(file, weights_only=False)["generator"]]
    expected = fl.rand(3, generator=generator)
    for other in made:
        assert type(other) is fl.Generator and other.initial_seed() == 7
        assert fl.equal(fl.rand(3, generator=other), expected)
    shared = copy.deepcopy([generator, generator])
    assert shared[0] is shared[1] is not generator
    # Only who allows it reads one from a file of weights; the name in the file is PyTorch's.
    with pytest.raises(pickle.UnpicklingError, match="torch._C.Generator"):
        s.load(file)
    file.seek(0)
    with s.safe_globals([fl.Generator]):
        assert s.load(file)["generator"].initial_seed() == 7
    kind, arguments, state = generator.__reduce__()
    assert (kind, arguments, state[:2]) == (fl.Generator, (fl.device("cpu"),), (7, None))
    generator.__setstate__((5, None, fl.Generator().manual_seed(9).get_state()))
    assert generator.initial_seed() == 9


def test_what_generators_of_this_device_have_not():
    generator = fl.Generator()
    for call in (generator.get_offset, lambda: generator.set_offset(1)):
        with pytest.raises(RuntimeError, match="CPU Generator does not use offset"):
            call()
    for call in (generator.graphsafe_get_state, lambda: generator.graphsafe_set_state(generator)):
        with pytest.raises(NotImplementedError, match="is not supported in this Generator"):
            call()


def test_functions_are_saved_under_pytorchs_names():
    data = dumped({"init": fl.nn.init.xavier_uniform_})
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert b"torch.nn.init\nxavier_uniform_" in archive.read("archive/data.pkl")
    assert s.load(io.BytesIO(data), weights_only=False)["init"] is fl.nn.init.xavier_uniform_


def test_what_cannot_be_saved_is_said_as_by_pickle(tmp_path):
    class Local:
        pass

    path = tmp_path / "a.pt"
    s.save({"a": 1}, path)
    for thing, error, text in ((lambda: 1, AttributeError, "Can't (pickle|get) local object .*<lambda>"),
                               ([fl.ones(2), Local()], AttributeError, "Can't (pickle|get) local object .*Local"),
                               (_misplaced, pickle.PicklingError, "attribute lookup nowhere on .* failed|not found as .*nowhere")):
        with pytest.raises((error, pickle.PicklingError), match=text):
            s.save(thing, path)
    # What was there before is still there: better than PyTorch's, on purpose.
    assert s.load(path) == {"a": 1} and os.listdir(tmp_path) == ["a.pt"]


def _misplaced():
    pass


_misplaced.__qualname__ = _misplaced.__name__ = "nowhere"
