"""Marks of what stays as it is from one version to the next."""
import textwrap

__all__ = []

_BACK_COMPAT_OBJECTS = {}
_MARKED_WITH_COMPATIBILITY = {}


def compatibility(is_backward_compatible):
    """Decorates a function or class, whose documentation then says whether it stays."""

    def mark(fn):
        note = "Backwards-compatibility for this API is guaranteed." if is_backward_compatible else (
            "This API is experimental and is *NOT* backward-compatible.")
        kind = "note" if is_backward_compatible else "warning"
        fn.__doc__ = f"{textwrap.dedent(fn.__doc__ or '')}\n\n.. {kind}::\n    {note}\n"
        _MARKED_WITH_COMPATIBILITY[fn] = None
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS[fn] = None
        return fn

    return mark
