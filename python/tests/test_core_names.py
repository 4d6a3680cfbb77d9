"""What libraries ask `torch._C` for besides operators."""
import flambeau as torch
import flambeau._C as core
import pytest


def test_names_of_the_core():
    assert core._get_tracing_state() is None and core._get_accelerator() == torch.device("cpu")
    assert core._nn._parse_to("cpu", torch.float64)[:2] == (torch.device("cpu"), torch.float64)
    assert core._nn.gelu is core.gelu and core._TensorMeta is type(torch.Tensor)
    x = torch.zeros(2)
    assert core._is_alias_of(x, x[1:]) is False or core._is_alias_of(x, x.view(2))
    assert core._jit_set_profiling_mode(True) is False and core._jit_set_profiling_mode(False) is True
    seen = []
    torch.func.vmap(lambda t: seen.append((core._are_functorch_transforms_active(), core._functorch.is_batchedtensor(t))) or t)(x)
    assert seen == [(True, True)] and not core._are_functorch_transforms_active()
    with pytest.raises(AttributeError, match="the core has no operator or function '_nonsense'"):
        core._nonsense


def test_layers_left_out():
    keys = core.DispatchKeySet(core.DispatchKey.AutocastCPU) | core.DispatchKeySet(core.DispatchKey.AutocastCUDA)
    assert keys.has(core.DispatchKey.AutocastCUDA) and not (keys - keys).keys
    a = torch.ones(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with core._ExcludeDispatchKeyGuard(keys):
            assert torch.mm(a, a).dtype is torch.float32
        assert torch.mm(a, a).dtype is torch.bfloat16


def test_assert_async():
    torch._assert_async(torch.tensor(1))
    with pytest.raises(RuntimeError, match="Expected Tensor with single nonzero value, but got zero"):
        torch._assert_async(torch.tensor(0))


def test_tracing_is_seen():
    seen = []
    torch.jit.trace(lambda x: seen.append(core._is_tracing()) or x + 1, torch.ones(2))
    assert seen[0] is True and core._is_tracing() is False


def test_modules_list_their_names():
    import importlib

    for name in "_tensor _C nn.modules.conv distributions.normal".split():
        assert dir(importlib.import_module("flambeau." + name))
    assert "grad" in dir(torch.ones(1)) and "grad" in dir(torch.Tensor)
