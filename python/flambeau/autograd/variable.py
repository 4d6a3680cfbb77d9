"""`Variable`, the old name of a tensor that can take part in differentiation."""
from .. import _C

__all__ = ["VariableMeta", "Variable"]


class VariableMeta(type):
    def __instancecheck__(cls, other):
        return isinstance(other, _C.Tensor)


class Variable(metaclass=VariableMeta):
    """`Variable(tensor, requires_grad)` gives back a tensor."""

    def __new__(cls, data=None, requires_grad=False, volatile=None):
        if volatile:
            import warnings

            warnings.warn("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.", stacklevel=2)
        if not (data is None or isinstance(data, _C.Tensor)):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        tensor = _C.tensor([]) if data is None else data.detach()
        return tensor.requires_grad_(requires_grad)

    class _execution_engine:
        """The engine, as hooks know it that have something to do at the end of the pass they run in."""

        @staticmethod
        def run_backward(*args):
            return _C._run_backward(*args)

        @staticmethod
        def queue_callback(callback):
            """Call `callback()` when the backward pass that runs now has ended without an error."""
            from . import _callbacks

            _callbacks.queue_callback(callback)
