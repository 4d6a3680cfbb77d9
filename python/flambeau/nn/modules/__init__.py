"""The module classes, one file per theme."""
from . import (
    activation, adaptive, batchnorm, channelshuffle, container, conv, distance, dropout, flatten, fold, instancenorm, linear,
    loss, normalization, padding, pixelshuffle, pooling, rnn, sparse, transformer, upsampling,
)
from ..._names import under_own_name
from .linear_cross_entropy_options import LinearCrossEntropyOptions
from .module import Module

__all__ = ["Module", "LinearCrossEntropyOptions"]

for _part in (
    activation, adaptive, batchnorm, channelshuffle, container, conv, distance, dropout, flatten, fold, instancenorm, linear,
    loss, normalization, padding, pixelshuffle, pooling, rnn, sparse, transformer, upsampling,
):
    for _name in _part.__all__:
        _class = globals()[_name] = getattr(_part, _name)
        for _method in ("__init__", "forward"):
            if getattr(_class, _method).__qualname__.startswith("_") and not _name.startswith(("BatchNorm", "LazyBatchNorm")):
                under_own_name(_class, _method)
    __all__ += _part.__all__
del _part, _name, _class, _method
