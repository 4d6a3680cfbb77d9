"""Records what PyTorch computes in the cases of `recorded.rs`: python record.py > recorded.txt"""
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import lr_scheduler as schedules


def ramp(*sizes, start=-1.0, per=7.0, dtype=torch.float32):
    """Numbers from `start` in steps of `1 / per`."""
    n = torch.Size(sizes).numel()
    return (torch.arange(n, dtype=torch.float64) / per + start).to(dtype).reshape(sizes)


def wave(*sizes, by=1.0):
    """Numbers between -1 and 1 in no order."""
    n = torch.Size(sizes).numel()
    return torch.sin(torch.arange(n, dtype=torch.float64) * 2.3 * by + 0.5).float().reshape(sizes)


def record(name, tensor):
    print(name + ":", *(f"{x:.7g}" for x in torch.as_tensor(tensor).detach().double().reshape(-1).tolist()))


def seeded(make):
    torch.manual_seed(7)
    return make()


def activations():
    x = ramp(9, start=-4.0, per=1.0)
    for m in [nn.ReLU6(), nn.SELU(), nn.GELU("tanh"), nn.Mish(), nn.LogSigmoid(), nn.Hardsigmoid(), nn.Hardswish(),
              nn.Tanhshrink(), nn.Softsign(), nn.ELU(0.7), nn.CELU(0.7), nn.Hardtanh(-2, 1.5), nn.Softplus(2.0, 3.0),
              nn.Hardshrink(1.0), nn.Softshrink(1.0), nn.Threshold(0.5, -9.0), nn.PReLU(), nn.Softmin(0)]:
        record(type(m).__name__, m(x))
    record("GLU", nn.GLU()(x[:8]))
    record("RReLU, eval", nn.RReLU().eval()(x))
    torch.manual_seed(7)
    record("Dropout1d", nn.Dropout1d(0.5)(torch.ones(2, 3, 2)))
    record("Dropout2d", nn.Dropout2d(0.5)(torch.ones(1, 4, 1, 2)))
    record("AlphaDropout", nn.AlphaDropout(0.5)(torch.ones(4)))


def convolutions():
    for n, m in [(1, nn.Conv1d), (2, nn.Conv2d)]:
        m = seeded(lambda: m(2, 2, 2, padding=1, padding_mode="reflect"))
        record(f"Conv{n}d, reflect", m(wave(1, 2, *[3] * n)))
    for n, m in [(1, nn.ConvTranspose1d), (2, nn.ConvTranspose2d), (3, nn.ConvTranspose3d)]:
        m = seeded(lambda: m(2, 4, 2, stride=2, padding=1, output_padding=1, groups=2))
        record(f"ConvTranspose{n}d", m(wave(1, 2, *[2] * n)))


def pools():
    for n in (1, 2, 3):
        x = wave(1, 2, *[5] * n)
        name = lambda kind: f"{kind}{n}d"
        record(name("MaxPool"), getattr(nn, name("MaxPool"))(2, stride=2, padding=1, ceil_mode=True)(x))
        record(name("AvgPool"), getattr(nn, name("AvgPool"))(3, stride=2, padding=1, count_include_pad=False)(x))
        record(name("AdaptiveAvgPool"), getattr(nn, name("AdaptiveAvgPool"))(2)(x))
        record(name("AdaptiveMaxPool"), getattr(nn, name("AdaptiveMaxPool"))(3)(x))
        record(name("LPPool"), getattr(nn, name("LPPool"))(2, 2)(x))
        y, indices = getattr(nn, name("MaxPool"))(2, return_indices=True)(wave(1, 2, *[4] * n))
        record(name("MaxUnpool"), getattr(nn, name("MaxUnpool"))(2)(y, indices))


