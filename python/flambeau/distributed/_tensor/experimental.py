"""Of `distributed.tensor` what may still change."""
import contextlib

__all__ = ["implicit_replication"]


@contextlib.contextmanager
def implicit_replication():
    """Inside, plain tensors count as copies on every process; there is one process."""
    yield
