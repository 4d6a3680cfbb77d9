"""Classes as containers: dataclasses, constants, and names for named tuples."""
import dataclasses
from collections import namedtuple

from . import _pytree as tree


@dataclasses.dataclass(frozen=True)
class ConstantNode:
    """The context of a constant: the constant itself."""

    value: object


def register_constant(cls):
    """From now on values of this class are containers without leaves: they belong to the structure."""
    for method in ("__eq__", "__hash__"):
        # A class that defines equality alone has None for its hash.
        if getattr(cls, method) in (None, getattr(object, method)):
            raise TypeError(f"register_constant(cls) expects `cls` to have a non-default `{method}` implementation.")

    def flatten(value):
        return [], ConstantNode(value)

    tree._private_register_pytree_node(cls, flatten, lambda _, context: context.value, flatten_with_keys_fn=flatten)
    tree.CONSTANT_NODES.add(cls)


def is_constant_class(cls):
    """Whether register_constant was called for this class."""
    return isinstance(cls, type) and cls in tree.CONSTANT_NODES


def _is_constant_holder(spec):
    return isinstance(spec.context, ConstantNode)


def _retrieve_constant(spec):
    return spec.unflatten([])


def _check_fields(cls, names, dropped):
    expected = {f.name for f in dataclasses.fields(cls) if f.init} - set(dropped)
    missing, unexpected = expected - set(names), set(names) - expected
    text = ""
    if missing:
        text += (
            f"Missing fields in `field_names`: {missing}. If you want to include these fields in the pytree, please add "
            "them to `field_names`, otherwise please add them to `drop_field_names`.\n"
        )
    if unexpected:
        text += (
            f"Unexpected fields in `field_names`: {unexpected}. Please remove these fields, or add them to "
            "`drop_field_names`.\n"
        )
    if text:
        raise ValueError(f"field_names does not include all dataclass fields.\n{text}")


def register_dataclass(cls, *, field_names=None, drop_field_names=None, serialized_type_name=None):
    """From now on values of this class are containers of their fields; fields that are None are no leaves."""
    dropped = drop_field_names or []
    if dataclasses.is_dataclass(cls):
        if field_names is None:
            field_names = [f.name for f in dataclasses.fields(cls) if f.init and f.name not in dropped]
        else:
            _check_fields(cls, field_names, dropped)
    elif field_names is None:
        raise ValueError(
            f"field_names must be specified with a list of all fields used to initialize {cls}, as it is not a dataclass."
        )

    def flatten_with_keys(value):
        pairs = [(name, getattr(value, name)) for name in field_names]
        children = [(tree.GetAttrKey(name), child) for name, child in pairs if child is not None]
        return children, [[key.name for key, _ in children], [name for name, child in pairs if child is None]]

    def flatten(value):
        children, context = flatten_with_keys(value)
        return [child for _, child in children], context

    def unflatten(values, context):
        names, absent = context
        return cls(**dict(zip(names, values)), **dict.fromkeys(absent))

    tree._private_register_pytree_node(
        cls, flatten, unflatten, serialized_type_name=serialized_type_name, flatten_with_keys_fn=flatten_with_keys
    )


def _register_namedtuple(cls, *, serialized_type_name):
    """The name under which a class of named tuples is written."""
    tree.SUPPORTED_SERIALIZED_TYPES[cls] = tree.SUPPORTED_SERIALIZED_TYPES[namedtuple]._replace(
        typ=cls, serialized_type_name=serialized_type_name
    )
    tree.SERIALIZED_TYPE_TO_PYTHON_TYPE[serialized_type_name] = cls
