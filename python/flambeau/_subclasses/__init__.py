"""Names of PyTorch's tensors that only pretend to have data. Here a tensor of device `meta` does that."""
from .fake_tensor import FakeTensor, FakeTensorMode

__all__ = ["FakeTensor", "FakeTensorMode"]
