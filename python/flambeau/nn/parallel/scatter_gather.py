"""Arguments in parts for several devices, and results put together."""
from ...utils._pytree import is_namedtuple_instance

__all__ = ["scatter", "scatter_kwargs", "gather"]


def is_namedtuple(obj):
    """Whether it is a named tuple."""
    return is_namedtuple_instance(obj)


def scatter(inputs, target_gpus, dim=0):
    """Tensors in chunks along `dim`, one for each device; everything else is handed to all."""
    from ... import Tensor

    count = len(target_gpus)
    if isinstance(inputs, Tensor):
        parts = inputs.chunk(count, dim)
        return tuple(part.to(device) for part, device in zip(parts, target_gpus))
    if is_namedtuple(inputs):
        return [type(inputs)(*parts) for parts in zip(*(scatter(x, target_gpus, dim) for x in inputs))]
    if isinstance(inputs, tuple) and inputs:
        return list(zip(*(scatter(x, target_gpus, dim) for x in inputs)))
    if isinstance(inputs, list) and inputs:
        return [list(parts) for parts in zip(*(scatter(x, target_gpus, dim) for x in inputs))]
    if isinstance(inputs, dict) and inputs:
        values = zip(*(scatter(x, target_gpus, dim) for x in inputs.values()))
        return [type(inputs)(zip(inputs, parts)) for parts in values]
    return [inputs for _ in target_gpus]


def scatter_kwargs(inputs, kwargs, target_gpus, dim=0):
    """Both kinds of arguments for each device; the shorter is filled up with empty ones."""
    args = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(args), len(named))
    args = list(args) + [()] * (count - len(args))
    named = list(named) + [{}] * (count - len(named))
    return tuple(args), tuple(named)


def gather(outputs, target_device, dim=0):
    """Results of several devices on one: tensors are joined along `dim`."""
    from ... import Tensor, cat

    first = outputs[0]
    if isinstance(first, Tensor):
        parts = [part.to(target_device) for part in outputs]
        return cat([part.view(1) if part.dim() == 0 else part for part in parts], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if not all(len(out) == len(first) for out in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((key, gather([out[key] for out in outputs], target_device, dim)) for key in first)
    parts = [gather(list(column), target_device, dim) for column in zip(*outputs)]
    return type(first)(*parts) if is_namedtuple(first) else type(first)(parts)
