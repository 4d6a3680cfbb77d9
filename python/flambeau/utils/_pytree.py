"""Nested containers as flat lists of leaves and back."""
import functools
import types
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

from .._size import Size
from ._pytree_keys import (GetAttrKey, KeyEntry, KeyPath, MappingKey, SequenceKey, is_namedtuple, is_namedtuple_class,
                           is_namedtuple_instance, is_structseq, is_structseq_class, is_structseq_instance, key_get,
                           keystr)  # fmt: skip

__all__ = ["PyTree", "Context", "FlattenFn", "UnflattenFn", "DumpableContext", "ToDumpableContextFn", "FromDumpableContextFn",
           "PyTreeSpec", "TreeSpec", "LeafSpec", "keystr", "key_get", "register_pytree_node", "tree_is_leaf",
           "tree_flatten", "tree_flatten_with_path", "tree_unflatten", "tree_iter", "tree_leaves", "tree_leaves_with_path",
           "tree_structure", "tree_map", "tree_map_with_path", "tree_map_", "tree_map_only", "tree_map_only_", "tree_all",
           "tree_any", "tree_all_only", "tree_any_only", "treespec_dumps", "treespec_loads", "treespec_pprint",
           "is_namedtuple", "is_namedtuple_class", "is_namedtuple_instance", "is_structseq", "is_structseq_class",
           "is_structseq_instance"]  # fmt: skip

PyTree = Context = DumpableContext = Any
FlattenFn = FlattenFunc = Callable[[PyTree], tuple[list, Context]]
UnflattenFn = UnflattenFunc = Callable[[Any, Context], PyTree]
FlattenWithKeysFn = FlattenWithKeysFunc = Callable[[PyTree], tuple[list, Context]]
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]

BUILTIN_TYPES = frozenset({tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque})
STANDARD_DICT_TYPES = frozenset({dict, OrderedDict, defaultdict})
NO_SERIALIZED_TYPE_NAME_FOUND = "NO_SERIALIZED_TYPE_NAME_FOUND"


class NodeDef(NamedTuple):
    """How a class of containers is taken apart and put together."""

    type: type
    flatten_fn: FlattenFn
    unflatten_fn: UnflattenFn
    flatten_with_keys_fn: FlattenWithKeysFn | None = None


class _SerializeNodeDef(NamedTuple):
    typ: type
    serialized_type_name: str
    to_dumpable_context: ToDumpableContextFn | None
    from_dumpable_context: FromDumpableContextFn | None


SUPPORTED_NODES = {}
SUPPORTED_SERIALIZED_TYPES = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE = {}
CONSTANT_NODES = set()


