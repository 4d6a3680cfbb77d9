"""Writes docs/api.md, which says how much of PyTorch's public interface exists: python3 scripts/api

`public_names.txt` lists that interface (PyTorch 2.13): a line for each name, with its parameters if it is written in Python,
and below a class its members with a dot. `absent.txt` says why what is absent is absent. Run it with the package importable;
`--check` only says what is wrong.
"""

import pathlib
import sys

import compare
import document

TARGET = pathlib.Path(__file__).resolve().parents[2] / "docs" / "api.md"


def problems(text, found):
    """What a reader of the document would be told wrongly."""
    if found.unexplained:
        yield f"absent without a reason: {' '.join(found.unexplained)}"
    if found.stale:
        yield f"in absent.txt although they exist: {' '.join(found.stale)}"
    if not TARGET.exists() or TARGET.read_text() != text:
        yield "docs/api.md is not what scripts/api writes"


if __name__ == "__main__":
    found = compare.interface()
    text = document.write(found)
    if "--check" not in sys.argv:
        TARGET.write_text(text)
    sys.exit("\n".join(problems(text, found)) or 0)
