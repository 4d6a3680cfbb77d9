"""Where PyTorch keeps how tensors are printed; here it lives in `flambeau._tensor_text`."""
from . import _C
from ._tensor_text import _options, get_printoptions, printoptions, set_printoptions, tensor_text

__all__ = ["PRINT_OPTS", "get_printoptions", "printoptions", "set_printoptions"]


class _Options:
    """The settings as attributes."""

    def __getattr__(self, name):
        if name in _options:
            return _options[name]
        raise AttributeError(f"'__PrinterOptions' object has no attribute '{name}'")

    def __setattr__(self, name, value):
        _options[name] = value


PRINT_OPTS = _Options()
_str = _str_intern = tensor_text


def _tensor_str(self, indent):
    """The elements alone, their lines after the first so far from the margin."""
    if not self.numel():
        return "[]"
    o = _options
    with _C.DisableTorchFunctionSubclass():
        text = _C._format_tensor(self.detach(), " " * indent, [], None, False, o["precision"], float(o["threshold"]),
                                 o["edgeitems"], o["linewidth"], o["sci_mode"])  # fmt: skip
    end = text.rindex("]") + 1 if self.dim() else min(i for i in (text.find(","), text.find(")")) if i >= 0)
    return text[indent:end]


def _add_suffixes(tensor_str, suffixes, indent, force_newline):
    """What is said after the elements, on the same line where there is room."""
    column = len(tensor_str) - tensor_str.rfind("\n") + 1
    text = tensor_str
    for part in suffixes:
        if force_newline or column + len(part) + 2 > _options["linewidth"]:
            text += ",\n" + " " * indent + part
            column = indent + len(part)
            force_newline = False
        else:
            text += ", " + part
            column += len(part) + 2
    return text + ")"
