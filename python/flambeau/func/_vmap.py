"""vmap: run a function of one sample on a whole batch."""
import functools

from .. import _C
from ..overrides import TorchFunctionMode
from ..utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten
from ._batched import close_level, is_batched, levels, open_level, wrap
from ._rules import _RANDOM, random_factory

Tensor = _C.Tensor
is_batchedtensor = is_batched


def _get_name(func):
    if hasattr(func, "__name__"):
        return func.__name__
    if isinstance(func, functools.partial):
        return f"functools.partial({_get_name(func.func)}, ...)"
    return repr(func)


# The next three are PyTorch's names: libraries put their own in their place, to map over containers of tensors.


def _process_batched_inputs(in_dims, args, func):
    """The size of the batch, one dimension or None for each leaf of the arguments, the leaves, and their structure."""
    name = _get_name(func)
    head = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): "
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            head + "expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: "
            f"{type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    leaves, spec = tree_flatten(args)
    flat = _broadcast_to_and_flatten(in_dims, spec)
    if flat is None:
        raise ValueError(
            head + f"in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{tree_flatten(in_dims)[1]} but inputs has structure {spec}."
        )
    for i, (arg, dim) in enumerate(zip(leaves, flat)):
        if dim is None:
            continue
        if not isinstance(dim, int):
            raise ValueError(head + f"Got in_dim={dim} for an input but in_dim must be either an integer dimension or None.")
        if not isinstance(arg, Tensor):
            raise ValueError(
                head + f"Got in_dim={dim} for an input but the input is of type {type(arg)}. We cannot vmap over "
                "non-Tensor arguments, please use None as the respective in_dim"
            )
        if dim < -arg.dim() or dim >= arg.dim():
            raise ValueError(
                head + f"Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {arg.dim()} so "
                f"expected in_dim to satisfy -{arg.dim()} <= in_dim < {arg.dim()}."
            )
        if dim < 0:
            flat[i] = dim % arg.dim()
    sizes = [arg.size(dim) for arg, dim in zip(leaves, flat) if dim is not None]
    if not sizes:
        raise ValueError(
            "vmap: Expected at least one Tensor to vmap over"
        )
    if any(s != sizes[0] for s in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped "
            "dimension"
        )
    return sizes[0], flat, leaves, spec


def _create_batched_inputs(flat_in_dims, flat_args, vmap_level, args_spec):
    """The arguments as the function sees them."""
    seen = [x if d is None else _add_batch_dim(x, d, vmap_level) for x, d in zip(flat_args, flat_in_dims)]
    return tree_unflatten(seen, args_spec)


def _add_batch_dim(tensor, in_dim, level):
    """A tensor without one of its dimensions, over which a level maps."""
    return wrap(tensor.movedim(in_dim, 0) if in_dim else tensor, level)


def _remove_batch_dim(tensor, level, batch_size, out_dim):
    """A result of a level, with the dimension it maps over."""
    value = tensor._value if is_batched(tensor, level) else tensor.expand((batch_size,) + tuple(tensor.shape))
    return value.movedim(0, out_dim) if out_dim else value


class _Randomness(TorchFunctionMode):
    """Catches random factories, which have no batched argument to tell."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        kwargs = kwargs or {}
        if name in _RANDOM and levels and not any(isinstance(a, _C.Tensor) for a in (*args, *kwargs.values())):
            return random_factory(func, args, kwargs)
        return func(*args, **kwargs)


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """A function that maps `func` over dimension `in_dims` of its inputs, putting the results into `out_dims`."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func, updated=()) if hasattr(func, "__name__") else lambda f: f
    def wrapped(*args, **kwargs):
        size, dims, leaves, spec = _process_batched_inputs(in_dims, args, func)
        if chunk_size is not None and chunk_size < size:
            return _in_chunks(func, leaves, spec, dims, size, chunk_size, out_dims, randomness, kwargs)
        return _run(func, leaves, spec, dims, size, out_dims, randomness, kwargs)

    return wrapped


def _run(func, leaves, spec, dims, size, out_dims, randomness, kwargs):
    level = open_level(size, randomness)
    try:
        inputs = _create_batched_inputs(dims, leaves, level.number, spec)
        with _Randomness():
            result = func(*inputs, **kwargs)
        return _unwrap_batched(result, out_dims, level.number, size, func)
    finally:
        close_level()


def _unwrap_batched(batched_outputs, out_dims, vmap_level, batch_size, func):
    leaves, spec = tree_flatten(batched_outputs)
    name = _get_name(func)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(leaf)}. Did you mean to set "
                "out_dims= to None for output?"
            )
    dims = _broadcast_to_and_flatten(out_dims, spec)
    if dims is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of `outputs`. "
            f"out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure {spec}."
        )
    if not all(d is None or isinstance(d, int) for d in dims):
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints "
            "representing where in the outputs the vmapped dimension should appear."
        )
    results = [_maybe_remove_batch_dim(name, x, vmap_level, batch_size, d) for x, d in zip(leaves, dims)]
    return tree_unflatten(results, spec)


def _maybe_remove_batch_dim(name, batched_output, vmap_level, batch_size, out_dim):
    if out_dim is not None:
        return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)
    if is_batched(batched_output, vmap_level):
        raise ValueError(
            f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
        )
    return batched_output


def _in_chunks(func, leaves, spec, dims, size, chunk, out_dims, randomness, kwargs):
    state = _C.get_rng_state() if randomness == "same" else None
    results = []
    for start in range(0, size, chunk):
        n = min(chunk, size - start)
        part = [x if d is None else x.narrow(d, start, n) for x, d in zip(leaves, dims)]
        if state is not None:
            _C.set_rng_state(state)
        results.append(_run(func, part, spec, dims, n, out_dims, randomness, kwargs))
    flat = [tree_flatten(r) for r in results]
    where = _broadcast_to_and_flatten(out_dims, flat[0][1])
    return tree_unflatten([_C.cat(list(c), d) for c, d in zip(zip(*(f[0] for f in flat)), where)], flat[0][1])
