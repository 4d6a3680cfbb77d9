"""Embeddings."""
from ... import _C
from ..._names import factory_kwargs
from .. import functional as F
from .. import init
from ..parameter import Parameter
from ._build import keep, listed, weight_of
from .module import Module

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """A table of vectors with an optional padding row."""

    def _make_weight(self, weight, freeze, message, device, dtype):
        """Take over a table, or fill a new one; a padding row is counted from the start."""
        shape = self.num_embeddings, self.embedding_dim
        if self.padding_idx:
            if not -shape[0] <= self.padding_idx < shape[0]:
                raise AssertionError(message)
            self.padding_idx %= shape[0]
        table = _C.empty(shape, **factory_kwargs(device, dtype)) if weight is None else weight
        if tuple(table.shape) != shape:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.weight = Parameter(table, requires_grad=not freeze)
        if weight is None:
            self.reset_parameters()

    def reset_parameters(self):
        """Normal values, zero in the padding row."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self):
        if self.padding_idx is not None:
            with _C.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def _renorm(self):
        """The options on norms and counts of rows, for the functions."""
        return {name: getattr(self, name) for name in ("max_norm", "norm_type", "scale_grad_by_freq")}

    def _size(self):
        return f"{self.num_embeddings}, {self.embedding_dim}"

    def _unusual(self, *names):
        """The options among `names` that are not at their defaults, for a repr."""
        usual = {"padding_idx": None, "max_norm": None, "norm_type": 2, "scale_grad_by_freq": False}
        return [listed(self, name) for name in names if getattr(self, name) != usual[name]]

    @classmethod
    def _from_table(cls, embeddings, freeze, **kwargs):
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, cols = embeddings.shape
        module = cls(num_embeddings=rows, embedding_dim=cols, _weight=embeddings, **kwargs)
        module.weight.requires_grad = not freeze
        return module


class Embedding(_Table):
    """Vectors by index: (*) of ints to (*, embedding_dim)."""

    __constants__ = [
        "num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"
    ]

    def __init__(
        self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
        sparse=False, _weight=None, _freeze=False, device=None, dtype=None,
    ):
        super().__init__()
        keep(
            self, num_embeddings=num_embeddings, embedding_dim=embedding_dim, padding_idx=padding_idx, max_norm=max_norm,
            norm_type=norm_type, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse,
        )
        self._make_weight(_weight, _freeze, "Padding_idx must be within num_embeddings", device, dtype)

    def forward(self, input):
        return F.embedding(
            input, weight_of(self), self.padding_idx, sparse=self.sparse, **self._renorm()
        )

    def extra_repr(self):
        parts = [self._size(), *self._unusual("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq")]
        return ", ".join(parts if self.sparse is False else [*parts, "sparse=True"])

    @classmethod
    def from_pretrained(
        cls, embeddings, freeze=True, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
    ):
        """An Embedding with the given (rows, dim) table, fixed unless `freeze` is False."""
        return cls._from_table(
            embeddings, freeze, padding_idx=padding_idx, max_norm=max_norm, norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq, sparse=sparse,
        )


class EmbeddingBag(_Table):
    """Sum, mean or maximum of bags of vectors."""

    __constants__ = [
        "num_embeddings", "embedding_dim", "max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse",
        "include_last_offset", "padding_idx",
    ]

    def __init__(
        self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean",
        sparse=False, _weight=None, include_last_offset=False, padding_idx=None, device=None, dtype=None,
    ):
        super().__init__()
        keep(
            self, num_embeddings=num_embeddings, embedding_dim=embedding_dim, max_norm=max_norm, norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq, padding_idx=padding_idx, mode=mode, sparse=sparse,
            include_last_offset=include_last_offset,
        )
        self._make_weight(_weight, False, "padding_idx must be within num_embeddings", device, dtype)

    def forward(self, input, offsets=None, per_sample_weights=None):
        return F.embedding_bag(
            input, weight_of(self), offsets, mode=self.mode, sparse=self.sparse, per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset, padding_idx=self.padding_idx, **self._renorm(),
        )

    def extra_repr(self):
        before = self._unusual("max_norm", "norm_type", "scale_grad_by_freq")
        return ", ".join([self._size(), *before, f"mode={self.mode!r}", *self._unusual("padding_idx")])

    @classmethod
    def from_pretrained(
        cls, embeddings, freeze=True, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False,
        include_last_offset=False, padding_idx=None,
    ):
        """An EmbeddingBag with the given (rows, dim) table, fixed unless `freeze` is False."""
        return cls._from_table(
            embeddings, freeze, max_norm=max_norm, norm_type=norm_type, scale_grad_by_freq=scale_grad_by_freq, mode=mode,
            sparse=sparse, include_last_offset=include_last_offset, padding_idx=padding_idx,
        )
