"""The old tensor classes, one for each dtype: `FloatTensor(2, 3)`, `isinstance(x, LongTensor)`."""
from . import _C

__all__ = ["tensortype", "type_name", "type_of_name", "CLASSES"]

# What the name of a dtype's class begins with.
_STEMS = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "uint8": "Byte", "int8": "Char",
    "int16": "Short", "int32": "Int", "int64": "Long", "bool": "Bool", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64",
}  # fmt: skip
_BY_DTYPE = {getattr(_C, name): stem for name, stem in _STEMS.items()}
_BY_STEM = {stem: dtype for dtype, stem in _BY_DTYPE.items()}
# Those that exist as classes.
_WITH_CLASS = "Float Double Half BFloat16 Byte Char Short Int Long Bool".split()


class tensortype(type):
    """The type of these classes: makes plain tensors, and tells them by their dtype."""

    __module__ = "flambeau"

    def __call__(cls, *args, **kwargs):
        if kwargs.get("device") is not None and _C.device(kwargs["device"]).type != "cpu":
            raise RuntimeError(f"legacy constructor expects device type: cpu but device type: "
                               f"{_C.device(kwargs['device']).type} was passed")
        return _C._legacy_tensor(args, cls.dtype)

    def __instancecheck__(cls, obj):
        return isinstance(obj, _C.Tensor) and obj.dtype is cls.dtype and obj.device.type == "cpu" \
            and obj.layout == _C.strided

    def __subclasscheck__(cls, other):
        return other is cls

    def __getattr__(cls, name):
        return getattr(_C.Tensor, name)

    def __reduce__(cls):
        return cls.__name__


def _make(stem):
    attributes = {"__module__": "flambeau", "__slots__": (), "dtype": _BY_STEM[stem], "layout": _C.strided,
                  "is_cuda": False, "is_sparse": False}  # fmt: skip
    return tensortype(stem + "Tensor", (), attributes)


CLASSES = {stem + "Tensor": _make(stem) for stem in _WITH_CLASS}


def type_name(tensor):
    """'torch.FloatTensor', or 'torch.meta.FloatTensor' elsewhere than on the CPU."""
    place = "" if tensor.device.type == "cpu" else tensor.device.type + "."
    place += "sparse." if tensor.is_sparse else ""
    return f"torch.{place}{_BY_DTYPE[tensor.dtype]}Tensor"


def type_of_name(name):
    """(dtype, device kind) of 'torch.FloatTensor'.

    Raises ValueError for other texts.
    """
    if name == "torch.Tensor":
        return _C.get_default_dtype(), "cpu"
    *place, kind = name.split(".")
    dtype = _BY_STEM.get(kind[:-6]) if kind.endswith("Tensor") else None
    if dtype is None or not 1 <= len(place) <= 2 or place.pop(0) not in ("torch", "flambeau"):
        raise ValueError(f"invalid type: '{name}'")
    return dtype, place[0] if place else "cpu"
