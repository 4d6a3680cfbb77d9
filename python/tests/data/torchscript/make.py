"""Makes the archives of this folder and what PyTorch computes with them: `python make.py`, with PyTorch 2.13."""

import enum
import io
import json
import math
import pathlib
import zipfile
from typing import Dict, List, NamedTuple, Optional, Tuple, Union

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

HERE = pathlib.Path(__file__).parent


class Point(NamedTuple):
    x: Tensor
    y: int


class Color(enum.Enum):
    RED = 1
    GREEN = 2


@torch.jit.script
class Box:
    def __init__(self, low: float, high: float):
        self.low = low
        self.high = high
        self.calls: List[int] = []

    def clip(self, x: Tensor) -> Tensor:
        self.calls.append(1)
        return x.clamp(self.low, self.high)

    @property
    def width(self) -> float:
        return self.high - self.low

    def __len__(self) -> int:
        return len(self.calls)

    @staticmethod
    def around(v: float):
        return Box(-v, v)


@torch.jit.interface
class OneToOne(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.linear = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 3)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return F.log_softmax(self.linear(self.dropout(x)), dim=1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.lstm = nn.LSTM(4, 5, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(10, 3, batch_first=True)

    def forward(self, x, state: Optional[Tuple[Tensor, Tensor]] = None):
        y, (h, c) = self.lstm(self.embedding(x), state)
        return self.gru(y)[0], h, c


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        self.attention, self.norm = nn.MultiheadAttention(8, 2), nn.LayerNorm(8)

    def forward(self, x):
        y = self.layer(x)
        z, weights = self.attention(y, y, y)
        return self.norm(z + y), weights


class Control(nn.Module):
    sizes: List[int]
    names: Dict[str, int]
    __constants__ = ["scale"]

    def __init__(self):
        super().__init__()
        self.sizes, self.names, self.scale, self.count = [1, 2, 3], {"a": 1, "b": 2}, 2.5, 0
        self.offset = torch.jit.Attribute(None, Optional[int])
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
        self.by_name = nn.ModuleDict({"p": nn.ReLU(), "q": nn.Tanh()})
        self.register_buffer("shift", torch.arange(3.0))
        self.color = Color.RED

    def forward(self, x: Tensor, n: int = 3, name: str = "a"):
        out: List[Tensor] = []
        i = 0
        while i < n:
            if i == 1:
                i += 1
                continue
            if i > 5:
                break
            out.append(x * i + self.scale)
            i += 1
        for j, layer in enumerate(self.layers):
            x = layer(x)
            if j == 1:
                x = x + self.shift
        for _, layer in self.by_name.items():
            x = layer(x)
        found: Dict[str, Tensor] = {}
        for key, value in self.names.items():
            found[key] = x * value
        if name in found:
            x = found[name]
        else:
            raise ValueError("no such name {}".format(name))
        squares = [a * a for a in self.sizes]
        doubles = {a: a * 2 for a in self.sizes}
        self.count += 1
        assert n < 100, "n is large"
        if self.color == Color.RED:
            x = x + 1
        a, b = divmod(n, 2)
        text = "n={} {} {}".format(n, name, 2.5) + f"-{n}"
        offset = self.offset
        if offset is not None:
            x = x * offset
        first, part = x[..., 0], x[:, None, 1:3]
        x[0] = 5.0
        x[:, 1] += 2
        total = x[x > 0].sum()
        return (out, x, found, squares, doubles, text, a, b, first, part, total, n / 2, n // 2, n**2, n % 2, -n, not n,
                3.0 if n > 2 else 4.0, self.count)

    @torch.jit.export
    def point(self, p: Point, scale: Optional[int] = None) -> Tuple[Point, int]:
        k = 1
        if isinstance(scale, int):
            k += scale
        return Point(p.x + 1, p.y * 2), k

    @torch.jit.export
    def strings(self, t: str) -> List[str]:
        r = [t.upper(), t.lower(), t.strip(), t.replace("a", "bb"), ",".join(t.split(" ")), t[1:3], t[0], t[::-1],
             str(len(t)), "%s-%d" % (t, 3), str(t.startswith("a")) + str(t.find("b")) + str(ord(t[0])) + chr(66),
             "caf\u00e9 \u4e16\n\t'\"\\", t.center(20, "*"), t.zfill(12), t.title(), t.ljust(9) + t.rjust(9),
             str(t.isalpha()) + str(t.count("a")) + str(t.splitlines()) + str(t.partition(" ")) + t.swapcase(),
             t.lstrip() + t.rstrip("d") + str(t.rfind("a")) + str(t.endswith("d")) + str("a" in t)]  # fmt: skip
        r.append(str([1, 2]) + str((1, "a")) + str({"a": 1}) + str(2.0) + str(1e10) + str(1e-7) + str(None) + str(["a"]))
        return r

    @torch.jit.export
    def codes(self, x: Tensor):
        y, z = x.to(torch.float64), torch.zeros(2, 3, dtype=torch.int64, device=x.device)
        w, q = torch.zeros_like(x, dtype=torch.half), x.to(torch.device("cpu"), torch.bfloat16)
        return (y, z, w, q, x.dtype, x.dtype == torch.float32, x.device, x.shape, x.is_cuda, torch.full((2,), 7),
                torch.arange(5), torch.tensor([1.0, 2.0]), torch.tensor(3), x.type(torch.int32), x.long(), x.device.type,
                x.layout, x.requires_grad, x.numel(), x.dim(), math.pi, math.inf, -math.inf, 1e300,
                torch.softmax(x, 1, torch.float64), x.stride(), x.contiguous(memory_format=torch.contiguous_format))

    @torch.jit.export
    def loops(self, n: int):
        t = 0
        for i in range(2, n, 2):
            t += i
        for i, (a, b) in enumerate(zip([1, 2, 3], [4.0, 5.0, 6.0])):
            t += i * a + int(b)
        xs = [3, 1, 2]
        xs.sort()
        xs.reverse()
        xs.insert(0, 9)
        xs.extend([7])
        last = xs.pop()
        xs.remove(9)
        d = {"a": 1}
        d["b"] = 2
        d.update({"c": 3})
        keys, values, items = list(d.keys()), list(d.values()), list(d.items())
        popped, kept = d.pop("a"), d.setdefault("q", 7)
        inside = "b" in d
        del d["b"]
        xs[0] = 10
        xs[-1] += 1
        letters = 0
        for c in "abc":
            letters += ord(c)
        return (t, xs, last, xs.count(2), xs.index(2), sorted(xs), max(xs), sum(xs), any([True, False]), keys, values,
                items, d.get("zz", 5), d.get("b"), popped, kept, d, len(d), inside, xs[1:], xs + [1], xs * 2, letters,
                round(2.567 * n), abs(-n), math.floor(2.7 * n), math.ceil(2.2 * n), math.sqrt(float(n)), n // -2, -n % 3,
                1.0 * n // 2, 2.0**n, n**-1, math.gcd(n, 18), float("1.5"), int("12"), bool(n), hex(n), n << 3 | 2, n & 3)


class AddOne(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


def add_ten(x):
    return x + 10


class Classes(nn.Module):
    inner: OneToOne

    def __init__(self):
        super().__init__()
        self.inner = AddOne()
        self.box, self.color, self.point = Box(1.0, 2.0), Color.GREEN, Point(torch.ones(1), 4)

    def forward(self, x: Tensor, flag: Union[int, str] = 3):
        box = Box(-0.5, 0.5)
        y = box.clip(x) + len(box)
        width = box.width + Box.around(2.0).high
        future = torch.jit.fork(self.work, x, 2)
        other = torch.jit.fork(add_ten, x)
        with torch.no_grad():
            z = torch.jit.wait(future) + 1
        if isinstance(flag, int):
            width = width + flag
        total = 0
        for member in Color:
            total += member.value
        return (self.inner(y), width, z, Point(x, 3), torch.jit.wait(other), box.calls, total, self.color.name,
                self.point[0] + self.point[1], self.box.high)

    def work(self, x, n: int):
        return x * n


class Detection(nn.Module):
    def forward(self, boxes: Tensor, scores: Tensor, threshold: float = 0.5) -> List[Dict[str, Tensor]]:
        keep = torch.jit.annotate(List[int], [])
        order = scores.sort(descending=True)[1]
        for i in range(order.size(0)):
            a = int(order[i])
            good = True
            for b in keep:
                top, bottom = torch.max(boxes[a, :2], boxes[b, :2]), torch.min(boxes[a, 2:], boxes[b, 2:])
                size = (bottom - top).clamp(min=0)
                both = size[0] * size[1]
                area_a = (boxes[a, 2] - boxes[a, 0]) * (boxes[a, 3] - boxes[a, 1])
                area_b = (boxes[b, 2] - boxes[b, 0]) * (boxes[b, 3] - boxes[b, 1])
                if bool(both / (area_a + area_b - both) > threshold):
                    good = False
                    break
            if good:
                keep.append(a)
        kept = torch.tensor(keep, dtype=torch.long)
        return [{"boxes": boxes[kept], "scores": scores[kept], "kept": kept}]


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


def before(self, inputs: Tuple[Tensor]) -> Tuple[Tensor]:
    return (inputs[0] * 2,)


def after(self, inputs: Tuple[Tensor], output: Tensor) -> Tensor:
    return output + inputs[0].sum()


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Hooked()
        self.inner.register_forward_pre_hook(before)
        self.inner.register_forward_hook(after)

    def forward(self, x):
        return self.inner(x)


class State(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.k = torch.ones(3), 1

    def forward(self, x):
        return x + self.w * self.k

    @torch.jit.export
    def __getstate__(self):
        return (self.w * 2, self.k, self.training)

    @torch.jit.export
    def __setstate__(self, state: Tuple[Tensor, int, bool]):
        self.w, self.k, self.training = state[0], state[1], state[2]


class Values(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 3, dtype=torch.complex64))
        self.tied, self.z, self.device = self.w, 1 + 2j, torch.device("cpu")
        self.tensors, self.by_name = [torch.ones(2), torch.zeros(2)], {"a": torch.ones(1)}
        self.strings, self.floats, self.bools, self.nested = ["a", "b"], [1.5, 2.5], [True, False], [[1], [2, 3]]
        self.maybe, self.empty = torch.jit.Attribute(3, Optional[int]), torch.jit.Attribute([], List[float])
        self.lists = torch.jit.Attribute({}, Dict[int, List[str]])
        self.text, self.numbers = "h\u00e9 \u4e16\n", (2**40, -5, 2**62, math.inf)

    def forward(self, x: Tensor):
        c = torch.view_as_complex(torch.stack([x, x], -1))
        return (c @ self.w, self.z * 2, self.device, self.tensors, self.by_name, self.strings, self.floats, self.bools,
                self.nested, self.maybe, self.empty, self.lists, self.text, self.numbers, complex(1.0, 2.0), abs(self.z))


class Failing(nn.Module):
    def forward(self, x: Tensor, k: int):
        if k == 0:
            raise ValueError("zero")
        elif k == 1:
            raise RuntimeError(f"one {k}")
        elif k == 2:
            assert x.numel() == 0, "empty"
        elif k == 3:
            return [1][k]
        elif k == 4:
            return {"a": 1}["b"]
        elif k == 5:
            return k // (k - 5)
        elif k == 6:
            return int(x.sum(5))
        elif k == 7:
            return int("x")
        return k


def function(x, y):
    flat = torch.cat([x.view(x.size(0), -1), y.float()], 1)[:, 1:-1].to(torch.float16)
    return flat, torch.zeros(x.shape[0], 2, dtype=torch.long), x.mean(), torch.arange(x.size(1))


def encode(value):
    """A value as JSON."""
    if isinstance(value, Tensor):
        numbers = torch.view_as_real(value.detach().resolve_conj()) if value.is_complex() else value.detach()
        return {"tensor": str(value.dtype)[6:], "shape": list(value.shape), "values": numbers.flatten().tolist()}
    if isinstance(value, tuple):
        return {"tuple": [encode(v) for v in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(k), encode(v)] for k, v in value.items()]}
    if isinstance(value, list):
        return [encode(v) for v in value]
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    return {"device": str(value)} if isinstance(value, torch.device) else value


def save(module, name):
    """Writes an archive, compressed and without its debug records."""
    with zipfile.ZipFile(io.BytesIO(module.save_to_buffer())) as source:
        with zipfile.ZipFile(HERE / f"{name}.pt", "w", zipfile.ZIP_DEFLATED) as target:
            for entry in source.namelist():
                if not entry.endswith((".debug_pkl", "serialization_id")):
                    target.writestr(zipfile.ZipInfo(f"{name}/{entry.partition('/')[2]}"), source.read(entry),
                                    zipfile.ZIP_DEFLATED, 9)


def main():
    torch.manual_seed(0)
    image, tokens, sequence, matrix = torch.randn(2, 1, 8, 8), torch.randint(0, 10, (2, 6)), torch.randn(2, 3, 8), \
        torch.randn(2, 3)
    corners = torch.rand(6, 2)
    boxes = torch.cat([corners, corners + torch.rand(6, 2)], 1)
    calls = {
        "convolutional": (Convolutional(), [("forward", (image,))]),
        "recurrent": (Recurrent(), [("forward", (tokens,)), ("forward", (tokens, (torch.ones(2, 2, 5),) * 2))]),
        "attention": (Attention(), [("forward", (sequence,))]),
        "control": (Control(), [("forward", (matrix,)), ("forward", (matrix, 9, "b")), ("forward", (matrix, 3, "z")),
                                ("forward", (matrix, 100)), ("strings", ("Ab cad",)), ("codes", (matrix,)),
                                ("loops", (7,)), ("point", ((matrix, 2), 5)), ("forward", (3,)), ("forward", ()),
                                ("forward", (matrix, "q")), ("forward", (matrix, 1, "a", 4)), ("loops", (2.5,))]),
        "classes": (Classes(), [("forward", (matrix,)), ("forward", (matrix, "text"))]),
        "detection": (Detection(), [("forward", (boxes, torch.rand(6))), ("forward", (boxes, torch.rand(6), 0.1))]),
        "hooks": (Outer(), [("forward", (torch.randn(2, 2),))]),
        "state": (State(), [("forward", (torch.zeros(3),))]),
        "values": (Values(), [("forward", (matrix,))]),
        "failing": (Failing(), [("forward", (matrix, k)) for k in range(9)]),
    }
    traced = {
        "traced_convolutional": (Convolutional().eval(), (image,)),
        "traced_recurrent": (Recurrent().eval(), (tokens,)),
        "traced_attention": (Attention().eval(), (sequence,)),
        "traced_function": (function, (torch.randn(2, 3), torch.ones(2, 2, dtype=torch.int32))),
    }
    for name, (module, inputs) in traced.items():
        calls[name] = torch.jit.trace(module, inputs, check_trace=False), [("forward", inputs)]
    calls["frozen"] = torch.jit.freeze(torch.jit.script(Hooked().eval())), [("forward", (torch.randn(2, 2),))]
    record = {}
    for name, (module, cases) in calls.items():
        scripted = isinstance(module, (torch.jit.ScriptFunction, torch.jit.ScriptModule))
        made = module if scripted else torch.jit.script(module.eval())
        save(made, name)
        loaded = torch.jit.load(HERE / f"{name}.pt")
        record[name] = {"state": list(loaded.state_dict()), "modules": [n for n, _ in loaded.named_modules()], "calls": []}
        for method, args in cases:
            try:
                result = encode(getattr(loaded, method)(*args))
            except Exception as error:
                lines = str(error).strip().split("\n")
                text = "\n".join(lines) if "Declaration:" in str(error) else lines[-1]
                result = {"error": type(error).__name__, "text": text}
            record[name]["calls"].append([method, encode(args), result])
    (HERE / "expected.json").write_text(json.dumps(record))


main()
