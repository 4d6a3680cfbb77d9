"""Which implementation `scaled_dot_product_attention` may use."""
from contextlib import contextmanager
from enum import IntEnum

__all__ = [
    "SDPBackend", "sdpa_kernel", "WARN_FOR_UNFUSED_KERNELS", "activate_flash_attention_impl",
    "current_flash_attention_impl", "list_flash_attention_impls", "register_flash_attention_impl",
    "restore_flash_attention_impl",
]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(IntEnum):
    """Implementations of attention. There is one here; the choice is accepted and recorded."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_enabled = [b for b in SDPBackend if b >= 0]


def _cur_sdpa_kernel_backends(with_priority=False):
    return list(_enabled)


@contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Within this context, attention may use the given implementations only."""
    global _enabled
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
                             f"{type(backends).__name__}")
    saved = _enabled
    _enabled = [backends] if isinstance(backends, SDPBackend) else list(dict.fromkeys(backends))
    try:
        yield {}
    finally:
        _enabled = saved


# Plug-in implementations of attention: none exist here.


def list_flash_attention_impls():
    """Names of registered implementations."""
    return sorted(_impls)


def current_flash_attention_impl():
    """The active implementation, or None for the built-in one."""
    return _active


def register_flash_attention_impl(impl, *, register_fn):
    """Make an implementation known by name; `register_fn` runs when it is activated."""
    _impls[impl] = register_fn


def activate_flash_attention_impl(impl):
    """Switch to a registered implementation."""
    global _active
    if impl not in _impls:
        raise ValueError(f"Unknown flash attention impl '{impl}'. Available implementations: {list_flash_attention_impls()}")
    _impls[impl]()
    _active = impl


def restore_flash_attention_impl(_raise_warn=True):
    """Back to the built-in implementation."""
    global _active
    _active = None


_impls = {}
_active = None
