"""Writes display.jsonl: tensors, print options and the text that PyTorch 2.13 prints.

python display.py > display.jsonl
"""
import itertools
import json
import random

import torch

DEFAULT = dict(precision=4, threshold=1000, edgeitems=3, linewidth=80, sci_mode=None)
nan, inf = float("nan"), float("inf")
random.seed(7)


def encode(v):
    if isinstance(v, complex):
        return [repr(v.real), repr(v.imag)]
    return repr(v) if isinstance(v, float) else v


def case(values, dtype=None, sizes=None, device=None, requires_grad=False, function=None, default=torch.float32, **options):
    options = {**DEFAULT, **options}
    torch.set_default_dtype(default)
    if sizes is None:
        sizes = [len(values)]
    numel = 1
    for s in sizes:
        numel *= s
    if device == "meta":
        t = torch.empty(sizes, dtype=dtype, device="meta")
    else:
        filled = [values[i % len(values)] for i in range(numel)]
        t = torch.tensor(filled, dtype=dtype).reshape(sizes)
    if requires_grad or function:
        t.requires_grad_()
    if function:
        t = function(t)
    torch.set_printoptions(profile="default")
    torch.set_printoptions(**options)
    text = repr(t)
    shown = [] if device == "meta" else t.detach().flatten()[: len(values)].tolist()
    name = None if t.grad_fn is None else t.grad_fn.name()
    print(json.dumps(dict(
        dtype=str(t.dtype)[6:], sizes=list(t.shape), values=[encode(v) for v in shown], device=device, grad_fn=name,
        requires_grad=t.requires_grad, default=str(default)[6:], **options, text=text)))


floats = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
integers = [torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32, torch.int64]
lists = [
    [0.0], [-0.0, 0.0], [1.0], [1.0, 2.0, 3.0], [1.5, -2.25, 0.0], [1e-4, 1e-3], [9.99e-5, 1.0], [1000.0, 1.0],
    [1001.0, 1.0], [1000.5, 1.0], [1000.5, 1.0005], [1e8, 1e7], [100000008.0], [99999992.0], [1e8 + 0.5], [1e-9, 0.0],
    [nan], [inf, -inf], [nan, 1.0, -inf], [nan, 1.5, inf], [-1.0, 1000000.0], [-1.5, 123456.75], [1e30, 1e-30],
    [1e38, -1e38], [5e-324], [1e-45, 1.0], [0.1, 0.2, 0.30000001], [2.5, 3.5, 0.00005], [12345.678, 99999.99],
    [0.99995, 0.5], [9.99995, 1.0], [-0.00004, 1.0], [65504.0, 6e-8], [0.5, 0.25, -1e-3], [1e100, 1e99], [3.0, inf],
]
for values, dtype in itertools.product(lists, floats[:2]):
    case(values, dtype)
for values in lists[:24]:
    case(values, random.choice(floats[2:]))
for values in lists:
    case(values[:1], torch.float32, sizes=[])
for dtype in integers:
    case([0, 1, 100], dtype)
    case([torch.iinfo(dtype).min, torch.iinfo(dtype).max], dtype)
    case([7], dtype, sizes=[])
    case([], dtype, sizes=[0])
    case([1], dtype, device="meta", sizes=[2])
for sizes in ([], [1], [3], [2, 2], [2, 1, 3], [30]):
    case([True, False, True], torch.bool, sizes=sizes)
for sizes in ([0], [2, 0], [0, 3, 1], [1, 0, 1, 2]):
    for dtype in (torch.float32, torch.float64, torch.int64, torch.bool, torch.complex64):
        case([], dtype, sizes=sizes)
complexes = [
    [0j], [1 + 2j], [1.5 - 2.5j, 3 + 4j], [1e5 + 1j, complex(nan, 2), 3], [complex(inf, nan), complex(1, -inf)],
    [1e-6 + 1j, 1 + 0.5j], [complex(-0.0, -0.0)], [-1 - 1j, 10 + 10j, 100.5 + 1e4j], [1000000 + 1j, 1j],
]
for values in complexes:
    for dtype in (torch.complex64, torch.complex128):
        for sizes in ([], None, [2, 2], [40], [3, 11]):
            case(values, dtype, sizes=sizes)
