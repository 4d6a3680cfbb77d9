"""The types of results that have names, as `return_types.max`."""
from . import _C


class histogramdd(tuple):  # noqa: N801 (PyTorch's name)
    """What `histogramdd` gives: `hist`, and `bin_edges` along every dimension."""

    hist = property(lambda self: self[0])
    bin_edges = property(lambda self: self[1])

    def __repr__(self):
        return f"torch.return_types.histogramdd(\nhist={self.hist!r},\nbin_edges={self.bin_edges!r})"


def __getattr__(name):
    found = None if name.startswith("__") else _C._result_type(name)
    if found is None:
        raise AttributeError(f"module 'flambeau.return_types' has no attribute '{name}'")
    globals()[name] = found
    return found