def register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, to_dumpable_context=None,
                         from_dumpable_context=None, flatten_with_keys_fn=None):  # fmt: skip
    """`flatten_fn(x) -> (children, context)` and `unflatten_fn(children, context) -> x` for a class of containers."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, serialized_type_name=serialized_type_name,
                                  to_dumpable_context=to_dumpable_context, from_dumpable_context=from_dumpable_context,
                                  flatten_with_keys_fn=flatten_with_keys_fn)  # fmt: skip


def _private_register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, to_dumpable_context=None,
                                  from_dumpable_context=None, flatten_with_keys_fn=None):  # fmt: skip
    """The same for a class that may be registered already: the new functions stand."""
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.")
    name = NO_SERIALIZED_TYPE_NAME_FOUND if serialized_type_name is None else serialized_type_name
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(cls, name, to_dumpable_context, from_dumpable_context)
    SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = cls


def _register_pytree_node(cls, flatten_fn, unflatten_fn, to_str_fn=None, maybe_from_str_fn=None, **named):
    """The older name of register_pytree_node."""
    warnings.warn(
        "`torch.utils._pytree._register_pytree_node` is deprecated. "
        "Please use `torch.utils._pytree.register_pytree_node` instead.",
        FutureWarning,
        stacklevel=2,
    )
    if to_str_fn is not None or maybe_from_str_fn is not None:
        warnings.warn(
            "`to_str_fn` and `maybe_from_str_fn` is deprecated. "
            "Please use `to_dumpable_context` and `from_dumpable_context` instead.",
            FutureWarning,
            stacklevel=2,
        )
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, **named)


def _deregister_pytree_node(cls):
    """Takes a class out again."""
    del SUPPORTED_NODES[cls]
    name = SUPPORTED_SERIALIZED_TYPES.pop(cls).serialized_type_name
    SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(name, None)
    CONSTANT_NODES.discard(cls)


def _keyed_by(key, flatten):
    """A flatten_with_keys_fn: each child with its index, or with its key where the context is a list of keys."""

    def with_keys(container):
        children, context = flatten(container)
        return [(key(name), child) for name, child in zip(_names_of(container, len(children)), children)], context

    return with_keys


def _names_of(container, count):
    return container if isinstance(container, dict) else getattr(container, "_fields", range(count))


def _tuple_flatten(d):
    return list(d), None


def _tuple_unflatten(values, context):
    return tuple(values)


_list_flatten = _tuple_flatten
_list_flatten_with_keys = _tuple_flatten_with_keys = _keyed_by(SequenceKey, _tuple_flatten)


def _list_unflatten(values, context):
    return list(values)


def _dict_flatten(d):
    return list(d.values()), list(d)


_dict_flatten_with_keys = _keyed_by(MappingKey, _dict_flatten)


def _dict_unflatten(values, context):
    return dict(zip(context, values))


_ordereddict_flatten, _ordereddict_flatten_with_keys = _dict_flatten, _dict_flatten_with_keys


def _ordereddict_unflatten(values, context):
    return OrderedDict(zip(context, values))


_odict_flatten, _odict_unflatten = _ordereddict_flatten, _ordereddict_unflatten


def _defaultdict_flatten(d):
    return list(d.values()), [d.default_factory, list(d)]


_defaultdict_flatten_with_keys = _keyed_by(MappingKey, _defaultdict_flatten)


def _defaultdict_unflatten(values, context):
    return defaultdict(context[0], zip(context[1], values))


def _deque_flatten(d):
    return list(d), d.maxlen


_deque_flatten_with_keys = _keyed_by(SequenceKey, _deque_flatten)


def _deque_unflatten(values, context):
    return deque(values, maxlen=context)


def _namedtuple_flatten(d):
    return list(d), type(d)


_namedtuple_flatten_with_keys = _keyed_by(GetAttrKey, _namedtuple_flatten)


def _namedtuple_unflatten(values, context):
    return context(*values)


for _kind, _prefix, _serialized in ((tuple, "_tuple", "builtins.tuple"), (list, "_list", "builtins.list"),
                                    (dict, "_dict", "builtins.dict"), (Size, "_tuple", "torch.Size"),
                                    (OrderedDict, "_ordereddict", "collections.OrderedDict"),
                                    (deque, "_deque", "collections.deque")):  # fmt: skip
    _private_register_pytree_node(_kind, globals()[_prefix + "_flatten"], globals()[_prefix + "_unflatten"],
                                  serialized_type_name=_serialized,
                                  flatten_with_keys_fn=globals()[_prefix + "_flatten_with_keys"])  # fmt: skip


def _node(tree):
    """The definition for a container; None for a leaf."""
    kind = type(tree)
    node = SUPPORTED_NODES.get(kind)
    if node is None and isinstance(tree, tuple):
        if is_namedtuple_class(kind):
            return SUPPORTED_NODES[namedtuple]
        # The operators' results with names are registered as they turn up.
        if is_structseq_class(kind) and kind.__module__ == "torch.return_types":
            _private_register_pytree_node(
                kind, _tuple_flatten, lambda values, _: kind(values), flatten_with_keys_fn=_tuple_flatten_with_keys
            )
            return SUPPORTED_NODES[kind]
    return node


def _get_node_type(tree):
    node = _node(tree)
    return type(tree) if node is None else node.type


_is_namedtuple_instance = is_namedtuple_instance


def tree_is_leaf(tree, is_leaf=None):
    """Whether this is a leaf: no container, or one that the predicate holds for."""
    return (is_leaf is not None and is_leaf(tree)) or _node(tree) is None


_is_leaf = tree_is_leaf


class TreeSpec:
    """The shape of a tree: its type, what rebuilds it, and its children's shapes."""

    __slots__ = ("type", "_context", "_children", "num_nodes", "num_leaves", "num_children", "__weakref__")

    def __init__(self, type, context, children_specs):
        self.type, self._context, self._children = type, context, children_specs
        self.num_children = len(children_specs)
        if type is None:
            assert context is None, "leaf node should not have a context"
            assert not children_specs, "leaf node should not have children"
            self.num_nodes = self.num_leaves = 1
        else:
            self.num_nodes, self.num_leaves = 1, 0
            for child in children_specs:
                self.num_nodes += child.num_nodes
                self.num_leaves += child.num_leaves

    @property
    def context(self):
        """What beside the children makes the container."""
        return self._context

    @property
    def children_specs(self):
        """The children's shapes."""
        return self._children

    def is_leaf(self):
        """Whether this is the place of one value."""
        return self.type is None

    def children(self):
        """The children's shapes, as a new list."""
        return list(self._children)

    def child(self, index):
        """One child's shape."""
        return self._children[index]

    def flatten_up_to(self, tree):
        """The parts of a tree that stand where this shape has leaves."""
        parts = []
        self._flatten_up_to(tree, parts)
        return parts

    def _flatten_up_to(self, tree, parts):
        if self.type is None:
            parts.append(tree)
            return
        kind = _get_node_type(tree)
        dicts = self.type in STANDARD_DICT_TYPES and kind in STANDARD_DICT_TYPES
        if kind != self.type and not dicts:
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {kind!r}.")
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if len(children) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(children)}.")
        if dicts:
            keys = self._keys()
            expected, got = set(keys), set(tree)
            if expected != got:
                missing, extra = expected - got, got - expected
                text = f"; missing key(s): {missing}" if missing else ""
                text += f"; extra key(s): {extra}" if extra else ""
                raise ValueError(f"Node keys mismatch{text}.")
            children = [tree[key] for key in keys]
        elif context != self._context and self.type is not deque:
            if self.type not in BUILTIN_TYPES:
                raise ValueError(f"Node context mismatch for custom node type {self.type!r}.")
            raise ValueError(
                f"Node context mismatch for node type {self.type!r}; expected {self._context!r}, but got {context!r}."
            )
        for spec, child in zip(self._children, children):
            spec._flatten_up_to(child, parts)

    def _keys(self):
        """A dictionary's keys in order."""
        return self._context[1] if self.type is defaultdict else self._context

    def unflatten(self, leaves):
        """The tree with these leaves."""
        if not isinstance(leaves, (list, tuple)):
            leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return self._build(iter(leaves))

    def _build(self, leaves):
        if self.type is None:
            return next(leaves)
        return SUPPORTED_NODES[self.type].unflatten_fn([child._build(leaves) for child in self._children], self._context)

    def __eq__(self, other):
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (self.type, self._context, self._children) == (other.type, other._context, other._children)

    def __hash__(self):
        # Contexts are mostly lists, and need not be hashable.
        return hash((self.type, self.num_leaves, tuple(self._children)))

    def __repr__(self):
        if self.type is None:
            return "*"
        children = ",\n  ".join(repr(child).replace("\n", "\n  ") for child in self._children)
        return f"TreeSpec({self.type.__name__}, {self._context}, [{children}])"