def norms():
    for n in (1, 2, 3):
        record(f"InstanceNorm{n}d", getattr(nn, f"InstanceNorm{n}d")(2)(wave(2, 2, *[2] * n)))
    m = nn.InstanceNorm1d(2, affine=True, track_running_stats=True)
    record("InstanceNorm1d, tracking", m(wave(2, 2, 3)))
    record("InstanceNorm1d, running", torch.cat([m.running_mean, m.running_var]))
    record("InstanceNorm1d, eval", m.eval()(wave(2, 2, 3)))
    record("RMSNorm", nn.RMSNorm(3)(wave(2, 3)))
    record("LocalResponseNorm", nn.LocalResponseNorm(3, alpha=0.5)(wave(1, 4, 2, 2)))


def tables():
    m = seeded(lambda: nn.Bilinear(2, 3, 2))
    record("Bilinear", m(wave(2, 2), wave(2, 3)))
    for mode in ("sum", "mean", "max"):
        m = seeded(lambda: nn.EmbeddingBag(5, 2, mode=mode))
        record(f"EmbeddingBag, {mode}", m(torch.tensor([[0, 2], [4, 4]])))
        record(f"EmbeddingBag, {mode}, offsets", m(torch.tensor([0, 2, 3, 1]), torch.tensor([0, 3])))


def shapes():
    x = wave(1, 4, 2, 2)
    record("PixelShuffle", nn.PixelShuffle(2)(x))
    record("PixelUnshuffle", nn.PixelUnshuffle(2)(x))
    record("ChannelShuffle", nn.ChannelShuffle(2)(x))
    record("Pad, constant", nn.ConstantPad2d((1, 0, 0, 2), 3.5)(x))
    record("Pad, reflect", nn.ReflectionPad2d((1, 0, 0, 1))(x))
    record("Pad, replicate", nn.ReplicationPad2d((1, 0, 0, 2))(x))
    record("Pad, circular", nn.CircularPad2d((1, 0, 0, 1))(x))
    record("Upsample, nearest", nn.Upsample(scale_factor=1.5)(wave(1, 1, 3)))
    record("Upsample, exact", nn.Upsample((3, 3), mode="nearest-exact")(x))
    record("Upsample, bilinear", nn.Upsample((3, 3), mode="bilinear", align_corners=True)(x))
    record("Upsample, bicubic", nn.Upsample(scale_factor=(2.0, 1.5), mode="bicubic")(x))
    record("Unfold", nn.Unfold(2, padding=1)(x[:, :2]))
    record("Fold", nn.Fold((3, 3), 2)(wave(1, 8, 4)))
    record("CosineSimilarity", nn.CosineSimilarity()(wave(2, 3), ramp(2, 3)))
    record("PairwiseDistance", nn.PairwiseDistance(keepdim=True)(wave(2, 3), ramp(2, 3)))


def recurrent():
    x = wave(3, 2, 4)
    options = dict(num_layers=2, bidirectional=True)
    y, h = seeded(lambda: nn.RNN(4, 2, **options))(x)
    record("RNN", y)
    record("RNN, state", h)
    y, (h, c) = seeded(lambda: nn.LSTM(4, 3, proj_size=2, batch_first=True))(x.transpose(0, 1))
    record("LSTM, projected", y)
    record("LSTM, projected, states", torch.cat([h.reshape(-1), c.reshape(-1)]))
    packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2]))
    y, h = seeded(lambda: nn.GRU(4, 2, **options))(packed)
    record("GRU, packed", nn.utils.rnn.pad_packed_sequence(y)[0])
    record("GRU, packed, state", h)
    h, c = seeded(lambda: nn.LSTMCell(4, 2))(x[0])
    record("LSTMCell", torch.cat([h, c]))
    record("GRUCell", seeded(lambda: nn.GRUCell(4, 2))(x[0], wave(2, 2)))
    record("RNNCell", seeded(lambda: nn.RNNCell(4, 2))(x[0][0]))


