"""What nodes keep of where they were made."""
import contextlib
import traceback

__all__ = ["preserve_node_meta", "has_preserved_node_meta", "set_stack_trace", "format_stack", "set_current_meta",
           "get_current_meta", "annotate"]  # fmt: skip

_current = {}
_preserving = [False]


@contextlib.contextmanager
def preserve_node_meta(enable=True):
    """Within it, copied nodes keep what is known of the ones that they are made from."""
    before, _preserving[0] = _preserving[0], enable
    saved = dict(_current)
    try:
        yield
    finally:
        _preserving[0] = before
        _current.clear()
        _current.update(saved)


def has_preserved_node_meta():
    """Is that so now?"""
    return _preserving[0]


def set_stack_trace(stack):
    """Sets the stack that new nodes are told to come from."""
    if _preserving[0] and stack:
        _current["stack_trace"] = "".join(stack)


@contextlib.contextmanager
def annotate(annotation_dict):
    """Within it, nodes carry these entries under `custom`."""
    before = _current.get("custom")
    _current["custom"] = {**(before or {}), **annotation_dict}
    try:
        yield
    finally:
        if before is None:
            _current.pop("custom", None)
        else:
            _current["custom"] = before


def format_stack():
    """The stack now, or the one that was set, as text."""
    if _preserving[0]:
        return [_current.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


@contextlib.contextmanager
def set_current_meta(node, pass_name=""):
    """Within it, a node's entries are what new nodes are told."""
    saved = dict(_current)
    if _preserving[0] and node.meta:
        _current.clear()
        _current.update(node.meta)
    try:
        yield
    finally:
        _current.clear()
        _current.update(saved)


def get_current_meta():
    """The entries that new nodes are told."""
    return _current
