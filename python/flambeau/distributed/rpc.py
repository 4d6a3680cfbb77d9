"""Calls of functions in other processes. There are none: queries say so, and whatever needs one raises."""

__all__ = ["WorkerInfo", "init_rpc", "is_available", "remote", "rpc_async", "rpc_sync", "shutdown"]


def is_available():
    """Can functions be called in other processes? No."""
    return False


class WorkerInfo:
    """The name and number of a process."""

    def __init__(self, name, id):
        self.name, self.id = name, id


def _is_current_rpc_agent_set():
    return False


def init_rpc(*args, **kwargs):
    """Raises: there are no processes that train together."""
    raise RuntimeError("Flambeau has no processes that train together")


def _without_agent(*args, **kwargs):
    raise RuntimeError("RPC has not been initialized. Call torch.distributed.rpc.init_rpc first.")


rpc_sync = rpc_async = remote = shutdown = _without_agent
