"""`finfo` and `iinfo`: the limits of dtypes."""
from . import _C

__all__ = ["finfo", "iinfo"]

# Of dtypes that exist as names: bits, max, min, eps, tiny, resolution (OCP "8-bit floating point specification", 2023).
_NARROW = {
    "torch.float8_e4m3fn": (8, 448.0, -448.0, 2.0**-3, 2.0**-6, 1.0),
    "torch.float8_e4m3fnuz": (8, 240.0, -240.0, 2.0**-3, 2.0**-7, 1.0),
    "torch.float8_e5m2": (8, 57344.0, -57344.0, 2.0**-2, 2.0**-14, 1.0),
    "torch.float8_e5m2fnuz": (8, 57344.0, -57344.0, 2.0**-3, 2.0**-15, 1.0),
    "torch.float8_e8m0fnu": (8, 2.0**127, 2.0**-127, 1.0, 2.0**-127, 1.0),
}


class _Info:
    """What both have in common: a name, bounds, equality."""

    __module__ = "flambeau"
    __slots__ = ("dtype", "bits", "min", "max")
    _shown = ()

    def __eq__(self, other):
        return self.dtype == other.dtype if type(other) is type(self) else NotImplemented

    def __ne__(self, other):
        return self.dtype != other.dtype if type(other) is type(self) else NotImplemented

    def __hash__(self):
        return hash((type(self), self.dtype))

    def __repr__(self):
        numbers = "".join(f"{name}={getattr(self, name):g}, " for name in self._shown)
        return f"{type(self).__name__}({numbers}dtype={self.dtype})"


# Python's own types of numbers stand for dtypes.
_PYTHONS = {float: _C.float64, complex: _C.complex128, int: _C.int64, bool: _C.bool}


def _checked(name, type_):
    if isinstance(type_, type):
        type_ = _PYTHONS.get(type_, type_)
    if not isinstance(type_, _C.dtype):
        raise TypeError(f"{name}(): argument 'type' (position 1) must be torch.dtype, not {type(type_).__name__}")
    return type_


class finfo(_Info):
    """Limits of a floating-point dtype; of a complex one, those of its parts."""

    __module__ = "flambeau"
    __slots__ = ("eps", "tiny", "smallest_normal", "resolution")
    _shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")

    def __init__(self, type=None):
        kind = _C.get_default_dtype() if type is None else _checked("finfo", type)
        if not kind.is_floating_point and not kind.is_complex:
            raise TypeError("torch.finfo() requires a floating point input type. "
                            "Use torch.iinfo to handle 'torch.finfo'")
        self.bits, self.max, self.min, self.eps, self.tiny, self.resolution = _NARROW.get(str(kind)) or _C._limits(
            kind.to_real() if kind.is_complex else kind
        )
        self.smallest_normal = self.tiny
        self.dtype = str(kind.to_real() if kind.is_complex else kind)[6:]


class iinfo(_Info):
    """Limits of an integer dtype."""

    __module__ = "flambeau"
    __slots__ = ()
    _shown = ("min", "max")

    def __init__(self, *args, **kwargs):
        if not args and "type" not in kwargs:
            raise TypeError('iinfo() missing 1 required positional arguments: "type"')
        kind = _checked("iinfo", *args, *kwargs.values())
        if kind.is_floating_point or kind.is_complex:
            raise TypeError("torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'")
        if kind is _C.bool:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        self.dtype = str(kind)[6:]
        self.bits = 8 * kind.itemsize
        half = 1 << (self.bits - 1)
        self.min, self.max = (-half, half - 1) if kind.is_signed else (0, 2 * half - 1)
