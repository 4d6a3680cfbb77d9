"""Counting operations needs a hook below autograd, which Flambeau does not have."""

__all__ = ["FlopCounterMode"]


class FlopCounterMode:
    """A mode that would count floating point operations. It cannot be entered, so it has counted none."""

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        self.depth, self.display = depth, display
        self.flop_counts = {"Global": {}}

    def __enter__(self):
        raise NotImplementedError("FlopCounterMode: Flambeau calls no __torch_dispatch__, so operations are not counted")

    def __exit__(self, *error):
        pass

    def get_total_flops(self):
        """How many were counted."""
        return 0

    def get_flop_counts(self):
        """The same by module and operator."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}
