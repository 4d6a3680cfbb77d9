"""Running a module on several devices. With none but the CPU, the module simply runs."""
from ..modules.module import Module
from .distributed import DistributedDataParallel
from .scatter_gather import gather, scatter_kwargs

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


class DataParallel(Module):
    """Holds a module as `module` and calls it; a batch is split over devices where there are any."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module = module
        self.device_ids = []
        self.dim = dim

    def replicate(self, module, device_ids):
        """A copy of the module for each device, all over the same parameters."""
        replicas = [module.__class__.__new__(module.__class__) for _ in device_ids]
        for replica in replicas:
            replica.__dict__ = module.__dict__.copy()
        return replicas

    def scatter(self, inputs, kwargs, device_ids):
        """The arguments in parts."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def parallel_apply(self, replicas, inputs, kwargs):
        """Runs each copy on its part, one after the other."""
        return [replica(*args, **named) for replica, args, named in zip(replicas, inputs, kwargs)]

    def gather(self, outputs, output_device):
        """The results of the parts as one."""
        return gather(outputs, output_device, dim=self.dim)

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """`module(*inputs)`, over the available devices."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,) if inputs is not None else ()
    return module(*inputs, **(module_kwargs or {}))
