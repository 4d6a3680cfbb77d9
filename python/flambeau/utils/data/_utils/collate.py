"""Making a batch of samples, and tensors of one sample's parts."""
from __future__ import annotations

import collections.abc
import copy
import re
import sys
from collections.abc import Callable

import flambeau as _fl

# Of NumPy's dtypes those that are no numbers.
np_str_obj_array_pattern = re.compile(r"[SaUO]")
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}")


def _rebuild(data, values, mapping: bool):
    """A container like `data` with new values; None where its type cannot be made so."""
    kind = type(data)
    try:
        if mapping:
            if isinstance(data, collections.abc.MutableMapping):
                clone = copy.copy(data)
                clone.update(values)
                return clone
            return kind(values)
        if isinstance(data, collections.abc.MutableSequence):
            clone = copy.copy(data)
            for i, value in enumerate(values):
                clone[i] = value
            return clone
        return kind(values)
    except TypeError:
        return None


def _is_namedtuple(data) -> bool:
    return isinstance(data, tuple) and hasattr(data, "_fields")


def default_convert(data):
    """Turn the NumPy arrays in a sample into tensors; leave the rest."""
    if isinstance(data, _fl.Tensor):
        return data
    kind = type(data)
    if kind.__module__ == "numpy" and kind.__name__ not in ("str_", "string_", "bytes_"):
        if kind.__name__ == "ndarray" and data.dtype.kind in "SaUO":
            return data
        return _fl.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        values = {key: default_convert(data[key]) for key in data}
        made = _rebuild(data, values, True)
        return values if made is None else made
    if _is_namedtuple(data):
        return kind(*(default_convert(d) for d in data))
    if isinstance(data, tuple):
        return [default_convert(d) for d in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        values = [default_convert(d) for d in data]
        made = _rebuild(data, values, False)
        return values if made is None else made
    return data


def collate(batch, *, collate_fn_map: dict[type | tuple[type, ...], Callable] | None = None):
    """Put a list of samples together, element by element, with the function of `collate_fn_map` for each type."""
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        function = collate_fn_map.get(kind)
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)
        for known, function in collate_fn_map.items():
            if isinstance(first, known):
                return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, collections.abc.Mapping):
        values = {key: collate([d[key] for d in batch], collate_fn_map=collate_fn_map) for key in first}
        made = _rebuild(first, values, True)
        return values if made is None else made
    if _is_namedtuple(first):
        return kind(*(collate(samples, collate_fn_map=collate_fn_map) for samples in zip(*batch)))
    if isinstance(first, collections.abc.Sequence):
        if not all(len(sample) == len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        values = [collate(samples, collate_fn_map=collate_fn_map) for samples in zip(*batch)]
        if isinstance(first, tuple):
            return values
        made = _rebuild(first, values, False)
        return values if made is None else made
    raise TypeError(default_collate_err_msg_format.format(kind))


def collate_tensor_fn(batch, *, collate_fn_map=None):
    """Tensors of one shape stacked along a new first dimension."""
    first = batch[0]
    if first.is_nested:
        raise RuntimeError("Batches of nested tensors are not currently supported by the default collate_fn; "
                           "please provide a custom collate_fn to handle them appropriately.")
    return _fl.stack(batch, 0)


def collate_numpy_array_fn(batch, *, collate_fn_map=None):
    """NumPy arrays of one shape, as tensors stacked."""
    first = batch[0]
    if first.dtype.kind in "SaUO":
        raise TypeError(default_collate_err_msg_format.format(first.dtype))
    return collate([_fl.as_tensor(b) for b in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch, *, collate_fn_map=None):
    """NumPy numbers, as a tensor."""
    return _fl.as_tensor(batch)


def collate_float_fn(batch, *, collate_fn_map=None):
    """Floats, as a float64 tensor."""
    return _fl.tensor(batch, dtype=_fl.float64)


def collate_int_fn(batch, *, collate_fn_map=None):
    """Ints, as an int64 tensor."""
    return _fl.tensor(batch)


def collate_str_fn(batch, *, collate_fn_map=None):
    """Strings, as the list they are."""
    return batch


default_collate_fn_map: dict[type | tuple[type, ...], Callable] = {
    _fl.Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def _know_numpy() -> None:
    """Add NumPy's types once somebody has imported it."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "ndarray") and numpy.ndarray not in default_collate_fn_map:
        rest = dict(default_collate_fn_map)
        default_collate_fn_map.clear()
        default_collate_fn_map[_fl.Tensor] = rest.pop(_fl.Tensor)
        default_collate_fn_map[numpy.ndarray] = collate_numpy_array_fn
        default_collate_fn_map[(numpy.bool_, numpy.number, numpy.object_)] = collate_numpy_scalar_fn
        default_collate_fn_map.update(rest)


def default_collate(batch):
    """A batch of tensors, numbers, strings, dicts, tuples or lists, with a new first dimension for the samples."""
    _know_numpy()
    return collate(batch, collate_fn_map=default_collate_fn_map)
