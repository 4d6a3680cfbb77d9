"""Protocol-buffer messages by hand, and the records of event files with their masked checksums."""
from __future__ import annotations

import struct

# Kinds of fields in the tables below.
INT, DOUBLE, FLOAT, BYTES, MESSAGE = "int", "double", "float", "bytes", "message"


def varint(value: int) -> bytes:
    """An integer in groups of seven bits; negative ones as 64-bit two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, kind: str, value) -> bytes:
    """One field of a message; lists of numbers are packed, lists of others repeated."""
    if isinstance(value, (list, tuple)):
        if kind == DOUBLE:
            return field(number, BYTES, struct.pack(f"<{len(value)}d", *value))
        if kind == FLOAT:
            return field(number, BYTES, struct.pack(f"<{len(value)}f", *value))
        if kind == INT:
            return field(number, BYTES, b"".join(varint(int(v)) for v in value))
        return b"".join(field(number, kind, v) for v in value)
    if kind == INT:
        return varint(number << 3) + varint(int(value))
    if kind == DOUBLE:
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if kind == FLOAT:
        return varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else bytes(value)
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(*fields: tuple) -> bytes:
    """A message of ``(number, kind, value)``; fields of None are left out."""
    return b"".join(field(n, kind, value) for n, kind, value in fields if value is not None)


def _crc_table() -> list[int]:
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    return table


_TABLE: list[int] = []


def crc32c(data: bytes) -> int:
    """Castagnoli's checksum."""
    if not _TABLE:
        _TABLE.extend(_crc_table())
    table = _TABLE
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def masked_crc32c(data: bytes) -> bytes:
    """The checksum as records keep it."""
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data: bytes) -> bytes:
    """One record of an event file."""
    length = struct.pack("<Q", len(data))
    return length + masked_crc32c(length) + data + masked_crc32c(data)
