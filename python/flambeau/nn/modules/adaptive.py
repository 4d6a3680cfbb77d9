"""Softmax over very many classes."""
from collections import namedtuple

from ... import _C
from ..._names import factory_kwargs
from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


def _picked(rows, columns):
    """One entry of each row: (N, C), (N,) to (N,)."""
    return rows.gather(1, columns.unsqueeze(1)).squeeze(1)


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-softmax with frequent classes in a head and rare ones in clusters of lower rank."""

    def __init__(
        self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None, dtype=None
    ):
        like = factory_kwargs(device, dtype)
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        rising = all(low < high for low, high in zip([0, *cutoffs], [*cutoffs, n_classes]))
        if not rising or any(int(c) != c for c in cutoffs):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value "
                "is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.cutoffs = [*cutoffs, n_classes]
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **like)
        sizes = (high - low for low, high in zip(self.cutoffs, self.cutoffs[1:]))
        self.tail = ModuleList(
            self._cluster(int(in_features // div_value**i), size, like) for i, size in enumerate(sizes, 1)
        )

    def _cluster(self, rank, size, like):
        """A map of low rank to the classes of a cluster."""
        narrow = Linear(self.in_features, rank, bias=False, **like)
        return Sequential(narrow, Linear(rank, size, bias=False, **like))

    def reset_parameters(self):
        """Draw new initial values."""
        for layer in (self.head, *(layer for cluster in self.tail for layer in cluster)):
            layer.reset_parameters()

    def forward(self, input_, target_):
        rank = target_.dim()
        if rank > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if rank == 1 and len(input_) != len(target_):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if input_.dim() != rank + 1:
            raise RuntimeError(
                f"{rank}D target tensor expects {rank + 1}D input tensors, but found inputs with size {input_.size()}"
            )
        batched = rank == 1
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        if ((target < 0) | (target >= self.n_classes)).any():
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{target.min().item()}, "
                f"{target.max().item()}] were found. "
            )
        # A class of a cluster has the head's probability of the cluster as a factor.
        places, within = target.clone(), input.new_zeros(len(target))
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            rows = ((target >= low) & (target < high)).nonzero().flatten()
            if len(rows):
                places[rows] = self.shortlist_size + i
                cluster = F.log_softmax(self.tail[i](input[rows]), dim=1)
                within = within.index_copy(0, rows, _picked(cluster, target[rows] - low))
        output = within + _picked(F.log_softmax(self.head(input), dim=1), places)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _get_full_log_prob(self, input, head_output):
        frequent, *gates = F.log_softmax(head_output, dim=1).split([self.shortlist_size, *[1] * self.n_clusters], dim=1)
        clusters = [F.log_softmax(cluster(input), dim=1) + gate for cluster, gate in zip(self.tail, gates)]
        return _C.cat([frequent, *clusters], dim=1)

    def log_prob(self, input):
        """Log-probabilities of all classes: (N, n_classes)."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input):
        """The most probable class of each sample: (N,)."""
        scores = self.head(input)
        best = scores.argmax(dim=1)
        rare = (best >= self.shortlist_size).nonzero().flatten()
        if len(rare):  # a cluster is the most probable: look into them
            best[rare] = self._get_full_log_prob(input[rare], scores[rare]).argmax(dim=1)
        return best
