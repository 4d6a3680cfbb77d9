"""Nested containers as flat lists of leaves and back."""
from collections import OrderedDict, defaultdict, deque, namedtuple

__all__ = ["tree_flatten", "tree_unflatten", "tree_map", "tree_map_only", "tree_map_", "tree_leaves", "tree_structure",
           "tree_all", "tree_any", "tree_iter", "TreeSpec", "PyTree", "register_pytree_node"]  # fmt: skip

PyTree = object
SUPPORTED_NODES = {}
NodeDef = namedtuple("NodeDef", "type flatten_fn unflatten_fn")


def register_pytree_node(cls, flatten_fn, unflatten_fn, **kwargs):
    """`flatten_fn(x) -> (children, context)` and `unflatten_fn(children, context) -> x` for a class of containers."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn)


_register_pytree_node = register_pytree_node


def _flatten_dict(d):
    return list(d.values()), list(d)


register_pytree_node(list, lambda x: (x, None), lambda c, _: list(c))
register_pytree_node(tuple, lambda x: (list(x), None), lambda c, _: tuple(c))
register_pytree_node(dict, _flatten_dict, lambda c, keys: dict(zip(keys, c)))
register_pytree_node(OrderedDict, _flatten_dict, lambda c, keys: OrderedDict(zip(keys, c)))
register_pytree_node(
    defaultdict,
    lambda d: (list(d.values()), (d.default_factory, list(d))),
    lambda c, ctx: defaultdict(ctx[0], zip(ctx[1], c)),
)
register_pytree_node(deque, lambda d: (list(d), d.maxlen), lambda c, n: deque(c, maxlen=n))
_NAMED = NodeDef(namedtuple, lambda x: (list(x), type(x)), lambda c, kind: kind(*c))
_STRUCT = NodeDef(tuple, lambda x: (list(x), type(x)), lambda c, kind: kind(c))


def _node(tree):
    kind = type(tree)
    node = SUPPORTED_NODES.get(kind)
    if node is None and isinstance(tree, tuple):
        return _NAMED if hasattr(kind, "_fields") else _STRUCT if hasattr(kind, "n_fields") else None
    return node


class TreeSpec:
    """The shape of a tree: its type, what rebuilds it, and its children's shapes."""

    def __init__(self, type, context, children_specs):
        self.type, self.context, self.children_specs = type, context, children_specs
        self.num_leaves = sum(c.num_leaves for c in children_specs) if type is not None else 1
        self.num_children = len(children_specs)

    def is_leaf(self):
        """Whether this is the place of one value."""
        return self.type is None

    def unflatten(self, leaves):
        """The tree with these leaves."""
        return tree_unflatten(leaves, self)

    def __eq__(self, other):
        return isinstance(other, TreeSpec) and (self.type, self.context, self.children_specs) == (
            other.type, other.context, other.children_specs,
        )  # fmt: skip

    def __hash__(self):
        return hash((self.type, self.num_leaves))

    def __repr__(self):
        if self.type is None:
            return "*"
        children = ",\n  ".join(repr(c).replace("\n", "\n  ") for c in self.children_specs)
        return f"TreeSpec({self.type.__name__}, {self.context}, [{children}])"


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self):
        super().__init__(None, None, [])


_LEAF = LeafSpec()


def tree_flatten(tree, is_leaf=None):
    """The leaves of a tree, left to right, and its TreeSpec."""
    leaves = []
    return leaves, _flatten_into(tree, leaves, is_leaf)


def _flatten_into(tree, leaves, is_leaf):
    node = None if is_leaf is not None and is_leaf(tree) else _node(tree)
    if node is None:
        leaves.append(tree)
        return _LEAF
    children, context = node.flatten_fn(tree)
    spec = TreeSpec(node.type, context, [_flatten_into(c, leaves, is_leaf) for c in children])
    spec._node = node
    return spec


def tree_unflatten(leaves, treespec):
    """The inverse of tree_flatten."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
            f"holds {treespec.num_leaves} items ({treespec})."
        )
    it = iter(leaves)

    def build(spec):
        if spec.type is None:
            return next(it)
        return spec._node.unflatten_fn([build(c) for c in spec.children_specs], spec.context)

    return build(treespec)


def tree_leaves(tree, is_leaf=None):
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


tree_iter = tree_leaves


def tree_structure(tree, is_leaf=None):
    """The structure without its leaves."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func, tree, *rests, is_leaf=None):
    """`func` of each leaf (and of the corresponding leaves of other trees), in the same structure."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [_flatten_up_to(spec, r) for r in rests]
    return tree_unflatten([func(*xs) for xs in zip(leaves, *others)], spec)


def _flatten_up_to(spec, tree):
    if spec.type is None:
        return [tree]
    children, _ = spec._node.flatten_fn(tree)
    return [leaf for s, c in zip(spec.children_specs, children) for leaf in _flatten_up_to(s, c)]


def tree_map_(func, tree, *rests, is_leaf=None):
    """Call a function on every leaf; returns the tree."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(kinds, func, tree, is_leaf=None):
    """`func` of the leaves that are of the given types (or fulfil a predicate); the others stay."""
    if not isinstance(kinds, (type, tuple)):
        return tree_map(lambda x: func(x) if kinds(x) else x, tree, is_leaf=is_leaf)
    return tree_map(lambda x: func(x) if isinstance(x, kinds) else x, tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    """Whether a predicate holds for every leaf."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    """Whether a predicate holds for some leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """The leaves of `tree` repeated where it is shallower than `treespec`; None if they do not fit."""
    node = _node(tree)
    if treespec.type is None:
        return [tree] if node is None else None
    if node is None or (is_leaf is not None and is_leaf(tree)):
        return [tree] * treespec.num_leaves
    children, context = node.flatten_fn(tree)
    if node.type != treespec.type or len(children) != treespec.num_children or context != treespec.context:
        return None
    result = []
    for child, spec in zip(children, treespec.children_specs):
        flat = _broadcast_to_and_flatten(child, spec, is_leaf)
        if flat is None:
            return None
        result += flat
    return result
