"""Writes pytorch.pt, which the tests of `io/pytorch.rs` read: python pytorch.py"""
import argparse
import collections

import torch

base = torch.arange(12, dtype=torch.float32)
names = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
torch.save({
    "model": collections.OrderedDict(weight=base[2:8].reshape(2, 3).t(), bias=base[8:10], tied=base[8:10]),
    "parameter": torch.nn.Parameter(torch.tensor(1.5)),
    "conjugate": torch.tensor([1 + 2j]).conj(),
    "negative": torch.tensor([1 + 2j]).conj().imag,
    "dtypes": {name: torch.tensor([0, 1, 3]).to(getattr(torch, name)) for name in names.split()},
    "empty": torch.zeros(0, 4),
    "list": [torch.tensor([7]), None, (2.5, "x")],
    "epoch": 3, "large": 1 << 70, "on": True, "size": torch.Size([4, 5]), "device": torch.device("cpu"),
    "dtype": torch.float32, 5: "five", "arguments": argparse.Namespace(lr=0.1),
}, "pytorch.pt")
