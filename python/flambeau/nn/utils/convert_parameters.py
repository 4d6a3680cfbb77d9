"""All parameters as one vector."""
from ... import _C
from ..._names import typename


def _check_param_device(param, old_param_device):
    where = param.get_device() if param.is_cuda else -1
    if old_param_device is None:
        return where
    if where != old_param_device:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")
    return old_param_device


def parameters_to_vector(parameters):
    """The elements of all parameters, one after the other."""
    device, parts = None, []
    for param in parameters:
        device = _check_param_device(param, device)
        parts.append(param.view(-1))
    return _C.cat(parts)


def vector_to_parameters(vec, parameters):
    """Make the parameters slices of a vector."""
    if not isinstance(vec, _C.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {typename(vec)}")
    device, start = None, 0
    for param in parameters:
        device = _check_param_device(param, device)
        n = param.numel()
        param.data = vec[start : start + n].view_as(param).data
        start += n
