"""The class of compiled modules."""
from ..nn import Module

__all__ = ["OptimizedModule"]


class OptimizedModule(Module):
    """A compiled module: `_orig_mod`, which runs eagerly, and whose attributes it shows as its own."""

    def __init__(self, mod, dynamo_ctx=None):
        super().__init__()
        del self.__dict__["training"]
        self.__dict__["dynamo_ctx"] = dynamo_ctx
        self._modules["_orig_mod"] = mod

    def forward(self, *args, **kwargs):
        """The module's own result."""
        return self._modules["_orig_mod"](*args, **kwargs)

    @property
    def training(self):
        """The mode of the module."""
        return self._orig_mod.training

    @training.setter
    def training(self, value):
        self._orig_mod.training = value

    def __getattr__(self, name):
        modules = self.__dict__.get("_modules", {})
        if "_orig_mod" not in modules:  # while it is copied or unpickled
            raise AttributeError(name)
        module = modules["_orig_mod"]
        return module if name == "_orig_mod" else getattr(module, name)

    def __setattr__(self, name, value):
        if name == "_orig_mod":
            self._modules[name] = value
        elif name in self.__dict__ or hasattr(OptimizedModule, name):
            object.__setattr__(self, name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name):
        if name in self.__dict__:
            object.__delattr__(self, name)
        else:
            delattr(self._orig_mod, name)

    def __len__(self):
        module = self._orig_mod
        if not hasattr(module, "__len__"):
            raise TypeError(f"{type(module).__name__} does not support len()")
        return len(module)

    def __dir__(self):
        return [*super().__dir__(), *dir(self._orig_mod)]
