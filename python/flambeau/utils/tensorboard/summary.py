"""The summaries of event files: scalars, histograms, images, sounds, texts, curves, meshes and hyperparameters."""
from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import flambeau as _fl

from ._record import BYTES, DOUBLE, FLOAT, INT, message

_DT_FLOAT, _DT_DOUBLE, _DT_STRING = 1, 2, 7


def as_tensor(x: Any):
    """A CPU tensor of numbers, arrays, lists or tensors."""
    if isinstance(x, _fl.Tensor):
        return x.detach().cpu()
    if isinstance(x, str):
        raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")
    if isinstance(x, (list, tuple)) and x and isinstance(x[0], _fl.Tensor):
        return _fl.stack([t.detach().cpu() for t in x])
    try:
        return _fl.as_tensor(x)
    except (TypeError, ValueError):
        raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.") from None


def _value(tag: str, *fields: tuple) -> bytes:
    return message((1, BYTES, message((1, BYTES, tag), *fields)))


def _metadata(plugin: str, content: bytes = b"", display_name: str | None = None, description: str | None = None,
              data_class: int | None = None) -> bytes:
    return message((1, BYTES, message((1, BYTES, plugin), (2, BYTES, content))), (2, BYTES, display_name or None),
                   (3, BYTES, description or None), (4, INT, data_class))


def _tensor(dtype: int, shape, *fields: tuple) -> bytes:
    dims = message(*((2, BYTES, message((1, INT, n))) for n in shape))
    return message((1, INT, dtype), (2, BYTES, dims), *fields)


def scalar(name: str, value, new_style: bool = False, double_precision: bool = False) -> bytes:
    """One number."""
    if isinstance(value, (int, float)):  # with all its digits
        number = float(value)
    else:
        tensor = as_tensor(value).squeeze()
        assert tensor.ndim == 0, (f"Tensor should contain one element (0 dimensions). Was given size: {tensor.numel()} and "
                                  f"{tensor.ndim} dimensions.")
        number = float(tensor)
    if not new_style:
        return _value(name, (2, FLOAT, number))
    if double_precision:
        proto = _tensor(_DT_DOUBLE, (), (6, DOUBLE, [number]))
    else:
        proto = _tensor(_DT_FLOAT, (), (5, FLOAT, [number]))
    return _value(name, (9, BYTES, _metadata("scalars", data_class=1)), (8, BYTES, proto))


def tensor_proto(tag: str, tensor) -> bytes:
    """A tensor as it is."""
    codes = {_fl.float16: 19, _fl.bfloat16: 14, _fl.float32: 1, _fl.float64: 2, _fl.uint8: 4, _fl.int16: 5, _fl.int32: 3,
             _fl.int64: 9, _fl.bool: 10, _fl.complex64: 8, _fl.complex128: 18}
    if tensor.dtype not in codes:
        raise ValueError(f"{tag} has unsupported tensor dtype {tensor.dtype}")
    flat = tensor.detach().cpu().contiguous()
    raw = bytes(flat.reshape(-1).view(_fl.uint8).tolist()) if flat.numel() else b""
    proto = _tensor(codes[tensor.dtype], tensor.shape, (4, BYTES, raw))
    return _value(tag, (9, BYTES, _metadata("tensor")), (8, BYTES, proto))


def default_bins() -> list[float]:
    """Limits that grow by a tenth each, on both sides of zero."""
    v, up = 1e-12, []
    while v < 1e20:
        up.append(v)
        v *= 1.1
    return [-v for v in reversed(up)] + [0.0] + up


def _limits(values, bins) -> list[float]:
    if bins == "tensorflow":
        return default_bins()
    if isinstance(bins, int):
        low, high = float(values.min()), float(values.max())
        if low == high:
            low, high = low - 0.5, high + 0.5
        return [low + (high - low) * i / bins for i in range(bins)] + [high]
    if isinstance(bins, str):
        import numpy

        return numpy.histogram_bin_edges(values.numpy(), bins=bins).tolist()
    return [float(b) for b in as_tensor(bins).tolist()]


