"""The numbers that stand for dtypes, layouts and memory formats in TorchScript."""
from __future__ import annotations

import flambeau as _fl

_DTYPES = ("uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32 "
           "bfloat16 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16 float8_e5m2 float8_e4m3fn float8_e5m2fnuz "
           "float8_e4m3fnuz uint16 uint32 uint64 uint1 uint2 uint3 uint4 uint5 uint6 uint7 int1 int2 int3 int4 int5 int6 "
           "int7 float8_e8m0fnu float4_e2m1fn_x2").split()
_LAYOUTS = "strided sparse_coo sparse_csr _mkldnn sparse_csc sparse_bsr sparse_bsc jagged".split()
_FORMATS = "contiguous_format preserve_format channels_last channels_last_3d".split()
_TABLES = {"dtype": _DTYPES, "layout": _LAYOUTS, "memory_format": _FORMATS}


def _read(kind: str):
    return [getattr(_fl, name, None) for name in _TABLES[kind]]


BY_NUMBER = {kind: _read(kind) for kind in _TABLES}
NUMBERS = {value: number for values in BY_NUMBER.values() for number, value in enumerate(values) if value is not None}
_CLASSES = (_fl.dtype, _fl.layout, _fl.memory_format)


def number_of(value):
    """The number of a dtype, layout or memory format; None for anything else."""
    return NUMBERS.get(value) if isinstance(value, _CLASSES) else None


def from_number(kind: str, number):
    """The dtype, layout or memory format of a number; other values as they are."""
    if type(number) is not int:
        return number
    values = BY_NUMBER[kind]
    if not 0 <= number < len(values) or values[number] is None:
        raise RuntimeError(f"Unknown {kind.replace('_', ' ')} {number}")
    return values[number]
