"""What wrong calls get, and what deprecated ones say: recorded from PyTorch, the exception's type, the first line of its
text, and the warnings."""
import copy
import io
import json
import math
import os
import pathlib
import warnings

import numpy as np
import pytest

import flambeau as torch
import flambeau.autograd.forward_ad
import flambeau.nn.utils.prune
import flambeau.nn.utils.stateless
import flambeau.optim.lr_scheduler
import flambeau.utils.checkpoint
import flambeau.utils.data

RECORDED = json.loads((pathlib.Path(__file__).parent / "data" / "wrong_calls.json").read_text(encoding="utf-8"))
nn, optim = torch.nn, torch.optim
MODULES = dict(
    torch=torch, np=np, warnings=warnings, io=io, os=os, copy=copy, math=math, nn=nn, F=nn.functional, init=nn.init, U=nn.utils,
    optim=optim, L=optim.lr_scheduler, D=torch.distributions, data=torch.utils.data, fwAD=torch.autograd.forward_ad,
    cp=torch.utils.checkpoint, **{name: getattr(torch.utils.data, name) for name in torch.utils.data.__all__},
)  # fmt: skip


def names():
    """What the calls may use, new for each of them."""
    p = nn.Parameter(torch.ones(2))
    return dict(
        MODULES, t=torch.ones(2, 3), v=torch.ones(2), i=torch.tensor([1, 2]), b=torch.tensor([True, False]), s=torch.tensor(1.0),
        x4=torch.ones(1, 2, 5, 5), x3=torch.ones(1, 2, 5), g=torch.ones(2, requires_grad=True), p=p, lin=nn.Linear(3, 2),
        ds=torch.utils.data.TensorDataset(torch.arange(4.0)), opt=optim.SGD([p], lr=0.1),
    )  # fmt: skip


def first_line(text):
    return text.replace("flambeau", "torch").split(" (it is for: ")[0].strip().split("\n")[0]


def outcome(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        space = names()
        caught.clear()
        try:
            try:
                repr(eval(call, space))  # an error may come as late as that
            except SyntaxError:
                exec(call, space)
            found = ["ok", ""]
        except Exception as error:
            found = [type(error).__name__, first_line(str(error))]
    told = [[w.category.__name__, first_line(str(w.message))] for w in caught]
    return found + [told] if told else found


@pytest.mark.parametrize("section", RECORDED)
def test_wrong_calls(section, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    enabled = torch.is_grad_enabled()
    differing = []
    for call, *expected in RECORDED[section]:
        found = outcome(call)
        assert torch.is_grad_enabled() is enabled, call
        if found != expected:
            differing.append(f"{call}\n  expected {expected}\n  found    {found}")
    assert not differing, "\n".join(differing)
