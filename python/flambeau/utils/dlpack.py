"""Tensors shared with other libraries through DLPack."""

import enum

from .. import _C

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


def to_dlpack(tensor):
    """A capsule over the tensor's memory, to be consumed once by another library."""
    return tensor.__dlpack__()


class DLDeviceType(enum.IntEnum):
    """Kinds of devices as DLPack numbers them."""

    (kDLCPU, kDLCUDA, kDLCUDAHost, kDLOpenCL, kDLVulkan, kDLMetal, kDLVPI, kDLROCM, kDLROCMHost, kDLExtDev, kDLCUDAManaged,
     kDLOneAPI, kDLWebGPU, kDLHexagon, kDLMAIA) = (1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17)  # fmt: skip


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor over the memory of an object with `__dlpack__`, or of a capsule. `copy=True` copies."""
    if hasattr(ext_tensor, "__dlpack__"):
        # Before the producer waits for its device: memory elsewhere cannot be read.
        kind = ext_tensor.__dlpack_device__()[0]
        if kind not in (DLDeviceType.kDLCPU, DLDeviceType.kDLCUDAHost, DLDeviceType.kDLROCMHost):
            raise BufferError(f"from_dlpack: Flambeau cannot read memory of DLPack's device type {kind}")
        # Producers of DLPack before version 1 do not know the keyword.
        try:
            capsule = ext_tensor.__dlpack__(max_version=(1, 0))
        except TypeError:
            capsule = ext_tensor.__dlpack__()
    else:
        capsule = ext_tensor
    tensor = _C._from_dlpack_capsule(capsule)
    if device is not None:
        tensor = tensor.to(device)
    return tensor.clone() if copy else tensor
