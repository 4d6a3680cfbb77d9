"""Arguments by the names of a function's signature."""
import inspect
from typing import NamedTuple

__all__ = ["ArgsKwargsPair", "normalize_function", "normalize_module", "get_signature_for_torch_op"]


class ArgsKwargsPair(NamedTuple):
    """Positional and keyword arguments of a call."""

    args: tuple
    kwargs: dict


def get_signature_for_torch_op(op, return_schemas=False):
    """The signatures that an operator has: those of its overloads. None if it is no operator."""
    import flambeau

    from .._aten_names import OVERLOADS

    name = getattr(op, "__name__", None)
    packet = getattr(flambeau.ops.aten, name, None) if name else None
    if packet is None or name in OVERLOADS:  # of a placeholder the arguments are not known
        return (None, None) if return_schemas else None
    schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
    signatures = [_signature(schema) for schema in schemas]
    return (signatures, schemas) if return_schemas else signatures


def _signature(schema):
    kinds = inspect.Parameter
    parameters = []
    for argument in schema.arguments:
        kind = kinds.KEYWORD_ONLY if argument.kwarg_only else kinds.POSITIONAL_OR_KEYWORD
        default = argument.default_value if argument.has_default_value() else kinds.empty
        parameters.append(inspect.Parameter(argument.name, kind, default=default))
    return inspect.Signature(parameters)


def normalize_function(target, args, kwargs=None, arg_types=None, kwarg_types=None, normalize_to_only_use_kwargs=False):
    """A function's arguments with defaults filled in, by name if asked; None if there is no one signature that fits."""
    kwargs = kwargs or {}
    try:
        return _bound(inspect.signature(target), args, kwargs, normalize_to_only_use_kwargs)
    except (TypeError, ValueError):
        pass
    fitting = []
    for signature in get_signature_for_torch_op(target) or ():
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            continue
        fitting.append(signature)
    return _bound(fitting[0], args, kwargs, normalize_to_only_use_kwargs) if len(fitting) == 1 else None


def normalize_module(root, target, args, kwargs=None, normalize_to_only_use_kwargs=False):
    """The same for a call of a submodule."""
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize arguments to {target} but root did not have an attribute with that name!"
        ) from error
    return _bound(inspect.signature(module.forward), args, kwargs or {}, normalize_to_only_use_kwargs)


def _bound(signature, args, kwargs, only_kwargs):
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    positional, named = [], {}
    count = 0 if only_kwargs else len(args)
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            return None
        if len(positional) < count and name not in kwargs and parameter.kind is not parameter.KEYWORD_ONLY:
            positional.append(bound.arguments[name])
        else:
            named[name] = bound.arguments[name]
    return ArgsKwargsPair(tuple(positional), named)