def attention():
    x, memory = wave(3, 2, 4), wave(5, 2, 4, by=0.7)
    padding = torch.tensor([[False] * 5, [False, False, False, True, True]])
    causal = torch.ones(3, 3).triu(1).bool()
    m = seeded(lambda: nn.MultiheadAttention(4, 2))
    y, weights = m(x, memory, memory, key_padding_mask=padding)
    record("MultiheadAttention, padding", y)
    record("MultiheadAttention, weights", weights)
    for name, options in [("after", dict()), ("before", dict(norm_first=True, activation="gelu", bias=False))]:
        m = seeded(lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, **options))
        record(f"TransformerEncoderLayer, norm {name}", m(x, src_mask=causal))
        m = seeded(lambda: nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0, **options))
        record(f"TransformerDecoderLayer, norm {name}",
               m(x, memory, tgt_mask=causal, memory_key_padding_mask=padding))
    m = seeded(lambda: nn.Transformer(4, 2, 2, 2, 8, dropout=0.0))
    record("Transformer", m(memory, x, tgt_mask=causal, src_key_padding_mask=padding))


def losses():
    x, y = wave(3, 4).requires_grad_(), wave(3, 4, by=0.6)
    positive, sign = torch.sigmoid(y), torch.tensor([1.0, -1.0, 1.0])
    classes = torch.tensor([2, 0, 3])
    for r in ("none", "mean", "sum"):
        def loss(name, value):
            x.grad = None
            value.sum().backward()
            record(f"{name}, {r}", value)
            record(f"{name}, {r}, gradient", x.grad)

        loss("huber", F.huber_loss(x, y, r, 0.3))
        loss("bce", F.binary_cross_entropy(torch.sigmoid(x), positive, positive + 1, reduction=r))
        loss("bce with logits",
             F.binary_cross_entropy_with_logits(x, positive, positive + 1, reduction=r, pos_weight=positive[0] + 2))
        loss("kl", F.kl_div(x.log_softmax(1), y.softmax(1), reduction=r))
        loss("poisson", F.poisson_nll_loss(x, positive * 5, full=True, reduction=r))
        loss("gaussian", F.gaussian_nll_loss(x, y, positive, full=True, reduction=r))
        loss("cosine embedding", F.cosine_embedding_loss(x, y, sign, 0.1, reduction=r))
        loss("hinge embedding", F.hinge_embedding_loss(x, torch.sign(y), 1.5, reduction=r))
        loss("margin ranking", F.margin_ranking_loss(x, y, torch.sign(wave(3, 4, by=0.3)), 0.2, reduction=r))
        loss("triplet", F.triplet_margin_loss(x, y, positive, 1.2, swap=True, reduction=r))
        loss("soft margin", F.soft_margin_loss(x, torch.sign(y), reduction=r))
        loss("multi margin", F.multi_margin_loss(x, classes, 2, 0.9, weight=positive[0], reduction=r))
        named = torch.tensor([[1, 3, -1, 0], [0, -1, 1, 2], [2, 1, 0, -1]])
        loss("multilabel margin", F.multilabel_margin_loss(x, named, reduction=r))
        loss("multilabel soft margin", F.multilabel_soft_margin_loss(x, positive, positive[0], reduction=r))
        times = x.reshape(3, 2, 2).log_softmax(2)
        loss("ctc", F.ctc_loss(times, torch.tensor([[1, 1], [1, 0]]), (3, 3), (2, 1), reduction=r))


