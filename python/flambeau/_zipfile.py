"""The zip container of saved files: entries stored plainly, their data aligned, readable without copies."""
from __future__ import annotations

import contextlib
import os
import struct
import threading
import zlib

ALIGNMENT = 64
_CORRUPT = (" This is an internal miniz error. If you are seeing this error, there is a high likelihood that your "
            "checkpoint file is corrupted. This can happen if the checkpoint was not saved properly, was transferred "
            "incorrectly, or the file was modified after saving.")


def corrupt(what: str) -> RuntimeError:
    """The error for a container that is not what it should be."""
    return RuntimeError(f"PytorchStreamReader failed {what}.{_CORRUPT}")


class ZipWriter:
    """Writes entries one after the other to anything with `write`; `close` adds the directory."""

    def __init__(self, file, archive: str) -> None:
        self.file, self.archive = file, archive
        self.offset = 0
        self.entries: list[tuple[bytes, int, int, int]] = []
        self.names = 0

    def _write(self, data: bytes) -> None:
        self.file.write(data)
        self.offset += len(data)

    def write_record(self, name: str, data, crc: int | None = None) -> None:
        """Add the entry `name` with bytes-like contents, whose checksum may be known."""
        data = memoryview(data)
        size = data.nbytes
        if crc is None:
            crc = zlib.crc32(data)
        encoded = f"{self.archive}/{name}".encode()
        big = size >= 0xFFFFFFFF
        extra = struct.pack("<HHQQ", 1, 16, size, size) if big else b""
        start = self.offset
        room = (start + 30 + len(encoded) + len(extra) + 4) % ALIGNMENT
        padding = (ALIGNMENT - room) % ALIGNMENT
        extra += struct.pack("<2sH", b"FB", padding) + b"Z" * padding
        shown = 0xFFFFFFFF if big else size
        head = struct.pack("<4s5H3L2H", b"PK\x03\x04", 45 if big else 0, 0x0800, 0, 0, 0, crc, shown, shown, len(encoded),
                           len(extra)) + encoded + extra
        if size < 4096:
            self._write(head + data.tobytes())
        else:
            self._write(head)
            self._write(data.cast("B"))
        self.entries.append((encoded, crc, size, start))
        self.names = zlib.crc32(encoded, zlib.crc32(struct.pack("<L", crc), self.names))

    def close(self) -> None:
        """Write the identity of the contents and the central directory."""
        self.write_record(".data/serialization_id", b"%020d%020d" % (self.names, len(self.entries)))
        start = self.offset
        directory = []
        for name, crc, size, offset in self.entries:
            wide = [v for v in (size, size, offset) if v >= 0xFFFFFFFF]
            extra = struct.pack(f"<HH{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
            shown, at = min(size, 0xFFFFFFFF), min(offset, 0xFFFFFFFF)
            head = struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 45 if wide else 0, 45 if wide else 0, 0x0800, 0, 0, 0, crc,
                               shown, shown, len(name), len(extra), 0, 0, 0, 0, at)
            directory += head, name, extra
        self._write(b"".join(directory))
        size, count = self.offset - start, len(self.entries)
        if count >= 0xFFFF or size >= 0xFFFFFFFF or start >= 0xFFFFFFFF:
            end = self.offset
            self._write(struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, start))
            self._write(struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1))
        self._write(struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, min(count, 0xFFFF), min(count, 0xFFFF),
                                min(size, 0xFFFFFFFF), min(start, 0xFFFFFFFF), 0))


class ZipReader:
    """Finds and reads the entries of a seekable file; the archive's folder is left off their names."""

    def __init__(self, file) -> None:
        import zipfile

        self.file = file
        self.base = file.tell()
        file.seek(0, os.SEEK_END)
        size = file.tell() - self.base
        file.seek(self.base)
        try:
            self.zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, OSError, ValueError, struct.error, OverflowError, NotImplementedError):
            reason = "not a ZIP archive" if size < 22 else "failed finding central directory"
            raise corrupt(f"reading zip archive: {reason}") from None
        names = self.zip.namelist()
        if not names:
            raise corrupt("reading zip archive: no files")
        folder, slash, _ = names[0].partition("/")
        if not slash:
            raise RuntimeError(f"[enforce fail at inline_container.cc] . file in archive is not in a subdirectory: "
                               f"{names[0]}")
        self.archive = folder
        self.entries = {i.filename[len(folder) + 1:]: i for i in self.zip.infolist()
                        if i.filename.startswith(folder + "/")}
        # Some files are written without checksums on purpose: the one of the pickle tells.
        self.checked = False

    def has_record(self, name: str) -> bool:
        """Whether there is a record of this name."""
        return name in self.entries

    def names_of_all(self) -> list[str]:
        """The names of all records."""
        return list(self.entries)

    def _entry(self, name: str):
        entry = self.entries.get(name)
        if entry is None:
            raise corrupt(f"locating file {name}: file not found")
        return entry

    def size(self, name: str) -> int:
        """The length of a record."""
        return self._entry(name).file_size

    def offset(self, name: str) -> int:
        """Where the data of an uncompressed entry begins in the file."""
        entry = self._entry(name)
        self.file.seek(entry.header_offset)
        head = self.file.read(30)
        if len(head) != 30 or head[:4] != b"PK\x03\x04":
            raise corrupt(f"reading file {name}: invalid header or archive is corrupted")
        return entry.header_offset + 30 + sum(struct.unpack("<2H", head[26:30]))

    def stored(self, name: str) -> bool:
        """Whether a record is stored without compression."""
        return self._entry(name).compress_type == 0

    def read(self, name: str) -> bytes:
        """The whole of an entry."""
        import zipfile

        entry = self._entry(name)
        if entry.compress_type == 0:
            self.file.seek(self.offset(name))
            data = self.file.read(entry.file_size)
            if len(data) != entry.file_size:
                raise corrupt(f"reading file {name}: file read failed")
            return data
        try:
            return self.zip.read(entry)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError):
            raise corrupt(f"reading file {name}: decompression failed or archive is corrupted") from None

    def read_into(self, name: str, target: memoryview, checksum=lambda: None) -> None:
        """Fill `target` with an entry of that size; a wrong checksum raises where checksums are kept.

        `checksum` may compute that of `target`."""
        entry = self._entry(name)
        if entry.compress_type == 0 and hasattr(self.file, "readinto"):
            self.file.seek(self.offset(name))
            done = 0
            while done < len(target):
                n = self.file.readinto(target[done:])
                if not n:
                    raise corrupt(f"reading file {name}: file read failed")
                done += n
        else:
            target[:] = self.read(name)
        if not self.checked:
            return
        crc = checksum()
        if (zlib.crc32(target) if crc is None else crc) != entry.CRC:
            raise corrupt(f"reading file {name}: CRC-32 check failed")

    def check_against(self, name: str, data: bytes) -> None:
        """Keep to checksums from here on if that of `name` is right."""
        self.checked = zlib.crc32(data) == self._entry(name).CRC


@contextlib.contextmanager
def atomic(path):
    """A new file that takes the place of `path` when the block ends well, and vanishes when it does not."""
    path = os.path.realpath(os.fspath(path))
    if os.path.isdir(path):
        raise RuntimeError("[enforce fail at inline_container.cc] . open file failed with strerror: Is a directory")
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    if os.path.exists(path) and not os.path.isfile(path):  # a device or a pipe
        with open(path, "wb") as file:
            yield file
        return
    temporary = os.path.join(folder, f".{os.path.basename(path)}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(OSError):
            os.chmod(temporary, os.stat(path).st_mode & 0o7777)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
