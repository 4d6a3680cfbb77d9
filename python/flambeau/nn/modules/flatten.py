"""Merging and splitting dims."""
from ._build import keep
from .module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Merge the dims from `start_dim` to `end_dim`."""

    __constants__ = ["start_dim", "end_dim"]

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        keep(self, start_dim=start_dim, end_dim=end_dim)

    def forward(self, input):
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self):
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split `dim` into several."""

    __constants__ = ["dim", "unflattened_size"]

    def __init__(self, dim, unflattened_size):
        super().__init__()
        self._require_tuple_int(unflattened_size)
        keep(self, dim=dim, unflattened_size=unflattened_size)

    @staticmethod
    def _require_tuple_int(value):
        if not isinstance(value, (tuple, list)):
            raise TypeError(f"unflattened_size must be a tuple of ints, but found type {type(value).__name__}")
        for i, part in enumerate(value):
            if not isinstance(part, int):
                raise TypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {type(part).__name__} at pos {i}"
                )

    def forward(self, input):
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self):
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
