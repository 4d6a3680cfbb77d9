"""How generators are pickled and copied, and what PyTorch's answer that only other devices have."""
from . import _C


def __reduce__(self):
    """A generator of the same device, seed and state, whatever the class."""
    return _C.Generator, (self.device,), (self.initial_seed(), None, self.get_state())


def __setstate__(self, state):
    """Seed, offset (None: this device has none) and state."""
    seed, offset, state = state
    self.manual_seed(seed)
    if offset is not None:
        self.set_offset(offset)
    self.set_state(state)


def get_offset(self):
    """RuntimeError: this device counts no offset."""
    raise RuntimeError("CPU Generator does not use offset")


def set_offset(self, offset):
    """RuntimeError: this device counts no offset."""
    raise RuntimeError("CPU Generator does not use offset")


def graphsafe_get_state(self):
    """NotImplementedError: no device here records its work."""
    raise NotImplementedError("graphsafe_get_state is not supported in this Generator")


def graphsafe_set_state(self, state):
    """NotImplementedError: no device here records its work."""
    raise NotImplementedError("graphsafe_set_state is not supported in this Generator")


for _function in (__reduce__, __setstate__, get_offset, set_offset, graphsafe_get_state, graphsafe_set_state):
    _function.__qualname__ = f"Generator.{_function.__name__}"
    setattr(_C.Generator, _function.__name__, _function)
del _function
_C.Generator.__module__ = "flambeau._C"  # files know it by PyTorch's name, torch._C.Generator
