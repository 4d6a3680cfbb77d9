"""`fill_uninitialized_memory`: whether new memory is filled if only deterministic algorithms are wanted."""
import sys
import types

from .. import _settings

__all__ = []


class _Deterministic(types.ModuleType):
    @property
    def fill_uninitialized_memory(self):
        """Whether `empty` and its like give NaN and the greatest integers then."""
        return _settings._state["fill_uninitialized"]

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode):
        if not isinstance(mode, bool):
            raise RuntimeError(f"expected a bool, but got {type(mode)}")
        _settings._fill_uninitialized(mode)


sys.modules[__name__].__class__ = _Deterministic
