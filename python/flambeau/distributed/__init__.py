"""Training over several processes is not part of Flambeau: queries say so, and whatever needs it raises."""

__all__ = ["is_available", "is_initialized", "is_torchelastic_launched", "get_rank", "get_world_size", "init_process_group"]


def is_available():
    return False


def is_initialized():
    return False


is_mpi_available = is_nccl_available = is_gloo_available = is_ucc_available = is_torchelastic_launched = is_available


def _no_group(*args, **kwargs):
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


get_rank = get_world_size = barrier = all_reduce = all_gather = broadcast = reduce = new_group = _no_group


def init_process_group(*args, **kwargs):
    raise RuntimeError("Flambeau has no processes that train together")


class ReduceOp:
    """How values of several processes are joined."""

    SUM, PRODUCT, MIN, MAX, BAND, BOR, BXOR, AVG = range(8)
