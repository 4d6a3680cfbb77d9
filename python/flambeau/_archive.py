"""The archives that `save` writes, record by record."""
from . import _C
from ._zipfile import ZipReader, ZipWriter

__all__ = ["PyTorchFileReader", "PyTorchFileWriter"]


class PyTorchFileReader:
    """Reads records of an archive: a path, or a file that can be sought in."""

    def __init__(self, file):
        self._opened = None if hasattr(file, "read") else open(file, "rb")
        self._reader = ZipReader(self._opened or file)

    def __del__(self):
        if getattr(self, "_opened", None) is not None:
            self._opened.close()

    def has_record(self, name):
        """Whether there is a record of this name."""
        return self._reader.has_record(name)

    def get_all_records(self):
        """The names of all records."""
        return self._reader.names_of_all()

    def get_record(self, name):
        """A record's bytes."""
        return self._reader.read(name)

    def get_record_offset(self, name):
        """Where a record begins in the file."""
        return self._reader.offset(name)

    def get_storage_from_record(self, name, numel, dtype):
        """A record as a vector of `numel` elements; of bytes if a class of storages is given for the dtype."""
        dtype = dtype if isinstance(dtype, _C.dtype) else _C.uint8
        return _C.frombuffer(bytearray(self.get_record(name)), dtype=dtype, count=numel) if numel else _C.empty(0, dtype=dtype)

    def version(self):
        """The version of the archive's form."""
        return int(self.get_record("version"))

    def serialization_id(self):
        """The number by which the archive is told from others; empty if it has none."""
        name = ".data/serialization_id"
        return self.get_record(name).decode() if self.has_record(name) else ""


class PyTorchFileWriter:
    """Writes an archive record by record: to a path, or to a file."""

    def __init__(self, file):
        named = not hasattr(file, "write")
        self._opened = open(file, "wb") if named else None
        self._name = "archive"
        if named:
            import os

            self._name = os.path.splitext(os.path.basename(os.fspath(file)))[0] or "archive"
        self._writer = ZipWriter(self._opened or file, self._name)
        self._names = []

    def archive_name(self):
        """The folder in the archive that all records are in."""
        return self._name

    def write_record(self, name, data, size):
        """Adds a record: `size` bytes of what is given."""
        if hasattr(data, "_untyped_storage") or isinstance(data, _C.UntypedStorage):
            data = bytes(_C.empty(0, dtype=_C.uint8).set_(getattr(data, "_untyped_storage", data)).tolist())
        self._writer.write_record(name, (data.encode() if isinstance(data, str) else bytes(data))[:size])
        self._names.append(name)

    def get_all_written_records(self):
        """The names of what was written."""
        return set(self._names)

    def write_end_of_file(self):
        """Ends the archive, with the version of its form."""
        if "version" not in self._names:
            self.write_record("version", b"3\n", 2)
        self._writer.close()
        if self._opened is not None:
            self._opened.close()
