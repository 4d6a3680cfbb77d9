"""Helpers on argument tuples and on state dictionaries."""
from .._tuples import (  # noqa: F401
    _list_with_default, _ntuple, _pair, _quadruple, _reverse_repeat_tuple, _single, _triple,
)

__all__ = ["consume_prefix_in_state_dict_if_present"]


def consume_prefix_in_state_dict_if_present(state_dict, prefix):
    """Strip a prefix (as "module.") from the keys, and from those of the metadata, in place."""
    for key in list(state_dict.keys()):
        if key.startswith(prefix):
            state_dict[key[len(prefix):]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        for key in list(metadata.keys()):
            # "" is the model itself, "module" the wrapped one.
            if len(key) == 0:
                continue
            if key.startswith(prefix) or key == prefix.rstrip("."):
                metadata[key[len(prefix):]] = metadata.pop(key)
