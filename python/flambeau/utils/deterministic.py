"""`fill_uninitialized_memory`: whether new memory is filled if only deterministic algorithms are wanted."""
import sys
import types

__all__ = []


class _Deterministic(types.ModuleType):
    @property
    def fill_uninitialized_memory(self):
        """Whether `empty` and its like are to give NaN and the greatest integers then; kept, as PyTorch keeps it."""
        return _kept[0]

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode):
        if not isinstance(mode, bool):
            raise RuntimeError(f"expected a bool, but got {type(mode)}")
        _kept[0] = mode


_kept = [True]
sys.modules[__name__].__class__ = _Deterministic
