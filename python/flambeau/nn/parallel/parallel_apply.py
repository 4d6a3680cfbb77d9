"""Modules on the parts of a batch."""
__all__ = ["parallel_apply", "get_a_var"]


def get_a_var(obj):
    """A tensor within lists, tuples and dictionaries, if there is one."""
    from ... import Tensor

    if isinstance(obj, Tensor):
        return obj
    values = obj.items() if isinstance(obj, dict) else obj if isinstance(obj, (list, tuple)) else ()
    found = (get_a_var(value) for value in values)
    return next((tensor for tensor in found if tensor is not None), None)


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """Each module's result for its part, one after the other: the operators themselves use all processors."""
    if len(modules) != len(inputs):
        raise AssertionError(f"The number of modules {len(modules)} is not equal to the number of inputs {len(inputs)}")
    kwargs_tup = kwargs_tup or ({},) * len(modules)
    if len(modules) != len(kwargs_tup):
        raise AssertionError(f"The number of modules {len(modules)} is not equal to the number of kwargs {len(kwargs_tup)}")
    as_tuple = (part if isinstance(part, (list, tuple)) else (part,) for part in inputs)
    return [module(*args, **named) for module, args, named in zip(modules, as_tuple, kwargs_tup)]
