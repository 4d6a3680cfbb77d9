"""Tensors as text: what is said after the elements, and `set_printoptions`. The elements are the core's business."""
from . import _C

__all__ = ["set_printoptions", "get_printoptions", "printoptions"]

_INFINITE = float("inf")
_PROFILES = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": _INFINITE, "edgeitems": 3, "linewidth": 80},
}
_options = {**_PROFILES["default"], "sci_mode": None}


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """How tensors are printed: a profile ('default', 'short' or 'full'), then single settings."""
    _options.update(_PROFILES.get(profile, ()))
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    _options.update((name, value) for name, value in given.items() if value is not None)
    _options["sci_mode"] = sci_mode


def get_printoptions():
    """The settings, as keyword arguments of `set_printoptions`."""
    return dict(_options)


class printoptions:
    """`with printoptions(precision=2):` prints differently inside."""

    def __init__(self, **kwargs):
        self._wanted = kwargs

    def __enter__(self):
        self._before = get_printoptions()
        set_printoptions(**self._wanted)

    def __exit__(self, *exc):
        _options.update(self._before)


def _function_name(tensor):
    """The name of the function that made a tensor, as its class is called."""
    try:
        node = getattr(tensor, "grad_fn", None)
    except RuntimeError:
        return "Invalid"
    if node is None:
        return None
    name = type(node).__name__
    return node.name().rsplit("::", 1)[-1] if name in ("CppFunction", "Node") else name


def _first_word(tensor):
    """'tensor', or the name of a subclass other than `Parameter`."""
    cls = type(tensor)
    return "tensor" if cls is _C.Tensor or cls.__module__ == "flambeau.nn.parameter" else cls.__name__


def _is_other_parameter(tensor):
    """Is it a parameter that is made of a subclass, or one of `Parameter`?"""
    from .nn.parameter import Parameter

    return _first_word(tensor) != "tensor" and isinstance(tensor, Parameter)


def _tangent(tensor):
    try:
        return _C._unpack_dual(tensor, level=0)[1] if hasattr(_C, "_unpack_dual") else None
    except RuntimeError:
        return None


def _plain(tensor, prefix):
    """A part of a sparse tensor, after `prefix`: its elements, and its size where there are none."""
    prefix += "tensor("
    if not tensor.numel():
        return f"{prefix}[], size={tuple(tensor.shape)})"
    o = _options
    text = _C._format_tensor(
        tensor, prefix, [], None, False, o["precision"], float(o["threshold"]), o["edgeitems"], o["linewidth"], o["sci_mode"]
    )
    # The dtype of the whole stands behind its last part.
    return text[: text.rindex("]") + 1] + ")"


def _sparse_text(tensor, word, made_by, more):
    """The text of a tensor made of coordinates or compressed rows: its parts, one below the other, then the rest."""
    coo = tensor.is_sparse
    names = ("_indices", "_values") if coo else ("crow_indices", "col_indices", "values")
    indent = " " * (len(word) + 1)
    data = tensor.detach()
    lines = [
        _plain(getattr(data, name)(), (indent if i else word + "(") + name.lstrip("_") + "=") for i, name in enumerate(names)
    ]
    rest = [f"device='{tensor.device}'"] if tensor.device.type != "cpu" else []
    rest += [f"size={tuple(tensor.shape)}", f"nnz={tensor._nnz()}"]
    default = _C.get_default_dtype()
    usual = default, default.to_complex(), _C.int64, _C.bool
    if tensor.dtype not in usual:
        rest.append(f"dtype={tensor.dtype}")
    rest.append(f"layout={tensor.layout}")
    if made_by is not None:
        rest.append(f"grad_fn=<{made_by}>")
    elif tensor.requires_grad:
        rest.append("requires_grad=True")
    text = ",\n".join(lines)
    column = len(text) - text.rfind("\n") + 1
    for i, part in enumerate((*rest, *more)):
        if (coo and i == 0) or column + len(part) + 2 > _options["linewidth"]:
            text += ",\n" + indent + part
            column = len(indent) + len(part)
        else:
            text += ", " + part
            column += len(part) + 2
    return text + ")"


def tensor_text(tensor, *, tensor_contents=None):
    """The text of a tensor as `repr` gives it."""
    text = _unmarked_text(tensor, tensor_contents)
    return f"Parameter({text})" if _is_other_parameter(tensor) else text


def _unmarked_text(tensor, tensor_contents):
    with _C.DisableTorchFunctionSubclass():
        made_by = _function_name(tensor)
        more = []
        tangent = _tangent(tensor)
        if tangent is not None:
            more.append(f"tangent={tensor_text(tangent)}")
        if str(tensor.layout) != "torch.strided":
            return _sparse_text(tensor, _first_word(tensor), made_by, more)
        o = _options
        text = _C._format_tensor(
            tensor, _first_word(tensor) + "(", more, made_by, tensor.requires_grad, o["precision"], float(o["threshold"]),
            o["edgeitems"], o["linewidth"], o["sci_mode"],
        )  # fmt: skip
        if tensor_contents is None:
            return text
        start = len(_first_word(tensor)) + 1
        end = text.rindex("]") + 1 if tensor.dim() else min(i for i in (text.find(","), text.find(")")) if i >= 0)
        return text[:start] + tensor_contents + text[end:]
