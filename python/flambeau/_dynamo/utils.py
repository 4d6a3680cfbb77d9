"""What libraries ask of PyTorch's compiler: it compiles for no device."""

__all__ = ["is_compile_supported"]


def is_compile_supported(device_type):
    """Is code compiled for a kind of device? No."""
    return False