for sizes in ([40], [200], [3, 30], [2, 3, 4], [2, 2, 2, 2], [1, 1, 1, 1, 1], [5, 1], [1, 13, 1], [20, 50], [17, 59]):
    case([0.0], sizes=sizes)
    case([1.0, 22.0, -333.0, 4.0, 5.0], sizes=sizes)
    case([0.5, -123.25, 1e-3], torch.float64, sizes=sizes)
    case([1, -20, 300, 4], sizes=sizes, dtype=torch.int32)
for sizes in ([1001], [2000], [1001, 1], [1, 1001], [6, 200], [7, 200], [40, 40], [3, 400], [11, 11, 11], [2, 600, 1], [8, 8, 8, 8]):
    case([0.0, 1.0, 2.0, 3.0, 4.5, 1e6], sizes=sizes)
    case(list(range(97)), torch.int16, sizes=sizes)
    case([1 + 2j, 3.5 - 1j, 0j], torch.complex64, sizes=sizes)
    case([True, False, False], sizes=sizes)
options = [
    dict(precision=0), dict(precision=1), dict(precision=2), dict(precision=8), dict(precision=17), dict(threshold=0),
    dict(threshold=5), dict(threshold=5, edgeitems=1), dict(threshold=5, edgeitems=2), dict(edgeitems=0),
    dict(threshold=0, edgeitems=0), dict(linewidth=20), dict(linewidth=40), dict(linewidth=5), dict(linewidth=0),
    dict(linewidth=200), dict(sci_mode=True), dict(sci_mode=False), dict(sci_mode=True, precision=2),
    dict(precision=2, edgeitems=2), dict(threshold=3, edgeitems=10),
]
for o in options:
    case([0.5, 1.25, -3.0, 1e-3], sizes=[2, 4], **o)
    case([1.0, 2.0, 1e9, 0.0, inf], sizes=[11], **o)
    case([0.0, nan], sizes=[2, 3], **o)
    case([2.5], sizes=[], **o)
    case([1 + 1.5j, 2e5 - 3j], torch.complex128, sizes=[3, 3], **o)
    case([1, 22, 133], sizes=[3, 2, 4], dtype=torch.uint8, **o)
    case([], sizes=[2, 0], **o)
for width in range(14, 61, 3):
    case([1.0, 2.0], torch.float64, sizes=[2, 2], requires_grad=True, linewidth=width)
    case([1.0, 2.0], torch.float64, sizes=[2], function=torch.exp, linewidth=width)
for sizes in ([], [3], [2, 3], [0], [2, 0], [40, 40]):
    case([1.0, 2.0], sizes=sizes, requires_grad=True)
    case([1.0, 2.0], sizes=sizes, function=torch.exp)
    case([1.0, 2.0], torch.float64, sizes=sizes, function=torch.Tensor.sin)
    case([], sizes=sizes, device="meta")
    case([], torch.int64, sizes=sizes, device="meta")
    case([], torch.float16, sizes=sizes, device="meta", requires_grad=True)
    case([], torch.complex64, sizes=sizes, device="meta")
for dtype in floats + [torch.complex64, torch.complex128, torch.int64, torch.bool, torch.int32]:
    case([1, 0], dtype, default=torch.float64)
    case([1], dtype, sizes=[0], default=torch.float64)
    case([1], dtype, sizes=[2], default=torch.float64, device="meta")
    case([1, 0], dtype, default=torch.bfloat16)
for _ in range(150):
    dtype = random.choice(floats + [torch.complex64, torch.complex128])
    scale = 10.0 ** random.randint(-6, 6)
    spread = random.choice([1, 1, 10, 1000])
    number = lambda: random.choice([0.0, 1.0, random.uniform(-1, 1) * scale * random.uniform(1, spread), float(random.randint(-9, 9))])
    values = [complex(number(), number()) if dtype.is_complex else number() for _ in range(random.randint(1, 30))]
    sizes = [random.randint(1, 7) for _ in range(random.randint(0, 4))]
    case(values, dtype, sizes=sizes)
