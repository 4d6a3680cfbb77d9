"""The committed type stubs: made by scripts/stubs from this package, and of use to type checkers."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import flambeau
import pytest

HERE = pathlib.Path(__file__).resolve().parent
SAMPLES = [HERE / "typed_sample.py", HERE / "typed_training.py"]


def run(*command, **environment):
    result = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True,
                            env={**os.environ, **environment})  # fmt: skip
    return result.returncode, result.stdout + result.stderr


def test_stubs_are_those_of_the_package():
    status, text = run(HERE.parent.parent / "scripts" / "stubs", "--check")
    assert status == 0, f"run `python3 scripts/stubs`, with this package importable: what it makes differs in\n{text}"


def test_samples_are_well_typed(tmp_path):
    if importlib.util.find_spec("mypy") is None:
        return
    folder = pathlib.Path(flambeau.__file__).parent.parent
    # mypy finds installed packages by itself.
    path = {} if folder.name == "site-packages" else {"MYPYPATH": str(folder)}
    status, text = run("-m", "mypy", "--strict", "--cache-dir", tmp_path, *SAMPLES, **path)
    assert status == 0, text


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_sample_runs(sample):
    status, text = run(sample)
    assert status == 0, text
