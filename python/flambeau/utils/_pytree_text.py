"""Shapes of trees as text."""
import enum
import importlib
import json

from . import _pytree as tree

DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1


class EnumEncoder(json.JSONEncoder):
    """JSON with members of enumerations by name."""

    def default(self, o):
        if not isinstance(o, enum.Enum):
            return super().default(o)
        kind = type(o)
        return {"__enum__": True, "fqn": f"{kind.__module__}:{kind.__qualname__}", "name": o.name}


def enum_object_hook(obj):
    """The member that EnumEncoder wrote; other objects as they are."""
    if "__enum__" not in obj:
        return obj
    module, _, path = obj["fqn"].partition(":")
    found = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found[obj["name"]]


def _namedtuple_serialize(context):
    if context not in tree.SUPPORTED_SERIALIZED_TYPES:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {context} because we didn't register a serializated_type_name. "
            "Please register using `_register_namedtuple`."
        )
    return tree.SUPPORTED_SERIALIZED_TYPES[context].serialized_type_name


def _namedtuple_deserialize(dumpable_context):
    if dumpable_context not in tree.SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(
            f"Can't deserialize TreeSpec of namedtuple class {dumpable_context} because we couldn't find a serializated name."
        )
    return tree.SERIALIZED_TYPE_TO_PYTHON_TYPE[dumpable_context]


def _defaultdict_serialize(context):
    factory, keys = context
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _defaultdict_deserialize(dumpable_context):
    module = importlib.import_module(dumpable_context["default_factory_module"])
    return [getattr(module, dumpable_context["default_factory_name"]), dumpable_context["dict_context"]]


def _to_json(spec):
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    if spec.type not in tree.SUPPORTED_SERIALIZED_TYPES:
        raise NotImplementedError(f"Serializing {spec.type} in pytree is not registered.")
    known = tree.SUPPORTED_SERIALIZED_TYPES[spec.type]
    if known.serialized_type_name == tree.NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. "
            "Please update your _register_pytree_node call with a `serialized_type_name` kwarg."
        )
    if known.to_dumpable_context is not None:
        context = known.to_dumpable_context(spec.context)
    else:
        try:
            context = json.dumps(spec.context, cls=EnumEncoder)
        except TypeError as error:
            raise TypeError(
                "Unable to serialize context. Please make the context json dump-able, or register a "
                "custom serializer using _register_pytree_node."
            ) from error
    return {
        "type": known.serialized_type_name,
        "context": context,
        "children_spec": [_to_json(child) for child in spec.children_specs],
    }


def _from_json(schema):
    name = schema["type"]
    if name is None:
        return tree.treespec_leaf()
    if name not in tree.SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(f"Deserializing {name} in pytree is not registered.")
    kind = tree.SERIALIZED_TYPE_TO_PYTHON_TYPE[name]
    from_dumpable = tree.SUPPORTED_SERIALIZED_TYPES[kind].from_dumpable_context
    if from_dumpable is not None:
        context = from_dumpable(schema["context"])
    else:
        context = json.loads(schema["context"], object_hook=enum_object_hook)
    return tree.TreeSpec(kind, context, [_from_json(child) for child in schema["children_spec"]])


def _check_protocol(protocol):
    if protocol != DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL:
        raise ValueError(
            f"Unknown protocol {protocol}. Available protocols: {[DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL]}"
        )


def treespec_dumps(treespec, protocol=None):
    """A shape as JSON."""
    tree._checked(treespec)
    protocol = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol
    _check_protocol(protocol)
    return json.dumps((protocol, _to_json(treespec)))


def treespec_loads(serialized):
    """The shape that treespec_dumps wrote."""
    protocol, schema = json.loads(serialized, object_hook=enum_object_hook)
    _check_protocol(protocol)
    return _from_json(schema)


pytree_to_str, str_to_pytree = treespec_dumps, treespec_loads


class _Star:
    def __repr__(self):
        return "*"


def treespec_pprint(treespec):
    """The tree itself as Python writes it, with stars for leaves."""
    return repr(treespec.unflatten([_Star()] * treespec.num_leaves))
