"""Names for the types of arguments."""
import os as _os
from builtins import bool as _bool
from builtins import bytes as _bytes
from builtins import complex as _complex
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from typing import IO, Any, List, Sequence, Tuple, Union

from ._C import Size, Tensor, device, dtype, layout

__all__ = ["Number", "Device", "FileLike", "Storage"]

_TensorOrTensors = Union[Tensor, Sequence[Tensor]]
_dtype = dtype
_device = device
_layout = layout
_size = Union[Size, List[_int], Tuple[_int, ...]]
_symsize = _size
_dispatchkey = Union[_str, Any]
_qscheme = Any

Number = Union[_int, _float, _bool]
PySymType = Number
IntLikeType = _int
FloatLikeType = _float
BoolLikeType = _bool
Device = Union[_device, _str, _int, None]
FileLike = Union[_str, "_os.PathLike[str]", IO[_bytes]]


class Storage:
    """The type of storages, typed or not."""

    def __instancecheck__(self, other):
        return hasattr(other, "data_ptr") and hasattr(other, "nbytes")
