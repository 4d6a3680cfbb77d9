"""Training over several processes is not part of Flambeau: queries say so, and whatever needs it raises.

The classes are there for annotations and type checks.
"""

__all__ = ["Backend", "DeviceMesh", "GroupMember", "ProcessGroup", "ReduceOp", "all_gather", "all_gather_into_tensor",
           "all_gather_object", "all_reduce", "all_to_all", "all_to_all_single", "barrier", "broadcast",
           "broadcast_object_list", "destroy_process_group", "gather", "gather_object", "get_backend", "get_rank",
           "get_world_size", "group", "init_device_mesh", "init_process_group", "irecv", "is_available", "is_gloo_available",
           "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "isend",
           "is_xccl_available", "monitored_barrier", "new_group", "recv", "reduce", "reduce_scatter",
           "reduce_scatter_tensor", "scatter", "scatter_object_list", "send"]  # fmt: skip


def is_available():
    """Whether processes can train together: no."""
    return False


def is_initialized():
    """Whether this process trains together with others: no."""
    return False


is_mpi_available = is_nccl_available = is_gloo_available = is_ucc_available = is_xccl_available = is_available
is_torchelastic_launched = is_available


def _no_group(*args, **kwargs):
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


get_rank = get_world_size = get_backend = new_group = barrier = monitored_barrier = _no_group
all_reduce = reduce = broadcast = all_gather = gather = scatter = reduce_scatter = all_to_all = all_to_all_single = _no_group
all_gather_into_tensor = reduce_scatter_tensor = send = recv = isend = irecv = _no_group
all_gather_object = gather_object = scatter_object_list = broadcast_object_list = _no_group


def init_process_group(*args, **kwargs):
    """Raises: there are no processes that train together."""
    raise RuntimeError("Flambeau has no processes that train together")


def destroy_process_group(group=None):
    """Raises: there is no group to end."""
    raise AssertionError("Process group cannot be None")


class ReduceOp:
    """How values of several processes are joined."""

    SUM, PRODUCT, MIN, MAX, BAND, BOR, BXOR, AVG = range(8)


class Backend(str):
    """The name of what carries values between processes."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, FAKE = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl", "fake"

    def __new__(cls, name):
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish: {name}")
        return super().__new__(cls, name.lower())


class GroupMember:
    """The group of all processes: None, as there is none."""

    WORLD = None
    NON_GROUP_MEMBER = -100


class group:
    """The older name for it."""

    WORLD = None


class ProcessGroup:
    """Processes that train together. None can be made."""

    def __init__(self, *args, **kwargs):
        init_process_group()


from .device_mesh import DeviceMesh, init_device_mesh  # noqa: E402