def histogram(name: str, values, bins="tensorflow", max_bins: int | None = None) -> bytes:
    """How values are distributed."""
    values = as_tensor(values).reshape(-1).to(_fl.float64)
    if values.numel() == 0:
        raise ValueError("The input has no element.")
    limits = _limits(values, bins)
    edges = _fl.tensor(limits, dtype=_fl.float64)
    where = _fl.bucketize(values, edges, right=True) - 1
    where[values == edges[-1]] = len(limits) - 2
    inside = where[(where >= 0) & (where < len(limits) - 1)]
    counts = _fl.bincount(inside, minlength=len(limits) - 1).tolist()
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        counts += [0] * (-len(counts) % step)
        counts = [sum(counts[i:i + step]) for i in range(0, len(counts), step)]
        last = limits[-1]
        limits = limits[:-1][::step] + [last]
    filled = [i for i, c in enumerate(counts) if c > 0]
    if not filled:
        raise ValueError("The histogram is empty, please file a bug report.")
    start, end = filled[0], filled[-1] + 1
    counts = counts[start - 1:end] if start > 0 else [0] + counts[:end]
    limits = limits[start:end + 1]
    return histogram_raw(name, float(values.min()), float(values.max()), values.numel(), float(values.sum()),
                         float(values.dot(values)), limits, counts)


def histogram_raw(name: str, min, max, num, sum, sum_squares, bucket_limits, bucket_counts) -> bytes:
    """A histogram made elsewhere."""
    proto = message((1, DOUBLE, min), (2, DOUBLE, max), (3, DOUBLE, num), (4, DOUBLE, sum), (5, DOUBLE, sum_squares),
                    (6, DOUBLE, [float(v) for v in bucket_limits]), (7, DOUBLE, [float(v) for v in bucket_counts]))
    return _value(name, (5, BYTES, proto))


# Images

