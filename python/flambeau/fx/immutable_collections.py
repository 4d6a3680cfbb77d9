"""Lists and dictionaries that nobody changes: the arguments of nodes."""

__all__ = ["immutable_list", "immutable_dict"]

_ADVICE = """ object does not support mutation. If you are attempting to modify the kwargs or args of a torch.fx.Node object,
instead create a new copy of it and assign the copy to the node:

    new_args = ...  # copy and mutate args
    node.args = new_args
"""


def _refuse(self, *args, **kwargs):
    raise TypeError(f"'{type(self).__name__}'{_ADVICE}")


class immutable_list(list):
    """A list that cannot be changed."""

    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __hash__(self):
        return hash(tuple(self))

    def __reduce__(self):
        return immutable_list, (tuple(self),)


class immutable_dict(dict):
    """A dictionary that cannot be changed."""

    __delitem__ = __ior__ = __setitem__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self):
        return hash(frozenset(self.items()))

    def __reduce__(self):
        return immutable_dict, (tuple(self.items()),)


def _register():
    from ..utils import _pytree

    _pytree.register_pytree_node(
        immutable_list, lambda v: (list(v), None), lambda values, _: immutable_list(values),
        flatten_with_keys_fn=lambda v: ([(_pytree.SequenceKey(i), x) for i, x in enumerate(v)], None),
    )  # fmt: skip
    _pytree.register_pytree_node(
        immutable_dict, lambda v: (list(v.values()), list(v)),
        lambda values, keys: immutable_dict(zip(keys, values)),
        flatten_with_keys_fn=lambda v: ([(_pytree.MappingKey(k), x) for k, x in v.items()], list(v)),
    )  # fmt: skip


_register()
