"""Writes the type stubs of the Python package from the package itself: python3 scripts/stubs

Operators get their types from their schemas, functions and classes written in Python from their signatures, and the rest
from the files in `by_hand`: what stands there for a module comes before what is found out, name by name and member by
member. Run it with the package importable (installed, or on PYTHONPATH); `--check` only says which files differ, and what is
written by hand for other parameters than the package has.
"""

import pathlib
import sys

import core
import modules

TARGET = pathlib.Path(__file__).resolve().parents[2] / "python" / "flambeau"


def generate():
    """{path within the package: text}."""
    return {
        "py.typed": "",
        "_C.pyi": core.core(),
        "return_types.pyi": core.result_types(),
        **modules.write(),
    }


def outdated(files):
    """The files of the source tree that differ from these, or that are no longer made."""
    there = {str(p.relative_to(TARGET)) for p in TARGET.rglob("*.pyi")}
    read = lambda name: (TARGET / name).read_text() if (TARGET / name).exists() else None  # noqa: E731
    return sorted({name for name, text in files.items() if read(name) != text} | (there - set(files)))


if __name__ == "__main__":
    files = generate()
    changed = outdated(files)
    if "--check" in sys.argv:
        sys.exit("\n".join([*changed, *modules.contradictions()]) or 0)
    for name in changed:
        path = TARGET / name
        path.unlink(missing_ok=True)
        if name in files:
            path.write_text(files[name])
