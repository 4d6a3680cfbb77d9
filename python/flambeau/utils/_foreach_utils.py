"""Lists of tensors grouped for operators that take lists."""
from typing import Optional

from .. import _C
from ..nn.parameter import Parameter

Indices = list[int]
TensorListList = list[list[Optional[_C.Tensor]]]

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
    """{(device, dtype): (the lists' entries there, their positions)}, by the entries of the first list.

    RuntimeError if that has a None, if a list is neither empty nor as long, or if it holds a tensor of another device or
    dtype: a counter of steps and a state in bfloat16 may differ.
    """
    if not tensorlistlist or any(len(tensors) not in (0, len(tensorlistlist[0])) for tensors in tensorlistlist):
        raise RuntimeError("Expected a first list, and other lists that are empty or as long, but got lists of "
                           f"{[len(tensors) for tensors in tensorlistlist]}")
    groups = {}
    for i, first in enumerate(tensorlistlist[0]):
        if first is None:
            raise RuntimeError("Tensors of the first list of nested Tensor lists are supposed to be defined but "
                               f"the {i}-th Tensor is not.")
        if not all(_may_stand_beside(tensors[i], first) for tensors in tensorlistlist if tensors):
            raise RuntimeError("Tensors of the same index must be on the same device and the same dtype except `step` "
                               "tensors that can be CPU and float32/64, and optimizer states that can be bfloat16 for "
                               "mixed-precision training")
        lists, indices = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for into, tensors in zip(lists, tensorlistlist):
            if tensors:
                into.append(tensors[i])
        if with_indices:
            indices.append(i)
    return groups


def _may_stand_beside(tensor, first):
    """Whether a list may have `tensor` where the first list has `first`."""
    if tensor is None:
        return True
    counter = tensor.device.type == "cpu" and tensor.dtype in (_C.float32, _C.float64)
    same_device = tensor.device == first.device
    return counter or same_device and (tensor.dtype == first.dtype or tensor.dtype == _C.bfloat16)


def _device_has_foreach_support(device):
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors, device):
    return _device_has_foreach_support(device) and all(t is None or type(t) is _C.Tensor for t in tensors)