PyTreeSpec = TreeSpec


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    __slots__ = ()

    def __init__(self):
        super().__init__(None, None, [])

    def __reduce__(self):
        return LeafSpec, ()


_LEAF_SPEC = LeafSpec()


def treespec_leaf():
    """The shape of a leaf."""
    return _LEAF_SPEC


def treespec_tuple(iterable=(), /):
    """The shape of a tuple of trees of these shapes."""
    children = list(iterable)
    if not all(isinstance(child, TreeSpec) for child in children):
        raise ValueError(f"Expected a tuple of TreeSpec values, got: {children!r}.")
    return TreeSpec(tuple, None, children)


def treespec_dict(mapping=(), /, **kwargs):
    """The shape of a dictionary of trees of these shapes."""
    specs = dict(mapping, **kwargs)
    if not all(isinstance(child, TreeSpec) for child in specs.values()):
        raise ValueError(f"Expected a dictionary of TreeSpec values, got: {specs!r}.")
    return TreeSpec(dict, list(specs), list(specs.values()))


def tree_flatten(tree, is_leaf=None):
    """The leaves of a tree, left to right, and its TreeSpec."""
    leaves = []
    return leaves, _flatten_into(tree, leaves, is_leaf)


def _flatten_into(tree, leaves, is_leaf):
    node = None if is_leaf is not None and is_leaf(tree) else _node(tree)
    if node is None:
        leaves.append(tree)
        return _LEAF_SPEC
    children, context = node.flatten_fn(tree)
    return TreeSpec(node.type, context, [_flatten_into(child, leaves, is_leaf) for child in children])


def _checked(treespec):
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.")
    return treespec


def tree_unflatten(leaves, treespec):
    """The inverse of tree_flatten."""
    return _checked(treespec).unflatten(leaves)


def tree_iter(tree, is_leaf=None):
    """The leaves, one after the other."""
    node = None if is_leaf is not None and is_leaf(tree) else _node(tree)
    if node is None:
        yield tree
    else:
        for child in node.flatten_fn(tree)[0]:
            yield from tree_iter(child, is_leaf)


def tree_leaves(tree, is_leaf=None):
    """The leaves in order."""
    return list(tree_iter(tree, is_leaf))


def tree_structure(tree, is_leaf=None):
    """The structure without its leaves."""
    return tree_flatten(tree, is_leaf)[1]


def arg_tree_leaves(*args, **kwargs):
    """The leaves of a call's arguments."""
    return tree_leaves((*args, *kwargs.values()))


