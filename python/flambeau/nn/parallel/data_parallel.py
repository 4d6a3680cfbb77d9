"""One module over the parts of a batch."""
from ..modules.module import Module
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Holds a module as `module` and calls it; a batch is split over devices where there are any."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module = module
        self.device_ids = []
        self.dim = dim

    def replicate(self, module, device_ids):
        """A copy of the module for each device."""
        return replicate(module, device_ids)

    def scatter(self, inputs, kwargs, device_ids):
        """The arguments in parts."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def parallel_apply(self, replicas, inputs, kwargs):
        """Runs each copy on its part."""
        return parallel_apply(replicas, inputs, kwargs)

    def gather(self, outputs, output_device):
        """The results of the parts as one."""
        return gather(outputs, output_device, dim=self.dim)

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """`module(*inputs)`, over the available devices."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,) if inputs is not None else ()
    return module(*inputs, **(module_kwargs or {}))
