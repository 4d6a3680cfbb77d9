"""Forward mode: dual tensors that carry a tangent along."""
from typing import NamedTuple, Optional  # noqa: F401

from .. import _C
from .grad_mode import _DecoratorContextManager

__all__ = ["UnpackedDualTensor", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual", "dual_level"]

_current_level = -1


def enter_dual_level():
    """Opens a level; only one at a time can be open."""
    global _current_level
    level = _C._enter_dual_level()
    if level != _current_level + 1:
        raise RuntimeError(
            "Entering a new forward AD level but the current level is not valid. Make sure you did not modified it "
            "directly."
        )
    _current_level = level
    return level


def exit_dual_level(*, level=None):
    """Closes a level: its tangents are gone."""
    global _current_level
    if level is None:
        level = _current_level
    if level != _current_level:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    _C._exit_dual_level(level=level)
    _current_level = level - 1


def _differentiable(dtype):
    return dtype.is_floating_point or dtype.is_complex


def make_dual(tensor, tangent, *, level=None):
    """A view of `tensor` with `tangent` attached."""
    if level is None:
        level = _current_level
    if level < 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for name, t in (("primal", tensor), ("tangent", tangent)):
        if not _differentiable(t.dtype):
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {t.dtype}")
    return _C._make_dual(tensor, tangent, level=level)


class UnpackedDualTensor(NamedTuple):
    """The two halves of a dual tensor; the tangent is None where there is none."""

    primal: "_C.Tensor"
    tangent: "Optional[_C.Tensor]"


def unpack_dual(tensor, *, level=None):
    """Primal and tangent of a tensor."""
    if level is None:
        level = _current_level
    if level < 0:
        return UnpackedDualTensor(tensor, None)
    primal, tangent = _C._unpack_dual(tensor, level=level)
    return UnpackedDualTensor(primal, tangent)


class dual_level(_DecoratorContextManager):
    """A level for the duration of a block or a function."""

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, exc_type, exc_value, traceback):
        exit_dual_level()
