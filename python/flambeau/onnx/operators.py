"""Sizes as tensors, for models whose sizes vary."""
import flambeau as _fl

__all__ = ["shape_as_tensor", "reshape_from_tensor_shape"]


def shape_as_tensor(x):
    """The sizes of `x` as a tensor of int64."""
    return _fl._shape_as_tensor(x)


def reshape_from_tensor_shape(x, shape):
    """`x` in the sizes that a tensor holds."""
    return x.reshape(shape.tolist())