def rules():
    cases = {
        "Adamax": (torch.optim.Adamax, dict(lr=0.1, weight_decay=0.01)),
        "NAdam": (torch.optim.NAdam, dict(lr=0.1, weight_decay=0.01)),
        "NAdam, decoupled": (torch.optim.NAdam, dict(lr=0.1, weight_decay=0.01, decoupled_weight_decay=True)),
        "RAdam": (torch.optim.RAdam, dict(lr=0.1, betas=(0.9, 0.7), weight_decay=0.01)),
        "RAdam, not yet adapting": (torch.optim.RAdam, dict(lr=0.1)),
        "Adagrad": (torch.optim.Adagrad, dict(lr=0.1, lr_decay=0.1, weight_decay=0.01, initial_accumulator_value=0.2)),
        "Adadelta": (torch.optim.Adadelta, dict(lr=1.0, weight_decay=0.01)),
        "Rprop": (torch.optim.Rprop, dict(lr=0.6)),
        "ASGD": (torch.optim.ASGD, dict(lr=0.1, lambd=0.1, t0=1, weight_decay=0.01)),
    }
    for name, (algorithm, options) in cases.items():
        p = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
        optimizer = algorithm([p], **options)
        for _ in range(8):
            optimizer.zero_grad()
            (p * p * torch.tensor([1.0, 2.0, 0.5])).sum().backward()
            optimizer.step()
        record(name, p)
    for search in (None, "strong_wolfe"):
        p = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([p], lr=0.1 if search is None else 1.0, max_iter=7, line_search_fn=search)

        def closure():
            optimizer.zero_grad()
            loss = 100 * (p[1] - p[0] ** 2) ** 2 + (1 - p[0]) ** 2
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        evaluations = optimizer.state[p]["func_evals"]
        record(f"LBFGS, {search}", torch.cat([p.detach(), torch.tensor([float(evaluations)])]))


def rates():
    S = schedules
    cases = {
        "StepLR": lambda o: S.StepLR(o, 2, 0.5),
        "MultiStepLR": lambda o: S.MultiStepLR(o, [2, 5, 5], 0.5),
        "ExponentialLR": lambda o: S.ExponentialLR(o, 0.9),
        "ConstantLR": lambda o: S.ConstantLR(o, 0.25, 4),
        "LinearLR": lambda o: S.LinearLR(o, 0.25, 0.75, 4),
        "PolynomialLR": lambda o: S.PolynomialLR(o, 6, 2.0),
        "LambdaLR": lambda o: S.LambdaLR(o, lambda epoch: 0.95**epoch),
        "MultiplicativeLR": lambda o: S.MultiplicativeLR(o, lambda epoch: 1 - epoch / 20),
        "CosineAnnealingWarmRestarts": lambda o: S.CosineAnnealingWarmRestarts(o, 2, 2, 0.01),
        "CyclicLR": lambda o: S.CyclicLR(o, 0.1, 0.5, 2, 3),
        "CyclicLR, halved": lambda o: S.CyclicLR(o, 0.1, 0.5, 2, mode="triangular2", cycle_momentum=False),
        "CyclicLR, decaying": lambda o: S.CyclicLR(o, 0.1, 0.5, 2, mode="exp_range", gamma=0.9),
        "OneCycleLR": lambda o: S.OneCycleLR(o, 1.0, 12, three_phase=True, anneal_strategy="linear"),
        "SequentialLR": lambda o: S.SequentialLR(
            o, [S.LinearLR(o, 0.25, 1.0, 3), S.CosineAnnealingLR(o, 4), S.ExponentialLR(o, 0.5)], [3, 7]),
        "ChainedLR": lambda o: S.ChainedScheduler([S.ConstantLR(o, 0.1, 3), S.ExponentialLR(o, 0.9)]),
    }
    for name, make in cases.items():
        optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.2, momentum=0.9)
        schedule = make(optimizer)
        lines = []
        for _ in range(10):
            lines.append([optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]])
            optimizer.step()
            schedule.step()
        record(name, torch.tensor(lines, dtype=torch.float64))
    metrics = [1.0, 0.9, 0.95, 0.95, 0.9, 0.89995, 0.95, 0.96, 0.5, 0.6, 0.6, 0.6]
    for name, options in [("min", dict(patience=1, cooldown=1)),
                          ("max", dict(mode="max", patience=2, threshold_mode="abs", threshold=0.04, min_lr=0.05))]:
        optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.2)
        schedule = S.ReduceLROnPlateau(optimizer, factor=0.5, **options)
        lines = []
        for metric in metrics:
            schedule.step(metric)
            lines.append(optimizer.param_groups[0]["lr"])
        record(f"ReduceLROnPlateau, {name}", torch.tensor(lines, dtype=torch.float64))


if __name__ == "__main__":
    for part in (activations, convolutions, pools, norms, tables, shapes, recurrent, attention, losses, rules, rates):
        part()
