"""Devices of several processes as an array."""
from . import init_process_group

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """An array of devices. None can be made: processes that train together do not exist."""

    def __init__(self, *args, **kwargs):
        init_process_group()


def init_device_mesh(*args, **kwargs):
    """Raises, as the class does."""
    return DeviceMesh(*args, **kwargs)
