"""The two markers that models carry before they are quantised; nothing is quantised here."""
from ...nn import Module

__all__ = ["QuantStub", "DeQuantStub"]


class QuantStub(Module):
    """Marks where a model's input would be quantised: hands it on."""

    def __init__(self, qconfig=None):
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x):
        return x


class DeQuantStub(QuantStub):
    """Marks where numbers would be made floating point again: hands them on."""


def __getattr__(name):
    raise AttributeError(f"module '{__name__}' has no attribute '{name}': quantisation is not part of Flambeau")