def tree_map(func, tree, *rests, is_leaf=None):
    """`func` of each leaf (and of the corresponding parts of other trees), in the same structure."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten([func(*parts) for parts in zip(leaves, *(spec.flatten_up_to(rest) for rest in rests))])


def tree_map_(func, tree, *rests, is_leaf=None):
    """Call a function on every leaf; returns the tree."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for parts in zip(leaves, *(spec.flatten_up_to(rest) for rest in rests)):
        func(*parts)
    return tree


def _is_instance_test(types_or_predicate):
    return isinstance(types_or_predicate, (type, tuple, types.UnionType))


def map_only(type_or_types_or_pred, /):
    """A decorator: the function is applied to values of the types, or that the predicate holds for, and not to others."""
    if _is_instance_test(type_or_types_or_pred):
        chosen = lambda x: isinstance(x, type_or_types_or_pred)  # noqa: E731
    elif callable(type_or_types_or_pred):
        chosen = type_or_types_or_pred
    else:
        raise TypeError("Argument must be a type, a tuple of types, or a callable.")

    def decorate(func):
        @functools.wraps(func)
        def wrapped(x):
            return func(x) if chosen(x) else x

        return wrapped

    return decorate


def tree_map_only(type_or_types_or_pred, /, func, tree, is_leaf=None):
    """`func` of the leaves that are of the given types (or fulfil a predicate); the others stay."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred, /, func, tree, is_leaf=None):
    """Call a function on the leaves that are of the given types (or fulfil a predicate); returns the tree."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    """Whether a predicate holds for every leaf."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    """Whether a predicate holds for some leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types, /, pred, tree, is_leaf=None):
    """Whether a predicate holds for every leaf of the given types."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(type_or_types, /, pred, tree, is_leaf=None):
    """Whether a predicate holds for some leaf of the given types."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def _generate_key_paths(key_path, tree, is_leaf=None):
    """The paths to the leaves and the leaves, below a path."""
    node = None if is_leaf is not None and is_leaf(tree) else _node(tree)
    if node is None:
        yield key_path, tree
        return
    if node.flatten_with_keys_fn is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {node.type}. "
            "Please pass a flatten_with_keys_fn argument to register_pytree_node."
        )
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        yield from _generate_key_paths((*key_path, key), child, is_leaf)


def tree_leaves_with_path(tree, is_leaf=None):
    """Pairs of the path to a leaf and the leaf."""
    return list(_generate_key_paths((), tree, is_leaf))


def tree_flatten_with_path(tree, is_leaf=None):
    """Pairs of the path to a leaf and the leaf, and the tree's TreeSpec."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """`func(path, leaf, ...)` of each leaf, in the same structure."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten([func(path, leaf, *parts) for (path, leaf), *parts in zip(pairs, *others)])


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """The leaves of `tree` repeated where it is shallower than `treespec`; None if they do not fit."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.is_leaf():
        return None
    node = _node(tree)
    children, context = node.flatten_fn(tree)
    if node.type in STANDARD_DICT_TYPES and treespec.type in STANDARD_DICT_TYPES:
        keys = treespec._keys()
        if set(keys) != set(tree):
            return None
        children = [tree[key] for key in keys]
    elif node.type != treespec.type or len(children) != treespec.num_children or context != treespec.context:
        return None
    result = []
    for child, spec in zip(children, treespec.children_specs):
        flat = _broadcast_to_and_flatten(child, spec, is_leaf)
        if flat is None:
            return None
        result += flat
    return result


from ._pytree_classes import (ConstantNode, _is_constant_holder, _register_namedtuple, _retrieve_constant,  # noqa: E402
                              is_constant_class, register_constant, register_dataclass)  # fmt: skip
from ._pytree_text import (DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL, EnumEncoder, _defaultdict_deserialize,  # noqa: E402
                           _defaultdict_serialize, _namedtuple_deserialize, _namedtuple_serialize, enum_object_hook,
                           pytree_to_str, str_to_pytree, treespec_dumps, treespec_loads, treespec_pprint)  # fmt: skip

_private_register_pytree_node(namedtuple, _namedtuple_flatten, _namedtuple_unflatten,
                              serialized_type_name="collections.namedtuple", to_dumpable_context=_namedtuple_serialize,
                              from_dumpable_context=_namedtuple_deserialize,
                              flatten_with_keys_fn=_namedtuple_flatten_with_keys)  # fmt: skip
_private_register_pytree_node(defaultdict, _defaultdict_flatten, _defaultdict_unflatten,
                              serialized_type_name="collections.defaultdict", to_dumpable_context=_defaultdict_serialize,
                              from_dumpable_context=_defaultdict_deserialize,
                              flatten_with_keys_fn=_defaultdict_flatten_with_keys)  # fmt: skip
