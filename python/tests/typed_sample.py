"""A program that type checkers are run on: the stubs say of every line what PyTorch's users expect."""

from collections.abc import Iterator

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import Tensor, nn, optim
from flambeau.utils.data import DataLoader, Dataset, TensorDataset


class Classifier(nn.Module):
    def __init__(self, inputs: int, hidden: int, classes: int, device: torch.device | None = None) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, hidden, device=device)
        self.second = nn.Linear(hidden, classes, device=device)
        self.norm = nn.LayerNorm(hidden)
        self.layers = nn.Sequential(nn.ReLU(), nn.Dropout(0.1))
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("mean", torch.zeros(inputs))

    def forward(self, x: Tensor) -> Tensor:
        h = self.layers(self.norm(self.first(x)))
        logits: Tensor = self.second(h) * self.scale
        return logits


class Squares(Dataset[tuple[Tensor, Tensor]]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        x = torch.tensor([float(index)], dtype=torch.float32)
        return x, x**2


def batches(x: Tensor, y: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    for xb, yb in DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True):
        yield xb, yb


def train(model: nn.Module, x: Tensor, y: Tensor, epochs: int = 2) -> float:
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = optim.lr_scheduler.StepLR(optimizer, step_size=1)
    criterion = nn.CrossEntropyLoss()
    total = 0.0
    model.train()
    for _ in range(epochs):
        for xb, yb in batches(x, y, 4):
            optimizer.zero_grad()
            loss = criterion(model(xb), yb)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
        schedule.step()
    return total


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    model.eval()
    predicted = model(x).argmax(dim=-1)
    return float((predicted == y).float().mean())


def tensors(x: Tensor) -> None:
    n: int = x.size(0)
    shape: torch.Size = x.shape
    rows, columns = x.shape
    sizes: tuple[int, ...] = tuple(x.size())
    kind: torch.dtype = x.dtype
    where: str = x.device.type
    values, indices = x.max(dim=1)
    top: Tensor = x.topk(2, dim=-1).values
    order: Tensor = torch.sort(x, descending=True).indices
    y = x.view(-1).reshape(n, -1).permute(1, 0).transpose(0, 1).contiguous()
    y = x.reshape((rows, columns)).unsqueeze(0).expand(3, -1, -1).squeeze(0)
    y = torch.cat([x, x + 1, 2 - x, 3 * x, x / 2, x @ x.T, -x, x**0.5], dim=0)
    y = torch.zeros(2, 3) + torch.ones((2, 3), dtype=torch.float64) + torch.full((2, 3), 7.0)
    y = torch.arange(0, 10, 2, dtype=torch.int64) + torch.linspace(0, 1, 5) + torch.randn(5, requires_grad=True)
    y = torch.where(x > 0, x, 0.0).clamp(min=0, max=1).clamp_(max=0.5)
    z = torch.add(x, 1, alpha=2).sum().mean().to(torch.float64).to("cpu", torch.float32).to(device="cpu")
    a, b = x.split(1, dim=0)[:2]
    c: tuple[Tensor, ...] = torch.chunk(x, 2)
    flag: bool = torch.equal(a, b) and bool(z > 0) and torch.is_tensor(c[0]) and x.is_contiguous()
    torch.mm(x, x, out=y)
    number = x.sum().item()
    nested: list[list[float]] = x.tolist()
    parts = torch.einsum("ij,jk->ik", x, x).std(dim=[0, 1], keepdim=True).var(unbiased=False)
    found: tuple[Tensor, ...] = x.nonzero(as_tuple=True)
    text = f"{n} {shape.numel()} {sizes} {kind.itemsize} {where} {flag} {number:.3f} {len(nested)} {parts}"
    print(text, values, indices, top, order, found, y)


def indexing(x: Tensor) -> Tensor:
    x[0] = 1
    x[..., 1:] = x[None, 0, :-1]
    x[x > 0] = 0.0
    x[:, [0, 1]] += 1
    x[torch.tensor([0])] = torch.zeros(1)
    return x[0, 1:2, None].flatten()[-1]


def gradients() -> Tensor:
    w = torch.randn(3, requires_grad=True)
    b = torch.zeros(3).requires_grad_()
    out = (w * 2 + b).pow(2).sum()
    (gw,) = torch.autograd.grad(out, [w], create_graph=True)
    out.backward()
    with torch.no_grad():
        grad = w.grad
        if grad is not None:
            w -= 0.1 * grad
            grad.zero_()
    w.grad = None
    handle = w.register_hook(lambda g: g * 2)
    handle.remove()
    with torch.enable_grad(), torch.inference_mode(False):
        h = F.relu(w.detach().clone())
    result: Tensor = gw + h
    return result


def mistakes(x: Tensor) -> None:
    """Never called: a checker that does not object to one of these lines objects to its comment."""
    x.reshpe(2)  # type: ignore[attr-defined]
    torch.zeros("2")  # type: ignore[arg-type]
    nn.Linear("2", 3)  # type: ignore[arg-type]
    nn.Conv2d(1, 2)  # type: ignore[call-arg]
    optim.Adam(3)  # type: ignore[arg-type]
    DataLoader(x, shuffle=True)  # type: ignore[arg-type]
    number: int = x.sum()  # type: ignore[assignment]
    F.relu("x", unknown=number)  # type: ignore[call-arg, arg-type]


def main() -> None:
    generator = torch.manual_seed(0)
    x = torch.rand(16, 4, generator=generator)
    y = torch.randint(0, 3, (16,))
    model = Classifier(4, 8, 3, device=torch.device("cpu"))
    train(model, x, y)
    print(accuracy(model, x, y), len(Squares()), sum(p.numel() for p in model.parameters()))
    tensors(torch.rand(3, 3))
    indexing(torch.rand(3, 3))
    gradients()
    state = model.state_dict()
    model.load_state_dict({name: value.half().float() for name, value in state.items()})
    limits = torch.finfo(torch.float32)
    print(limits.eps, torch.iinfo(torch.int32).max, torch.get_default_dtype(), torch.nan, torch.pi)


if __name__ == "__main__":
    main()
