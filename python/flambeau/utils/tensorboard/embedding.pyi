# Made by scripts/stubs.
from builtins import int as _int
from typing import Any

from .summary import encode_png as encode_png, make_grid as make_grid
def write_embedding(folder: str, points: Any, metadata: Any, images: Any, step: _int, encoded_tag: str, tag: str, header: Any) -> None: ...
