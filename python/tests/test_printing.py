"""Tensors as text, as PyTorch 2.13 prints them."""
import flambeau as torch
import pytest
from recorded import evaluate, load

SETUP, CASES = load("printing.json")


@pytest.mark.parametrize(("expression", "expected"), CASES, ids=range(len(CASES)))
def test_as_recorded(expression, expected):
    torch.set_printoptions(profile="default")
    assert evaluate(SETUP, expression) == expected, expression


def test_options_are_kept_and_given_back():
    from flambeau._tensor_text import get_printoptions, printoptions

    before = get_printoptions()
    with printoptions(precision=1, sci_mode=True):
        assert repr(torch.tensor([1.25])) == "tensor([1.2e+00])"
    assert get_printoptions() == before
    assert repr(torch.tensor([1.25])) == "tensor([1.2500])"


def test_subclass_is_named():
    class Mine(torch.Tensor):
        pass

    assert repr(torch.ones(2).as_subclass(Mine)) == "Mine([1., 1.])"


def test_format_of_one_number():
    assert f"{torch.tensor(2.5):.3f}" == "2.500"
    with pytest.raises(TypeError, match="unsupported format string passed to Tensor.__format__"):
        format(torch.ones(2), ".3f")


def test_masked_tensors_and_batches():
    from flambeau.masked import masked_tensor

    def shown(values, mask):
        return repr(masked_tensor(torch.tensor(values), torch.tensor(mask)))

    assert shown(2.0, True) == "MaskedTensor(  2.0000, True)" and shown(2.0, False) == "MaskedTensor(--, False)"
    assert shown([1, 200], [True, False]) == "MaskedTensor(\n  [1,       --]\n)"
    assert shown([123456.75, 1.0], [True, False]) == "MaskedTensor(\n  [123456.7500,          --]\n)"
    rows = "    [\n      [  1.0000,       --]\n    ]"
    assert shown([[[1.0, 2.0]]] * 2, [[[True, False]]] * 2) == f"MaskedTensor(\n  [\n{rows},\n{rows}\n  ]\n)"
    texts = []
    torch.vmap(lambda x: texts.append(repr(x)) or x)(torch.ones(2))
    assert texts == ["BatchedTensor(lvl=1, bdim=0, value=\n    tensor([1., 1.])\n)"]


def test_parameters_of_other_classes():
    """They say which: a parameter may be of any subclass, and its own class may be derived from `Parameter`."""

    class Own(torch.nn.Parameter):
        pass

    class Other(torch.Tensor):
        pass

    x = torch.arange(6.0).view(2, 3)
    body = "([[0., 1., 2.],\n{}[3., 4., 5.]], requires_grad=True)"
    assert repr(torch.nn.Parameter(x)) == "Parameter containing:\ntensor" + body.format(" " * 8)
    assert repr(Own(x)) == "Parameter containing:\nParameter(Own" + body.format(" " * 5) + ")"
    assert repr(torch.nn.Parameter(x.as_subclass(Other))) == "Parameter(Other" + body.format(" " * 7) + ")"
    assert repr(x.as_subclass(Other)[0]) == "Other([0., 1., 2.])"
