"""Autocast's settings by kind of device, under their old names."""
from . import _C

_KINDS = {"cpu": "cpu", "gpu": "cuda", "ipu": "ipu", "xla": "xla"}


def _of_kind(kind, device):
    def enabled():
        return _C.is_autocast_enabled(device)

    def set_enabled(enabled):
        _C.set_autocast_enabled(device, enabled)

    def dtype():
        return _C.get_autocast_dtype(device)

    def set_dtype(dtype):
        _C.set_autocast_dtype(device, dtype)

    return {f"is_autocast_{kind}_enabled": enabled, f"set_autocast_{kind}_enabled": set_enabled,
            f"get_autocast_{kind}_dtype": dtype, f"set_autocast_{kind}_dtype": set_dtype}  # fmt: skip


for _kind, _device in _KINDS.items():
    for _name, _function in _of_kind(_kind, _device).items():
        _function.__name__ = _function.__qualname__ = _name
        globals()[_name] = _function
