"""The document about PyTorch's interface says what is there, and why what is absent is."""

import pathlib
import subprocess
import sys

API = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts" / "api"


def test_document_is_true():
    done = subprocess.run([sys.executable, str(API), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"run `python3 scripts/api`, with this package importable:\n{done.stdout}{done.stderr}"


def test_arguments_are_compared():
    sys.path.insert(0, str(API))
    try:
        from compare import _agree, _split
    finally:
        sys.path.remove(str(API))
    theirs = _split("(a, b=1, *, c=None)")
    assert _agree(theirs, theirs) and _agree(theirs, _split("(a, b=1, more=2, *, c=None)"))
    assert _agree(theirs, _split("(*args, **kwargs)")) and _agree(theirs, _split("(a, b=1, c=None)"))
    for other in ("(a, b=2, *, c=None)", "(b=1, a=0, *, c=None)", "(a, *, b=1, c=None)", "(a, b=1)"):
        assert not _agree(theirs, _split(other)), other
