"""Tensors of a module by dotted names, without the checks that setting an attribute makes."""
from ... import _C

_MISSING = object()


def _tables(module, name):
    for table in (module._parameters, module._buffers):
        if name in table:
            return table
    return None


def set_tensor(module, name, tensor):
    """Puts a tensor where the module has one, or makes it an attribute."""
    swap_tensor(module, name, tensor, allow_missing=True)


def swap_tensor(module, name, tensor, allow_missing=False):
    """Puts a tensor (or `_MISSING`: nothing) in the place of one, and returns what was there."""
    from ..modules.module import Module

    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if tensor is not _MISSING and not isinstance(tensor, _C.Tensor) and tensor is not None:
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    if "." in name:
        raise KeyError('tensor name can\'t contain "."')
    if name == "":
        raise KeyError('tensor name can\'t be empty string ""')
    table = _tables(module, name)
    if table is not None:
        before = table[name]
        if tensor is _MISSING:
            del table[name]
        else:
            table[name] = tensor
        return before
    before = getattr(module, name, _MISSING)
    if before is _MISSING:
        if not allow_missing:
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    elif before is not None and not isinstance(before, _C.Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if tensor is not _MISSING:
        setattr(module, name, tensor)
    elif before is not _MISSING:
        delattr(module, name)
    return before


def swap_submodule(module, name, submodule):
    """Puts a module in the place of another, which is returned."""
    from ..modules.module import Module

    for value in (module, submodule):
        if not isinstance(value, Module):
            raise TypeError(f"{value} is not an instance of torch.nn.Module")
    if "." in name:
        raise KeyError('submodule name can\'t contain "."')
    if name == "":
        raise KeyError('submodule name can\'t be empty string ""')
    if name not in module._modules:
        raise KeyError(f"submodule {name} does not exist")
    before = module._modules[name]
    if not isinstance(before, Module):
        raise TypeError(f"{name} attribute is not an instance of torch.nn.Module")
    module._modules[name] = submodule
    return before


class NamedMemberAccessor:
    """A module's tensors and sub-modules by names with dots."""

    def __init__(self, module):
        self.module = module

    def get_submodule(self, name):
        """The module of that name."""
        return self.module.get_submodule(name)

    def _place(self, name):
        path, _, last = name.rpartition(".")
        try:
            return self.module.get_submodule(path), last
        except AttributeError:
            raise AttributeError(f"{self.module._get_name()} has no attribute `{name}`") from None

    def swap_submodule(self, path, value):
        """Puts a module in the place of another, which is returned."""
        owner, last = self._place(path)
        return swap_submodule(owner, last, value)

    def get_tensor(self, name):
        """The tensor of that name."""
        owner, last = self._place(name)
        found = getattr(owner, last)
        if found is not None and not isinstance(found, _C.Tensor):
            raise TypeError(f"{found} is not an instance of torch.Tensor")
        return found

    def set_tensor(self, name, value):
        """Puts a tensor there."""
        owner, last = self._place(name)
        set_tensor(owner, last, value)

    def del_tensor(self, name):
        """Takes the tensor away."""
        owner, last = self._place(name)
        swap_tensor(owner, last, _MISSING)

    def swap_tensor(self, name, value, allow_missing=False):
        """Puts a tensor in the place of one, which is returned."""
        owner, last = self._place(name)
        return swap_tensor(owner, last, value, allow_missing)

    def get_tensors(self, names):
        """The tensors of these names."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names, values):
        """Puts tensors there."""
        self.set_tensors_dict(dict(zip(names, values, strict=True)))

    def set_tensors_dict(self, named_tensors):
        """Puts tensors there."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensors(self, names):
        """Takes tensors away."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(self, names, values, allow_missing=False):
        """Puts tensors in the place of others, which are returned."""
        return [self.swap_tensor(name, value, allow_missing) for name, value in zip(names, values, strict=True)]

    def swap_tensors_dict(self, named_tensors, allow_missing=False):
        """The same for a dictionary: what was there, and the names where nothing was."""
        before, missing = {}, []
        for name, value in named_tensors.items():
            before[name] = self.swap_tensor(name, value, allow_missing=True)
            if before[name] is _MISSING:
                missing.append(name)
        if missing and not allow_missing:
            for name, value in before.items():
                self.swap_tensor(name, value, allow_missing=True)
            raise RuntimeError(f"Missing key(s): {', '.join(map(repr, missing))}.")
        return before, missing

    def check_keys(self, keys):
        """The names that the module has and these lack, and those that it lacks."""
        keys = set(keys)
        own = {n for n, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(own - keys), sorted(keys - own)

    def named_parameters(self, remove_duplicate=True):
        """(name, parameter)."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate=True):
        """(name, buffer)."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate=True):
        """(name, parameter or buffer)."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate=True):
        """(name, module)."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)
