"""In-place operations on what operators with a derivative of their own give: the gradient reaches their arguments."""

import pytest

import flambeau as torch
import flambeau.nn.functional as F

CALLS = {
    "repeat": lambda x: x.repeat(2, 2, 1),
    "tile": lambda x: x.tile(2, 2),
    "roll": lambda x: x.roll(1),
    "rot90": lambda x: x.rot90(),
    "stack": lambda x: torch.stack([x, x]),
    "mv": lambda x: x[0] @ x[0, 0],
    "dot": lambda x: torch.dot(x[0, 0], x[0, 1]),
    "unfold": lambda x: F.unfold(x[None], 2),
    "fold": lambda x: F.fold(x.reshape(1, 8, 8), (3, 5), 2),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "matrix_exp": lambda x: torch.linalg.matrix_exp(x),
    "select_scatter": lambda x: x.select_scatter(x[1] * 2, 0, 0),
    "slice_scatter": lambda x: x.slice_scatter(x[:2] * 2, 0, 1, 3),
    "diagonal_scatter": lambda x: x.diagonal_scatter(x.diagonal() * 2),
    "unsafe_split": lambda x: torch.unsafe_split(x, 2)[0],
    "reshape": lambda x: x.transpose(0, 1).reshape(-1),
    "linear": lambda x: F.linear(x, x[0, :3]),
    "avg_pool1d": lambda x: F.avg_pool1d(x, 2),
    "stft": lambda x: torch.view_as_real(torch.stft(x.view(-1), 8, window=x[0, 0].repeat(2).detach(), return_complex=True)),
}


@pytest.mark.parametrize("name", CALLS)
def test_gradients_of_what_is_written_to(name):
    call = CALLS[name]
    torch.manual_seed(0)
    x = torch.rand(4, 4, 4, dtype=torch.float64)

    def grads(write):
        a = x.clone().requires_grad_()
        y = call(a)
        weights = torch.arange(y.numel(), dtype=y.dtype).view(y.shape).cos()
        (write(y, weights * (1 + a.sum()))).mul(weights).sum().backward()
        return a.grad

    assert torch.allclose(grads(lambda y, w: y.mul_(w)), grads(lambda y, w: y.mul(w)))
    assert torch.allclose(grads(lambda y, w: y.relu_()), grads(lambda y, w: y.relu()))
