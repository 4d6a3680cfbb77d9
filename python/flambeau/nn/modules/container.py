"""Modules that hold modules or parameters: `Sequential`, `ModuleList`, `ModuleDict`, `ParameterList`, `ParameterDict`."""
import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import chain, islice

from ..._C import Tensor
from ..._names import typename
from ..parameter import Parameter
from .module import Module, _addindent

__all__ = ["Container", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"]


def _position(index, size) -> int:
    """A list index as a number from 0, checked."""
    index = operator.index(index)
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of range")
    return index % size


def _pairs(owner, label, values):
    """The (key, value) pairs of a mapping or of a sequence of pairs, checked."""
    if not isinstance(values, Iterable):
        raise TypeError(f"{label}.update should be called with an iterable of key/value pairs, but got {type(values).__name__}")
    if isinstance(values, (OrderedDict, Mapping, type(owner))):
        yield from values.items()
        return
    for j, pair in enumerate(values):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{type(owner).__name__} update sequence element #{j} should be Iterable; is{type(pair).__name__}")
        if len(pair) != 2:
            raise ValueError(
                f"{type(owner).__name__} update sequence element #{j} has length {len(pair)}; 2 is required"
            )
        yield pair


class Container(Module):
    """Deprecated: a module with the given children."""

    def __init__(self, **kwargs):
        super().__init__()
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)


def _put_before(modules, index, module):
    """Insert into a table with the keys "0", "1", ...; an index past the end becomes a key of its own."""
    for i in reversed(range(index, len(modules))):
        modules[str(i + 1)] = modules[str(i)]
    modules[str(index)] = module


class _Numbered:
    """What lists and sequences of modules share: keys "0", "1", ..."""

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __dir__(self):
        return [key for key in super().__dir__() if not key.isdigit()]

    def _add_all(self, modules):
        start = len(self)
        for i, module in enumerate(modules, start):
            self.add_module(str(i), module)
        return self

    def append(self, module):
        """Add a module at the end."""
        return self._add_all([module])

    def pop(self, key):
        """Remove and return the module at an index."""
        removed = self[key]
        del self[key]
        return removed


class Sequential(_Numbered, Module):
    """Modules called one after the other. `Sequential(a, b)` or `Sequential(OrderedDict(name=module))`."""

    def __init__(self, *args):
        super().__init__()
        named = len(args) == 1 and isinstance(args[0], OrderedDict)
        for name, module in args[0].items() if named else enumerate(args):
            self.add_module(name if named else str(name), module)

    def _key(self, index):
        return next(islice(self._modules, _position(index, len(self)), None))

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._key(idx)]

    def __setitem__(self, idx, module):
        setattr(self, self._key(idx), module)

    def __delitem__(self, idx):
        keys = list(self._modules)[idx] if isinstance(idx, slice) else [self._key(idx)]
        for key in keys:
            delattr(self, key)
        self._modules = {str(i): m for i, m in enumerate(self._modules.values())}

    def __len__(self):
        return len(self._modules)

    def __add__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        result = Sequential()
        for layer in chain(self, other):
            result.append(layer)
        return result

    def __iadd__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return self._add_all(list(other))

    def _check_factor(self, other):
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")

    def __mul__(self, other):
        self._check_factor(other)
        return Sequential(*(list(self) * other))

    def __rmul__(self, other):
        return self.__mul__(other)

    def __imul__(self, other):
        self._check_factor(other)
        return self._add_all(list(self) * (other - 1))

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input

    def insert(self, index, module):
        """Put a module before `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        n = len(self._modules)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        _put_before(self._modules, index % n if index < 0 else index, module)
        return self

    def extend(self, sequential):
        """Add the modules of an iterable at the end."""
        for layer in sequential:
            self.append(layer)
        return self


class ModuleList(_Numbered, Module):
    """A list of modules."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self += modules

    def _key(self, idx):
        return str(_position(idx, len(self)))

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(list(self._modules.values())[idx])
        return self._modules[self._key(idx)]

    def __setitem__(self, idx, module):
        setattr(self, self._key(idx), module)

    def __delitem__(self, idx):
        keys = [str(i) for i in range(len(self))[idx]] if isinstance(idx, slice) else [self._key(idx)]
        for key in keys:
            delattr(self, key)
        self._modules = {str(i): module for i, module in enumerate(self)}

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        return ModuleList(chain(self, other))

    def __repr__(self):
        """Runs of equal children on one line: `(0-2): 3 x Linear(...)`."""
        texts = [repr(item) for item in self]
        if not texts:
            return self._get_name() + "()"
        runs = []
        for i, text in enumerate(texts):
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        lines = []
        for start, end, text in runs:
            label = f"({start}): {text}" if start == end else f"({start}-{end}): {end - start + 1} x {text}"
            lines.append(_addindent(label, 2))
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"

    def insert(self, index, module):
        """Put a module before `index`."""
        _put_before(self._modules, index, module)

    def extend(self, modules):
        """Add the modules of an iterable at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        return self._add_all(modules)


class ModuleDict(Module):
    """A dictionary of modules."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key):
        """Remove and return the module under a key."""
        value = self[key]
        del self[key]
        return value

    def keys(self):
        """The keys."""
        return self._modules.keys()

    def items(self):
        """The (key, module) pairs."""
        return self._modules.items()

    def values(self):
        """The modules."""
        return self._modules.values()

    def update(self, modules):
        """Set modules from a mapping or from key/value pairs."""
        for key, module in _pairs(self, "ModuleDict", modules):
            self[key] = module