def encode_png(pixels: bytes, height: int, width: int, channels: int) -> bytes:
    """A PNG file of rows of bytes."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    stride = width * channels
    rows = b"".join(b"\0" + pixels[i * stride:(i + 1) * stride] for i in range(height))
    colour = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, colour, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def to_hwc(tensor, dataformats: str):
    """An image (or a batch, laid out as a grid) as height, width and three channels."""
    assert len(set(dataformats)) == len(dataformats), (
        f"You can not use the same dimension shordhand twice.         input_format: {dataformats}")
    assert tensor.ndim == len(dataformats), (f"size of input tensor and input format are different.         tensor shape: "
                                             f"{tuple(tensor.shape)}, input_format: {dataformats}")
    dims = dataformats.upper()
    if len(dims) == 4:
        return make_grid(tensor.permute(*(dims.find(c) for c in "NCHW"))).permute(1, 2, 0)
    if len(dims) == 3:
        out = tensor.permute(*(dims.find(c) for c in "HWC"))
        return out.expand(-1, -1, 3) if out.shape[2] == 1 else out
    return tensor.permute(*(dims.find(c) for c in "HW")).unsqueeze(-1).expand(-1, -1, 3)


def make_grid(images, ncols: int = 8):
    """A batch ``[N, C, H, W]`` as one image ``[3, rows * H, columns * W]``."""
    assert images.ndim == 4 and images.shape[1] in (1, 3)
    if images.shape[1] == 1:
        images = images.expand(-1, 3, -1, -1)
    n, _, h, w = images.shape
    columns = min(n, ncols)
    rows = -(-n // columns)
    canvas = _fl.zeros(3, h * rows, w * columns, dtype=images.dtype)
    for i in range(n):
        y, x = divmod(i, columns)
        canvas[:, y * h:(y + 1) * h, x * w:(x + 1) * w] = images[i]
    return canvas


def _pixels(image):
    """Bytes of an image whose values are 0 to 255 (uint8) or 0 to 1 (others)."""
    scale = 1 if image.dtype == _fl.uint8 else 255
    return (image.to(_fl.float32) * scale).clamp(0, 255).to(_fl.uint8).contiguous()


def image(tag: str, tensor, rescale: float = 1, dataformats: str = "NCHW", boxes=None, labels=None) -> bytes:
    """An image, scaled by `rescale`, with `boxes` (x0, y0, x1, y1) drawn in red."""
    pixels = _pixels(to_hwc(as_tensor(tensor), dataformats))
    if boxes is not None:
        pixels = _draw(pixels, as_tensor(boxes).tolist(), labels)
    height, width, channels = pixels.shape
    if rescale != 1:
        new_h, new_w = int(height * rescale), int(width * rescale)
        rows = (_fl.arange(new_h) / rescale).long().clamp(0, height - 1)
        columns = (_fl.arange(new_w) / rescale).long().clamp(0, width - 1)
        pixels = pixels[rows][:, columns].contiguous()
        height, width = new_h, new_w
    data = encode_png(bytes(pixels.reshape(-1).tolist()), height, width, channels)
    return image_raw(tag, data, height, width, channels)


def image_raw(tag: str, data: bytes, height: int, width: int, channels: int) -> bytes:
    """An image already encoded."""
    return _value(tag, (4, BYTES, message((1, INT, height), (2, INT, width), (3, INT, channels), (4, BYTES, data))))


def _draw(pixels, boxes, labels):
    """The image with boxes, each with its label at its lower left."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise ImportError("boxes are drawn on images with Pillow, which is not installed") from None
    height, width, channels = pixels.shape
    mode = {1: "L", 3: "RGB", 4: "RGBA"}[channels]
    picture = Image.frombytes(mode, (width, height), bytes(pixels.reshape(-1).tolist()))
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default()
    for place, (x0, y0, x1, y1) in enumerate(boxes):
        draw.line([(x0, y0), (x0, y1), (x1, y1), (x1, y0), (x0, y0)], fill="red", width=2)
        if labels is not None:
            left, top, right, bottom = font.getbbox(labels[place])
            wide, high = right - left, bottom - top
            margin = -int(-0.05 * high // 1)
            draw.rectangle([(x0, y1 - high - 2 * margin), (x0 + wide, y1)], fill="red")
            draw.text((x0 + margin, y1 - high - margin), labels[place], fill="black", font=font)
    return _fl.tensor(list(picture.tobytes()), dtype=_fl.uint8).reshape(height, width, channels)


def audio(tag: str, tensor, sample_rate: int = 44100) -> bytes:
    """A sound with values from -1 to 1, as 16-bit samples."""
    wave = as_tensor(tensor).squeeze()
    if float(wave.abs().max()) > 1:
        print("warning: audio amplitude out of range, auto clipped.")
        wave = wave.clamp(-1, 1)
    assert wave.ndim == 1, "input tensor should be 1 dimensional."
    samples = struct.pack(f"<{wave.numel()}h", *(wave.double() * 32767.0).to(_fl.int16).tolist())
    data = (b"RIFF" + struct.pack("<I", 36 + len(samples)) + b"WAVEfmt " + struct.pack(
        "<I2H2I2H", 16, 1, 1, sample_rate, sample_rate * 2, 2, 16) + b"data" + struct.pack("<I", len(samples)) + samples)
    return _value(tag, (6, BYTES, message((1, FLOAT, sample_rate), (2, INT, 1), (3, INT, wave.numel()), (4, BYTES, data),
                                          (5, BYTES, "audio/wav"))))


def text(tag: str, content: str) -> bytes:
    """A text in Markdown."""
    proto = _tensor(_DT_STRING, (1,), (8, BYTES, content))
    return _value(tag + "/text_summary", (9, BYTES, _metadata("text")), (8, BYTES, proto))


# Precision and recall

def pr_curve(tag: str, labels, predictions, num_thresholds: int = 127, weights=None) -> bytes:
    """Precision and recall over thresholds from 0 to 1."""
    num_thresholds = min(num_thresholds, 127)
    labels = as_tensor(labels).reshape(-1).to(_fl.float64)
    predictions = as_tensor(predictions).reshape(-1).to(_fl.float64)
    weights = _fl.ones_like(labels) if weights is None else as_tensor(weights).reshape(-1).to(_fl.float64).expand_as(
        labels)
    where = _fl.floor(predictions * (num_thresholds - 1)).long().clamp(0, num_thresholds - 1)

    def above(amounts):
        per = _fl.zeros(num_thresholds, dtype=_fl.float64).index_add_(0, where, amounts)
        return per.flip(0).cumsum(0).flip(0)

    tp, fp = above(labels * weights), above((1 - labels) * weights)
    tn, fn = fp[0] - fp, tp[0] - tp
    tiny = 1e-7
    return _curve(tag, [tp, fp, tn, fn, tp / (tp + fp).clamp(min=tiny), tp / (tp + fn).clamp(min=tiny)], num_thresholds)


def pr_curve_raw(tag: str, tp, fp, tn, fn, precision, recall, num_thresholds: int = 127, weights=None) -> bytes:
    """A curve made elsewhere."""
    num_thresholds = min(num_thresholds, 127)
    return _curve(tag, [as_tensor(x).to(_fl.float64) for x in (tp, fp, tn, fn, precision, recall)], num_thresholds)


def _curve(tag: str, rows, num_thresholds: int) -> bytes:
    data = _fl.stack([r.reshape(-1) for r in rows])
    proto = _tensor(_DT_FLOAT, tuple(data.shape), (5, FLOAT, data.reshape(-1).tolist()))
    content = message((2, INT, num_thresholds))
    return _value(tag, (9, BYTES, _metadata("pr_curves", content)), (8, BYTES, proto))


def mesh(tag: str, vertices, colors=None, faces=None, config_dict=None, display_name=None, description=None) -> bytes:
    """Points ``[B, N, 3]`` with colours and faces."""
    parts = [(n, c, as_tensor(t)) for n, c, t in (("VERTEX", 1, vertices), ("FACE", 2, faces), ("COLOR", 3, colors))
             if t is not None]
    components = sum(1 << c for _, c, _ in parts)
    out = b""
    for part, code, tensor in parts:
        content = message((2, BYTES, tag), (3, INT, code), (5, BYTES, json.dumps(config_dict or {},
                                                                                            sort_keys=True)),
                          (6, INT, list(tensor.shape)), (7, INT, components))
        proto = _tensor(_DT_FLOAT, tuple(tensor.shape), (5, FLOAT, [float(v) for v in tensor.reshape(-1).tolist()]))
        out += _value(f"{tag}_{part}", (9, BYTES, _metadata("mesh", content, display_name, description)),
                      (8, BYTES, proto))
    return out


def custom_scalars(layout: dict) -> bytes:
    """How charts of scalars are put together."""
    categories = []
    for title, charts in layout.items():
        encoded = []
        for chart, (kind, tags) in charts.items():
            if kind == "Margin":
                assert len(tags) == 3
                series = message((1, BYTES, tags[0]), (2, BYTES, tags[1]), (3, BYTES, tags[2]))
                encoded.append(message((1, BYTES, chart), (3, BYTES, message((1, BYTES, series)))))
            else:
                encoded.append(message((1, BYTES, chart), (2, BYTES, message((1, BYTES, list(tags))))))
        categories.append(message((1, BYTES, title), (2, BYTES, encoded)))
    proto = _tensor(_DT_STRING, (), (8, BYTES, message((2, BYTES, categories))))
    return _value("custom_scalars__config__", (9, BYTES, _metadata("custom_scalars")), (8, BYTES, proto))


# Hyperparameters

def _hparam_value(value) -> bytes | None:
    if isinstance(value, (int, float)):  # truth values too
        return message((2, DOUBLE, float(value)))
    if isinstance(value, str):
        return message((3, BYTES, value))
    if isinstance(value, _fl.Tensor):
        return message((2, DOUBLE, float(value)))
    return None


def hparams(hparam_dict: dict, metric_dict: dict, hparam_domain_discrete: dict | None = None) -> tuple[bytes, bytes, bytes]:
    """The experiment, the start and the end of a session."""
    if not isinstance(hparam_dict, dict):
        raise TypeError("parameter: hparam_dict should be a dictionary, nothing logged.")
    if not isinstance(metric_dict, dict):
        raise TypeError("parameter: metric_dict should be a dictionary, nothing logged.")
    domains = hparam_domain_discrete or {}
    for key, values in domains.items():
        if key not in hparam_dict or not isinstance(values, list) or not all(
                isinstance(v, type(hparam_dict[key])) for v in values):
            raise TypeError(f"parameter: hparam_domain_discrete[{key}] should be a list of same type as "
                            f"hparam_dict[{key}].")
    infos, values = [], []
    for key, value in hparam_dict.items():
        if value is None:
            continue
        encoded = _hparam_value(value)
        if encoded is None:
            raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")
        kind = 1 if isinstance(value, str) else 3
        domain = None
        if key in domains:
            domain = message((1, BYTES, [_hparam_value(v) for v in domains[key]]))
        infos.append(message((1, BYTES, key), (4, INT, kind), (5, BYTES, domain)))
        values.append(message((1, BYTES, key), (2, BYTES, encoded)))
    metrics = [message((1, BYTES, message((2, BYTES, key)))) for key in metric_dict]
    import time

    experiment = message((2, BYTES, message((4, BYTES, infos), (5, BYTES, metrics))))
    start = message((3, BYTES, message((1, BYTES, values), (5, DOUBLE, time.time()))))
    end = message((4, BYTES, message((1, INT, 1), (2, DOUBLE, time.time()))))
    names = ("experiment", "session_start_info", "session_end_info")
    return tuple(_value(f"_hparams_/{name}", (9, BYTES, _metadata("hparams", content)))
                 for name, content in zip(names, (experiment, start, end)))
