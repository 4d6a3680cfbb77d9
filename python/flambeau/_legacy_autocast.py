"""Autocast's settings by kind of device, under their old names."""
from . import _C
from ._deprecation import deprecated

_KINDS = {"cpu": "cpu", "gpu": "cuda", "ipu": "ipu", "xla": "xla"}


def _of_kind(kind, device):
    def old(arguments, new):
        """Decorates a function that has a new name, and says so."""

        def decorate(function):
            name = f"{new.partition('_')[0]}_autocast_{kind}_{function.__name__.removeprefix('set_')}"
            given = f"'{device}', {arguments}" if arguments else f"'{device}'"
            text = f"torch.{name}({arguments}) is deprecated. Please use torch.{new}({given}) instead."
            return deprecated(text, DeprecationWarning)(function)

        return decorate

    @old("", "is_autocast_enabled")
    def enabled():
        return _C.is_autocast_enabled(device)

    @old("enabled", "set_autocast_enabled")
    def set_enabled(enabled):
        _C.set_autocast_enabled(device, enabled)

    @old("", "get_autocast_dtype")
    def dtype():
        return _C.get_autocast_dtype(device)

    @old("dtype", "set_autocast_dtype")
    def set_dtype(dtype):
        _C.set_autocast_dtype(device, dtype)

    return {f"is_autocast_{kind}_enabled": enabled, f"set_autocast_{kind}_enabled": set_enabled,
            f"get_autocast_{kind}_dtype": dtype, f"set_autocast_{kind}_dtype": set_dtype}  # fmt: skip


for _kind, _device in _KINDS.items():
    for _name, _function in _of_kind(_kind, _device).items():
        _function.__name__ = _function.__qualname__ = _name
        globals()[_name] = _function