def _as_parameter(value):
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _describe(value, kind):
    if not isinstance(value, Tensor):
        return "Object of type: " + type(value).__name__
    size = "x".join(str(n) for n in value.size())
    where = "" if value.device.type == "cpu" else f" ({value.device})"
    label = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{label} containing: [{kind(value)} of size {size}{where}]"


class ParameterList(Module):
    """A list of parameters (tensors become parameters) and other values."""

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(self[i] for i in range(len(self))[idx])
        return getattr(self, str(_position(idx, len(self))))

    def __setitem__(self, idx, param):
        setattr(self, str(_position(idx, len(self))), _as_parameter(param))

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, parameters):
        return self.extend(parameters)

    def __dir__(self):
        return [key for key in super().__dir__() if not key.isdigit()]

    def append(self, value):
        """Add a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values):
        """Add the values of an iterable at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self):
        return "\n".join(f"  ({i}): {_describe(p, lambda t: t.dtype)}" for i, p in enumerate(self))

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters (tensors become parameters) and other values."""

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def _key_to_attr(self, key):
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}'). Open an issue on github if you need non-string keys."
            )
        return key

    def __getitem__(self, key):
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key, value):
        self._keys[key] = None
        setattr(self, self._key_to_attr(key), _as_parameter(value))

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __reversed__(self):
        return reversed(list(self._keys))

    def copy(self):
        """A ParameterDict with the same values."""
        return ParameterDict(OrderedDict((k, self[k]) for k in self._keys))

    def __contains__(self, key):
        return key in self._keys

    def setdefault(self, key, default=None):
        """The value under a key, set to `default` if it was absent."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self):
        """Remove everything."""
        for key in self._keys.copy():
            del self[key]

    def pop(self, key):
        """Remove and return the value under a key."""
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        """Remove and return the last (key, value) pair."""
        key, _ = self._keys.popitem()
        self._keys[key] = None
        value = self[key]
        del self[key]
        return key, value

    def get(self, key, default=None):
        """The value under a key, or `default`."""
        return self[key] if key in self else default

    def fromkeys(self, keys, default=None):
        """A ParameterDict with `default` under each key."""
        return ParameterDict((k, default) for k in keys)

    def keys(self):
        """The keys."""
        return self._keys.keys()

    def items(self):
        """The (key, value) pairs."""
        return ((k, self[k]) for k in self._keys)

    def values(self):
        """The values."""
        return (self[k] for k in self._keys)

    def update(self, parameters):
        """Set values from a mapping (a plain one in the order of its keys) or from key/value pairs."""
        pairs = _pairs(self, "ParametersDict", parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs = sorted(pairs)
        for key, value in pairs:
            self[key] = value

    def extra_repr(self):
        return "\n".join(f"  ({k}): {_describe(p, typename)}" for k, p in self.items())

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other):
        return self.copy().__ior__(other)

    def __ror__(self, other):
        result = other.copy() if isinstance(other, ParameterDict) else ParameterDict(other)
        return result.__ior__(self)

    def __ior__(self, other):
        self.update(other)
        return self
