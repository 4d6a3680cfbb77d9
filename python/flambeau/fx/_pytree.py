"""The containers that traced programs take apart, by their specs: `utils._pytree` with rules of its own for classes."""
from ..utils._pytree import *  # noqa: F403
from ..utils._pytree import TreeSpec, _get_node_type, tree_flatten

__all__ = ["register_pytree_flatten_spec", "tree_flatten", "tree_flatten_spec"]

SUPPORTED_NODES = {
    dict: lambda value, spec: [value[key] for key in spec.context],
    list: lambda value, spec: [value[i] for i in range(spec.num_children)],
    tuple: lambda value, spec: [value[i] for i in range(spec.num_children)],
}
# Whether a value has as many children as its spec says.
SUPPORTED_NODES_EXACT_MATCH = {
    cls: lambda value, spec: len(value) == spec.num_children for cls in (dict, list, tuple)
}  # fmt: skip


def register_pytree_flatten_spec(cls, flatten_fn_spec, flatten_fn_exact_match_spec=None):
    """How values of a class are taken apart by a spec: `flatten_fn_spec(value, spec)` gives the children."""
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def _deregister_pytree_flatten_spec(cls):
    """Takes a rule away again."""
    del SUPPORTED_NODES[cls]
    del SUPPORTED_NODES_EXACT_MATCH[cls]


def tree_flatten_spec(pytree, spec: TreeSpec):
    """The leaves of a container in a spec's order; what a leaf of the spec holds stays whole."""
    if spec.is_leaf():
        return [pytree]
    cls = tuple if hasattr(spec.type, "_fields") else spec.type
    if cls not in SUPPORTED_NODES:
        raise RuntimeError(
            f"{type(pytree)} does not have a flatten_fn_spec associated with it. Please register one with "
            "torch.fx._pytree.register_pytree_flatten_spec.  If you have serialized your model, make sure that any custom "
            "pytrees have been registered before loading it."
        )
    children = SUPPORTED_NODES[cls](pytree, spec)
    exact = SUPPORTED_NODES_EXACT_MATCH[cls]
    if exact and not exact(pytree, spec):
        raise RuntimeError(f"Cannot flatten pytree {pytree}, given spec: {spec}")
    return [leaf for child, part in zip(children, spec.children()) for leaf in tree_flatten_spec(child, part)]
