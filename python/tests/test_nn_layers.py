"""Every layer class against numbers recorded from PyTorch 2.13: same seed, same weights, outputs, gradients, repr."""
import json
import math
import pathlib
import warnings

import pytest
from nn_cases import cases, run

import flambeau as fl
from flambeau import nn

RECORDED = json.loads((pathlib.Path(__file__).parent / "data" / "nn_layers.json").read_text())


def close(a, b, terms=1):
    """Whether numbers agree; a sum of `terms` single-precision numbers about one is known to their rounding only."""
    if isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or a == b or abs(a - b) <= max(1e-4 * max(1.0, abs(b)), 2e-7 * terms)
    if isinstance(b, list):
        # A summary of a tensor: its sizes, its sum and a weighted sum.
        if len(b) == 3 and isinstance(b[0], list) and isinstance(b[1], float):
            return a[0] == b[0] and all(close(x, y, math.prod(b[0])) for x, y in zip(a[1:], b[1:], strict=True))
        return len(a) == len(b) and all(map(close, a, b))
    if isinstance(b, dict):
        return list(a) == list(b) and all(close(a[k], b[k]) for k in b)
    return a == b


@pytest.mark.parametrize("index", range(len(cases)), ids=[c[0][:60] for c in cases])
@pytest.mark.parametrize("evaluate", [False, True], ids=["train", "eval"])
def test_layer(index, evaluate):
    expr, ins, kw = cases[index]
    expected = RECORDED[2 * index + evaluate]
    assert expected["case"] == expr
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "error" in expected:
            with pytest.raises(Exception) as caught:
                run(expr, ins, kw, evaluate)
            assert f"{type(caught.value).__name__}: {caught.value}" == expected["error"]
            return
        got = run(expr, ins, kw, evaluate)
    for part in ("repr", "state", "out", "random") + (() if "CrossMapLRN" in expr else ("grad",)):
        assert close(got[part], expected[part]), (part, got[part], expected[part])


def test_packed_state_of_a_wrong_shape():
    packed = nn.utils.rnn.pack_sequence([fl.ones(3, 2), fl.ones(2, 2)])
    for kind in (nn.RNN, nn.GRU):
        with pytest.raises(RuntimeError, match="Expected hidden size"):
            kind(2, 4)(packed, fl.zeros(2, 2, 4))


def test_fractional_pool_checks_its_kernel_in_3d():
    nn.FractionalMaxPool2d(0, 3)
    with pytest.raises(ValueError, match="kernel_size must be greater than 0, but got 0"):
        nn.FractionalMaxPool3d(0, 3)


def test_attention_inputs_may_share_tensors():
    fl.manual_seed(0)
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    x, y = fl.randn(2, 3, 4), fl.randn(2, 3, 4)
    for query, key, value in ((x, x, x), (x, y, y), (x, y, x)):
        copies = (query.clone(), key.clone(), value.clone())
        assert fl.allclose(attention(query, key, value)[0], attention(*copies)[0], atol=1e-6)


def test_batch_norm_refuses_a_bad_eps():
    x = fl.ones(2, 3)
    for eps in (0.0, -1.0):
        with pytest.raises(ValueError, match=f"batch_norm eps must be positive during training, but got {eps}"):
            nn.BatchNorm1d(3, eps=eps)(x)
    with pytest.raises(ValueError, match="batch_norm eps must be non-negative, but got -1.0"):
        nn.BatchNorm1d(3, eps=-1.0).eval()(x)
    assert nn.BatchNorm1d(3, eps=0.0).eval()(x).equal(x)
