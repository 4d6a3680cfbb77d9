"""The files of the embedding projector."""
from __future__ import annotations

import math
import os

import flambeau as _fl

from .summary import _pixels, encode_png, make_grid


def write_embedding(folder: str, points, metadata, images, step: int, encoded_tag: str, tag: str, header) -> None:
    """Points, labels and a sheet of small images, and an entry in the projector's list."""
    sub = f"{str(step).zfill(5)}/{encoded_tag}"
    path = os.path.join(folder, sub)
    if os.path.isdir(path):
        print("warning: Embedding dir exists, did you set global_step for add_embedding()?")
    os.makedirs(path, exist_ok=True)
    if metadata is not None:
        assert points.shape[0] == len(metadata), "#labels should equal with #data points"
        rows = ["\t".join(map(str, r)) for r in [header, *metadata]] if header else [str(m) for m in metadata]
        with open(os.path.join(path, "metadata.tsv"), "w", encoding="utf-8") as file:
            file.write("\n".join(rows) + "\n")
    size = None
    if images is not None:
        assert points.shape[0] == images.shape[0], "#images should equal with #data points"
        size = (images.shape[3], images.shape[2])
        side = math.ceil(math.sqrt(images.shape[0]))
        blank = _fl.zeros(side * side - images.shape[0], *images.shape[1:], dtype=images.dtype)
        sheet = _pixels(make_grid(_fl.cat([images, blank]), side)).permute(1, 2, 0).contiguous()
        with open(os.path.join(path, "sprite.png"), "wb") as file:
            file.write(encode_png(bytes(sheet.reshape(-1).tolist()), *sheet.shape))
    assert points.ndim == 2, "mat should be 2D, where mat.size(0) is the number of data points"
    with open(os.path.join(path, "tensors.tsv"), "w", encoding="utf-8") as file:
        for row in points.tolist():
            file.write("\t".join(map(str, row)) + "\n")
    lines = ["embeddings {", f'tensor_name: "{tag}:{str(step).zfill(5)}"', f'tensor_path: "{sub}/tensors.tsv"']
    if metadata is not None:
        lines.append(f'metadata_path: "{sub}/metadata.tsv"')
    if size is not None:
        lines += ["sprite {", f'image_path: "{sub}/sprite.png"', f"single_image_dim: {size[0]}",
                  f"single_image_dim: {size[1]}", "}"]
    with open(os.path.join(folder, "projector_config.pbtxt"), "a", encoding="utf-8") as file:
        file.write("\n".join([*lines, "}"]) + "\n")
