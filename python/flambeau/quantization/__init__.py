"""The older home of `torch.ao.quantization`."""
from ..ao.quantization import DeQuantStub, QuantStub

__all__ = ["QuantStub", "DeQuantStub"]


def __getattr__(name):
    raise AttributeError(f"module 'torch.quantization' has no attribute '{name}': quantisation is not part of Flambeau")
