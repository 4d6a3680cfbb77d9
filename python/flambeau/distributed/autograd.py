"""Derivatives through calls in other processes. There are none: queries say so, and whatever needs one raises."""

__all__ = ["backward", "context", "get_gradients", "is_available"]


def is_available():
    """Can derivatives be computed through several processes? No."""
    return False


def _without_agent(*args, **kwargs):
    raise RuntimeError("Need to initialize distributed autograd using torch.distributed.rpc.init_rpc.")


backward = get_gradients = _without_agent


class context:
    """A forward and a backward pass through several processes; entering it raises."""

    def __enter__(self):
        _without_agent()

    def __exit__(self, kind, value, traceback):
        """Never reached."""
