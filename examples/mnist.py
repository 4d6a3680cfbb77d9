"""A convolutional network that learns handwritten digits, written for PyTorch: only the import names Flambeau.

    python examples/mnist.py [--epochs N] [--limit N] [--seed N] [--checkpoint PATH]
    python examples/mnist.py --predict [--checkpoint PATH] [--count N]
"""

import argparse
import pathlib
import sys
import time

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.utils.data import DataLoader, TensorDataset

import numpy

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "mnist_10k.npz"
MEAN, DEVIATION = 0.1307, 0.3081


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3)
        self.conv2 = nn.Conv2d(16, 32, 3)
        self.hidden = nn.Linear(32 * 5 * 5, 64)
        self.dropout = nn.Dropout(0.25)
        self.output = nn.Linear(64, 10)

    def forward(self, x):
        """From (batch, 1, 28, 28) to the scores (batch, 10)."""
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)  # (batch, 16, 13, 13)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)  # (batch, 32, 5, 5)
        x = F.relu(self.hidden(x.flatten(1)))
        return self.output(self.dropout(x))


def split(arrays, name):
    """Images brought to mean 0 and deviation 1, and their labels."""
    images = torch.from_numpy(arrays[f"{name}_images"]).float().unsqueeze(1)
    labels = torch.from_numpy(arrays[f"{name}_labels"]).long()
    return (images / 255 - MEAN) / DEVIATION, labels


def shifted(images):
    """A batch moved by up to two pixels: the network should not learn where exactly a digit stands."""
    down, right = torch.randint(0, 5, (2,)).tolist()
    padded = F.pad(images, (2, 2, 2, 2), value=-MEAN / DEVIATION)
    return padded[:, :, down : down + 28, right : right + 28].contiguous()


def progress(done, total, text):
    bar = "=" * (30 * done // total)
    end = "\n" if done == total else ""
    if sys.stderr.isatty() or end:
        print(f"\r[{bar:<30}] {done}/{total} batches  {text}", end=end, file=sys.stderr, flush=True)


def train(options):
    torch.manual_seed(options.seed)
    with numpy.load(DATA) as arrays:
        images, labels = split(arrays, "train")
        test = split(arrays, "test")
    images, labels = images[: options.limit], labels[: options.limit]
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    loader = DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=options.epochs * len(loader))
    start = time.perf_counter()
    for epoch in range(1, options.epochs + 1):
        begin, seen, right, total = time.perf_counter(), 0, 0, 0.0
        for step, (x, y) in enumerate(loader, 1):
            scores = net(shifted(x))
            loss = F.cross_entropy(scores, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            seen += len(y)
            total += loss.item() * len(y)
            right += (scores.argmax(1) == y).sum().item()
            rate = seen / (time.perf_counter() - begin)
            text = f"epoch {epoch}  loss {total / seen:.4f}  accuracy {100 * right / seen:.2f} %  {rate:.0f} images/s"
            progress(step, len(loader), text)
    seconds = time.perf_counter() - start
    net.eval()
    with torch.no_grad():
        accuracy = 100 * (net(test[0]).argmax(1) == test[1]).float().mean().item()
    print(f"held-out accuracy {accuracy:.2f} % after {seconds:.1f} s")
    torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, options.checkpoint)
    print(f"saved {options.checkpoint}; see it at work with --predict")


def draw(image):
    """Draws an image (28, 28), two rows of pixels to a line of text."""
    ink = (image > 1).tolist()
    for upper, lower in zip(ink[::2], ink[1::2]):
        print("".join(" ▄▀█"[2 * u + l] for u, l in zip(upper, lower)).rstrip())


def predict(options):
    net = Net()
    net.load_state_dict(torch.load(options.checkpoint)["model"])
    net.eval()
    with numpy.load(DATA) as arrays:
        images, labels = split(arrays, "test")
    with torch.no_grad():
        best, classes = net(images[: options.count]).softmax(1).max(1)
    for image, p, c, label in zip(images, best.tolist(), classes.tolist(), labels.tolist()):
        draw(image[0])
        print(f"prediction {c} ({100 * p:.1f} %), label {label}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--checkpoint", default="mnist.checkpoint.pt")
    options = parser.parse_args()
    (predict if options.predict else train)(options)
