"""Lists of tensors grouped for operators that take lists."""
from .. import _C
from ..nn.parameter import Parameter

__all__ = []

# What operators on lists take as tensors.
_foreach_supported_types = [_C.Tensor, Parameter]


def _get_foreach_kernels_supported_devices():
    """Devices whose operators on lists are one step."""
    return ["cuda", "xpu", "mtia", _C._get_privateuse1_backend_name()]


def _get_fused_kernels_supported_devices():
    """Devices whose optimisers are one step."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", _C._get_privateuse1_backend_name()]


def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
    """{(device, dtype): (the lists' entries there, their positions)}, by the entries of the first list."""
    groups = {}
    for i, first in enumerate(tensorlistlist[0]):
        lists, indices = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for into, tensors in zip(lists, tensorlistlist):
            if tensors:
                into.append(tensors[i])
        if with_indices:
            indices.append(i)
    return groups


def _device_has_foreach_support(device):
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors, device):
    return _device_has_foreach_support(device) and all(t is None or type(t) is _C.Tensor for t in tensors)
