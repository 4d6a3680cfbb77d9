"""Standing in for torch: `python -m flambeau`, and `import flambeau.as_torch`."""
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import torch
import torch.functional as F
from torch import Tensor, special
assert torch is sys.modules["flambeau"] and F is sys.modules["flambeau.functional"]
assert torch.__spec__.name == "flambeau" and special.__name__ == "flambeau.special"
assert repr(type(torch.ones(2))) == "<class 'torch.Tensor'>"
class Thing:
    pass
import pickle
assert isinstance(pickle.loads(pickle.dumps(Thing())), Thing)
print(__name__, sys.argv[1:], torch.ones(2).tolist())
"""


def run(*arguments, **kwargs):
    done = subprocess.run([sys.executable, "-m", "flambeau", *arguments], capture_output=True, text=True, **kwargs)
    return done.returncode, done.stdout.strip(), done.stderr


def test_script(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    (tmp_path / "beside.py").write_text("")
    status, out, errors = run(str(script), "a", "--b")
    assert (status, out) == (0, "__main__ ['a', '--b'] [1.0, 1.0]"), errors


def test_code_module_and_input(tmp_path):
    assert run("-c", "import torch, sys; print(torch.Size([2]), sys.argv)", "x")[1] == "torch.Size([2]) ['-c', 'x']"
    (tmp_path / "part.py").write_text("import torch, sys; print(torch.arange(2).tolist(), sys.argv[1:], __name__)")
    assert run("-m", "part", "y", cwd=tmp_path)[1] == "[0, 1] ['y'] __main__"
    assert run("-", input="import torch; print(torch.inf)")[1] == "inf"


def test_errors_and_exit_status(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("import torch\nraise SystemExit(3)")
    assert run(str(script))[0] == 3
    script.write_text("import torch\ntorch.nonsense")
    status, _, errors = run(str(script))
    assert status == 1 and "program.py" in errors and "has no attribute 'nonsense'" in errors
    assert run("-x")[0] == 2


@pytest.fixture
def standing_in():
    from flambeau import as_torch

    as_torch.install()
    yield as_torch
    as_torch.uninstall()


def test_nothing_stays_behind(standing_in):
    import torch

    assert torch is sys.modules["flambeau"]
    standing_in.uninstall()
    assert "torch" not in sys.modules
    assert not any(isinstance(finder, standing_in.TorchFinder) for finder in sys.meta_path)


def test_classes_known_by_their_module(standing_in):
    import pickle

    from torch.utils.data import DataLoader

    assert DataLoader.__module__ == "torch.utils.data.dataloader"
    assert pickle.loads(pickle.dumps(DataLoader)) is DataLoader
    standing_in.uninstall()
    assert DataLoader.__module__ == "flambeau.utils.data.dataloader"


# `pickle.dumps([base[:3], base[3:]])` of `base = torch.arange(10.)` by PyTorch 2.13, compressed.
PLAIN_PICKLE = (
    "eNrtkbtOwzAUhp1LWymlVcXGhsQSlogGRNUJilCXiFtZslRWSEwTFOLacSoVqVKWSoCyYTYGRh6DR2FlZ0Fi4PQyMLCwc+Tflo8/HR//zvXHDx"
    "XNoy/NYkVQ7ocWzkQUp7JYxZxcZFEcYEGSlHI8suUDYLUFlsLiDYgsGjimXoAvOb3GF2NBUqAONhSEcvXeiL+eup/rVy+na1auHr1rME8YMt0G"
    "3DnkVFCfxnhEeBrRhCkAuDU4iSMhYoJJEkRewtRb14CkGA8JTqMbkjJtwnTTLUEyDSkXrOSorga7KBGs7OiuPqtBkwGrOHqWwZ2mW5nBi5YZ8u"
    "dPMLrQuDhfJA2muHVg2ju23W42d1vbrba9xRZ1/WHGNMc4Fkw/g2p9hn5jFc8y0M/I92DahwHKQc+gV9AbCHUQanTkVPakgxxtKh1lKu+KKvgR"
    "E1+AHfAF1RMeEE6Cw8gX4OpmTwrgQ80My/8O/8VhzaksHQ7rSxeJ9Q1puNVy"
)


def test_plain_pickles_of_pytorch(standing_in):
    import base64
    import pickle
    import zlib

    first, rest = pickle.loads(zlib.decompress(base64.b64decode(PLAIN_PICKLE)))
    assert first.tolist() == [0, 1, 2] and rest.tolist() == [3, 4, 5, 6, 7, 8, 9]


def test_modules_that_are_not_there(standing_in):
    with pytest.raises(ModuleNotFoundError, match="No module named 'torch.nonsense'"):
        import torch.nonsense  # noqa: F401


def test_metadata(standing_in):
    from importlib.metadata import version
    from importlib.util import find_spec

    import flambeau

    assert version("torch") == flambeau.version.__version__
    assert find_spec("torch") is not None and find_spec("torch.special") is not None


def test_spawned_processes(tmp_path):
    (tmp_path / "program.py").write_text(
        "import torch, torch.multiprocessing as mp\n"
        "def work(i, x): x[i] = i + 1\n"
        "if __name__ == '__main__':\n"
        "    x = torch.zeros(1)\n"
        "    mp.spawn(work, (x,), nprocs=1)\n"
        "    print(x.tolist(), torch.__name__)\n"
    )
    assert run(str(tmp_path / "program.py"))[1] == "[1.0] torch"
