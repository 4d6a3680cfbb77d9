"""A second program that type checkers are run on: a model of sequences, its training and what stands around it."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from typing import Any

import flambeau as torch
import flambeau.nn as nn
import flambeau.nn.functional as F
from flambeau import Tensor
from flambeau.autograd import Function
from flambeau.distributions import Categorical, Normal
from flambeau.optim import AdamW, LBFGS
from flambeau.optim.lr_scheduler import (
    CosineAnnealingLR, LambdaLR, LRScheduler, OneCycleLR, ReduceLROnPlateau, SequentialLR,
)  # fmt: skip
from flambeau.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, WeightedRandomSampler, random_split


class Attention(nn.Module):
    mask: Tensor

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        assert width % heads == 0
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)
        self.register_buffer("mask", torch.tril(torch.ones(length, length, dtype=torch.bool)))

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.view(n, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        scores = scores.masked_fill(~self.mask[:length, :length], float("-inf"))
        mixed = F.softmax(scores, dim=-1) @ v
        other = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1 if self.training else 0.0)
        y: Tensor = self.out((mixed + 0 * other).transpose(1, 2).reshape(n, length, width))
        return y


class Model(nn.Module):
    def __init__(self, words: int, width: int = 32, depth: int = 2, length: int = 16) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.place = nn.Parameter(torch.zeros(1, length, width))
        self.blocks = nn.ModuleList([Attention(width, 4, length) for _ in range(depth)])
        self.norms = nn.ModuleDict({str(i): nn.LayerNorm(width, eps=1e-6) for i in range(depth)})
        self.rnn = nn.LSTM(width, width, num_layers=2, batch_first=True, dropout=0.1)
        self.gru = nn.GRU(width, width, bidirectional=True)
        self.conv = nn.Sequential(
            nn.Conv1d(width, width, kernel_size=3, padding="same"), nn.BatchNorm1d(width), nn.GELU(),
            nn.MaxPool1d(2, stride=1), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Dropout(p=0.2),
        )
        self.head = nn.Linear(width, words)
        self.apply(self._initialise)

    @staticmethod
    def _initialise(module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, (nn.Embedding, nn.LayerNorm)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        x = self.embed(tokens) + self.place[:, : tokens.shape[1]]
        for i, block in enumerate(self.blocks):
            x = x + block(self.norms[str(i)](x))
        x, (h, c) = self.rnn(x, state)
        pooled = self.conv(x.mT)
        return self.head(x), pooled + h[-1] + c[-1]


class Words(Dataset[tuple[Tensor, int]]):
    def __init__(self, count: int) -> None:
        self.rows = [torch.randint(1, 20, (8,)) for _ in range(count)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        return self.rows[i], int(self.rows[i].sum()) % 2


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        for _ in range(4):
            yield torch.rand(3)


class Clip(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, low: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.low = low
        return x.clamp(min=low)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return grad * (x > ctx.low), None


def collate(items: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    rows, labels = zip(*items)
    return torch.stack(rows), torch.tensor(labels)


def fit(model: Model, loader: DataLoader[tuple[Tensor, int]], device: torch.device) -> list[float]:
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for n, p in model.named_parameters() if p.dim() <= 1 and "bias" in n]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0}]
    optimizer = AdamW(groups, lr=1e-3, betas=(0.9, 0.95))
    schedule: LRScheduler = CosineAnnealingLR(optimizer, T_max=10, eta_min=1e-5)
    warm = LambdaLR(optimizer, lambda step: min(1.0, step / 10))
    both = SequentialLR(optimizer, [warm, schedule], milestones=[2])
    plateau = ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=2)
    losses: list[float] = []
    model.to(device)
    for epoch in range(2):
        model.train()
        for tokens, labels in loader:
            tokens, labels = tokens.to(device, non_blocking=True), labels.to(device=device, dtype=torch.long)
            scores, pooled = model(tokens)
            loss = F.cross_entropy(scores.flatten(0, 1), tokens.flatten(), ignore_index=0, label_smoothing=0.1)
            loss = loss + 0.1 * F.binary_cross_entropy_with_logits(pooled.mean(1), labels.float())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            if not torch.isfinite(norm):
                continue
            optimizer.step()
            losses.append(loss.item())
        both.step()
        plateau.step(losses[-1])
        for group in optimizer.param_groups:
            group["lr"] *= 0.99
        print(epoch, schedule.get_last_lr(), f"{sum(losses) / len(losses):.3f}")
    return losses


def quadratic() -> float:
    x = nn.Parameter(torch.tensor([3.0, -2.0]))
    optimizer = LBFGS([x], lr=0.5, max_iter=10, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (x**2).sum()
        loss.backward()
        return loss

    return float(optimizer.step(closure))


@torch.inference_mode()
def sample(model: Model, prompt: Tensor, steps: int, temperature: float = 1.0, top_k: int | None = None) -> Tensor:
    model.eval()
    for _ in range(steps):
        logits = model(prompt)[0][:, -1] / temperature
        if top_k is not None:
            best, _ = torch.topk(logits, top_k)
            logits[logits < best[:, [-1]]] = -torch.inf
        drawn = torch.multinomial(logits.softmax(-1), num_samples=1)
        prompt = torch.cat((prompt, drawn), dim=1)
    return prompt


def others(x: Tensor) -> None:
    normal = Normal(torch.zeros(2), torch.ones(2))
    drawn = normal.rsample((3,))
    entropy: Tensor = normal.log_prob(drawn).sum() + Categorical(logits=x).entropy().mean()
    hessian = torch.autograd.functional.hessian(lambda t: (t**3).sum(), torch.ones(2))
    mapped = torch.func.vmap(torch.func.grad(lambda t: (t**2).sum()))(x)
    clipped = Clip.apply(x, 0.1)
    quick = torch.ops.aten.add.Tensor(x, x)
    mean, deviation = x.mean(dim=0, keepdim=True), torch.std(x, 0, unbiased=False)
    scattered = torch.zeros(3, 4).scatter_(1, torch.argmax(x, dim=1, keepdim=True), 1.0)
    total = torch.stack([mean.squeeze(0), deviation]).sum(dim=(0, 1)) + entropy
    x.add_(1).mul_(2.0).div_(3).clamp_(0, 1)
    with torch.autograd.detect_anomaly(), torch.autocast("cpu", dtype=torch.bfloat16):
        y = F.interpolate(x[None, None], scale_factor=2, mode="bilinear", align_corners=False)
    file = io.BytesIO()
    torch.save({"x": x}, file)
    file.seek(0)
    loaded: dict[str, Tensor] = torch.load(file, map_location="cpu", weights_only=True)
    x = loaded["x"]
    state = torch.get_rng_state()
    torch.set_rng_state(state)
    print(hessian, mapped, clipped, quick, scattered, total, y, torch.float32.itemsize)
    print(torch.max(x), torch.max(x, 1).values, torch.minimum(x, x), torch.unique(x, return_counts=True), x.numpy().shape)


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = Words(32)
    train, test = random_split(data, [24, 8], generator=torch.Generator().manual_seed(1))
    sampler = WeightedRandomSampler([1.0] * len(train), num_samples=24)
    loader = DataLoader(train, batch_size=8, sampler=sampler, collate_fn=collate, drop_last=True)
    model = Model(20)
    print(len(fit(model, loader, device)), len(test), quadratic(), len(Subset(data, [0, 1])))
    print(sample(model, torch.ones(1, 2, dtype=torch.long), 3, top_k=5))
    for row in DataLoader(Stream(), batch_size=2):
        print(row.shape)
    others(torch.rand(3, 4))
    for name, value in model.state_dict().items():
        print(name, tuple(value.shape), value.dtype)
    model.load_state_dict(model.state_dict(), strict=True)
    hooks = [m.register_forward_hook(lambda module, args, output: None) for m in model.modules()]
    for hook in hooks:
        hook.remove()
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(inplace=True), nn.Linear(3, 1))
    first = net[0]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    print(first, len(net), OneCycleLR(optimizer, max_lr=0.1, total_steps=3).get_last_lr())
    print(TensorDataset(torch.rand(3), torch.rand(3))[0])


if __name__ == "__main__":
    main()
