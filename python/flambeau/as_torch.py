"""Imported once, it makes `import torch`, `import torch.x.y` and `import functorch` give Flambeau's modules.

Nothing is installed under the name `torch`; the modules are the same objects under both names.
"""
import importlib
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec as _find_spec
from types import ModuleType

__all__ = ["install", "uninstall"]

_OURS, _THEIRS = "flambeau", "torch"
# The package that PyTorch's function transforms once were; PyTorch still brings it along.
_FUNCTORCH, _OUR_FUNCTORCH = "functorch", "flambeau._functorch.functorch"


class _Existing:
    """A loader whose module is there already, and keeps the spec of its own name."""

    def __init__(self, module):
        self.module = module
        self.own = module.__dict__.get("__spec__"), module.__dict__.get("__loader__")

    def create_module(self, spec):
        return self.module

    def exec_module(self, module):
        module.__spec__, module.__loader__ = self.own

    def get_code(self, name):
        loader = self.own[1]
        return loader.get_code(self.module.__name__) if hasattr(loader, "get_code") else None

    def is_package(self, name):
        return hasattr(self.module, "__path__")


class TorchFinder:
    """Finds `torch` and what is under it."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in (_THEIRS, _FUNCTORCH):
            return None
        module = self.module_of(name)
        if module is None:
            raise ModuleNotFoundError(f"No module named '{name}'{_remark(name)}", name=name)
        origin = getattr(module, "__file__", None)
        return ModuleSpec(name, _Existing(module), origin=origin, is_package=hasattr(module, "__path__"))

    def find_distributions(self, context=None):
        """What `importlib.metadata.version("torch")` reads."""
        if getattr(context, "name", None) in (None, _THEIRS):
            yield _distribution()

    def module_of(self, name):
        """Our module for a name under `torch`, be it a file or an attribute; None if there is none."""
        root, _, rest = name.partition(".")
        ours = ".".join([_OURS if root == _THEIRS else _OUR_FUNCTORCH, *filter(None, [rest])])
        if ours in sys.modules:
            return sys.modules[ours]
        try:
            exists = _find_spec(ours) is not None
        except (ModuleNotFoundError, ValueError, AttributeError):
            exists = False
        if exists:
            return importlib.import_module(ours)
        found = sys.modules[_OURS]
        for part in ours.split(".")[1:]:
            found = getattr(found, part, None)
        return found if isinstance(found, ModuleType) else None


def _distribution():
    from importlib.metadata import Distribution

    from .version import __version__

    class Metadata(Distribution):
        """Name and version, and no files."""

        def read_text(self, filename):
            return f"Metadata-Version: 2.1\nName: torch\nVersion: {__version__}\n" if filename == "METADATA" else None

        def locate_file(self, path):
            return path

    return Metadata()


def _remark(name):
    from ._torch_names import OTHERS

    return ": it does not exist in Flambeau yet" if name.split(".")[1] in OTHERS or name.startswith(_FUNCTORCH) else ""


_finder = TorchFinder()


class Arguments(list):
    """A program's arguments. Processes that the program spawns read them first, and this module with them."""

    def __reduce__(self):
        return _arguments, (list(self),)


def _arguments(values):
    return values


def _call(ours, name):
    """Names our package, and the classes that other packages know by their module's name."""
    ours.__name__ = ours.Tensor.__module__ = name
    # (Where it is not imported yet, it takes the package's name.)
    loader = sys.modules.get(f"{_OURS}.utils.data.dataloader")
    if loader is not None:
        loader.DataLoader.__module__ = f"{name}.utils.data.dataloader"


def install():
    """From now on `import torch` gives Flambeau.

    Raises ImportError if PyTorch itself is imported already.
    """
    there = sys.modules.get(_THEIRS)
    ours = importlib.import_module(_OURS)
    if there is not None and there is not ours:
        raise ImportError("PyTorch is imported in this process already: import flambeau.as_torch before it")
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    sys.modules[_THEIRS] = ours
    _call(ours, _THEIRS)


def uninstall():
    """`import torch` means what it meant before."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in [n for n in sys.modules if n.partition(".")[0] in (_THEIRS, _FUNCTORCH)]:
        del sys.modules[name]
    _call(sys.modules[_OURS], _OURS)


install()
