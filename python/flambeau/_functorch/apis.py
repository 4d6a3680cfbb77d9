"""Transforms that take a function and give one."""
from ..func import grad, grad_and_value, vmap

__all__ = ["chunk_vmap", "grad", "grad_and_value", "vmap"]


def chunk_vmap(func, in_dims=0, out_dims=0, randomness="error", chunks=2):
    """`vmap` that works through its batch in so many pieces."""
    import functools

    if chunks == 1:
        return vmap(func, in_dims=in_dims, out_dims=out_dims, randomness=randomness)

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        from ..func._vmap import _process_batched_inputs

        size = _process_batched_inputs(in_dims, args, func)[0]
        piece = -(-size // chunks)
        return vmap(func, in_dims, out_dims, randomness, chunk_size=piece)(*args, **kwargs)

    return wrapped
