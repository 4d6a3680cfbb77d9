"""`vmap` under the name that it had before `torch.func`, which libraries still import."""
import functools

from .func import vmap

__all__ = ["vmap"]


def _vmap(func, in_dims=0, out_dims=0, allow_none_pass_through=False):
    """`vmap`; with `allow_none_pass_through` the function may return None among its results."""
    return _with_absent(func, in_dims, out_dims) if allow_none_pass_through else vmap(func, in_dims, out_dims)


def _with_absent(func, in_dims, out_dims):
    @functools.wraps(func)
    def wrapped(*args):
        returned = None

        def present(*samples):
            nonlocal returned
            returned = func(*samples)
            parts = returned if isinstance(returned, tuple) else (returned,)
            return tuple(part for part in parts if part is not None)

        found = iter(vmap(present, in_dims, out_dims)(*args))
        if not isinstance(returned, tuple):
            return next(found, None)
        return tuple(None if part is None else next(found) for part in returned)

    return wrapped
