"""Messages between a loader and its workers: small ones through a socket, large data through shared memory.

Tensors and out-of-band buffers of a message are laid into one anonymous shared file whose descriptor goes through the
socket; the receiver maps it and uses it in place. The kernel frees it when the last mapping goes, whoever dies first.
"""
from __future__ import annotations

import io
import mmap
import os
import pickle
import sys
import threading
from multiprocessing import reduction

import flambeau as _fl

_ALIGN = 64
_receiving = threading.local()
_HAS_FDS = sys.platform != "win32"


def _attach(offset, dtype, shape, requires_grad, parameter):
    """A tensor over the shared memory of the message being read."""
    count = 1
    for n in shape:
        count *= n
    if count == 0:
        tensor = _fl.empty(shape, dtype=dtype)
    else:
        tensor = _fl.frombuffer(_receiving.memory, dtype=dtype, count=count, offset=offset).view(shape)
    if parameter:
        return _fl.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_() if requires_grad else tensor


class _Pickler(pickle.Pickler):
    """Replaces dense tensors by their place in the shared memory."""

    def __init__(self, file):
        super().__init__(file, 5, buffer_callback=self._keep)
        self.size = 0
        self.tensors: list = []
        self.buffers: list = []

    def _place(self, nbytes: int) -> int:
        offset = self.size
        self.size = -(-(offset + nbytes) // _ALIGN) * _ALIGN
        return offset

    def _keep(self, buffer) -> None:
        raw = buffer.raw()
        self.buffers.append((self._place(raw.nbytes), raw))

    def reducer_override(self, obj):
        if not isinstance(obj, _fl.Tensor):
            return NotImplemented
        cls = type(obj)
        parameter = cls is not _fl.Tensor and cls.__name__ == "Parameter"
        if not (cls is _fl.Tensor or parameter) or obj.layout != _fl.strided or obj.device.type != "cpu":
            return NotImplemented
        if obj.requires_grad and not obj.is_leaf:
            raise RuntimeError("Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does "
                               "not support crossing process boundaries.  If you just want to transfer the data, call "
                               "detach() on the tensor before serializing (e.g., putting it on the queue).")
        offset = self._place(obj.numel() * obj.element_size())
        if obj.numel():
            self.tensors.append((offset, obj.detach()))
        return _attach, (offset, obj.dtype, tuple(obj.shape), obj.requires_grad, parameter)


def _new_memory(size: int) -> int:
    """A descriptor of an anonymous file of `size` bytes, in memory where the system can."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("flambeau", os.MFD_CLOEXEC)
    else:
        import tempfile

        fd, path = tempfile.mkstemp()
        os.unlink(path)
    os.ftruncate(fd, size)
    return fd


class Channel:
    """One direction between two processes; `inline` bytes at most go through the socket itself."""

    def __init__(self, connection, inline: int = 4096) -> None:
        self.connection, self.inline = connection, inline

    def send(self, message) -> None:
        """Send an object; raises what pickling it raises, before anything is sent."""
        file = io.BytesIO()
        pickler = _Pickler(file)
        pickler.dump(message)
        body = file.getbuffer()
        if len(body) + pickler.size <= self.inline or not _HAS_FDS:
            memory = bytearray(pickler.size)
            self._fill(memory, pickler)
            head = pickle.dumps((-1, len(body), [(o, b.nbytes) for o, b in pickler.buffers]))
            self.connection.send_bytes(head)
            self.connection.send_bytes(bytes(memory) + bytes(body))
            return
        start = pickler.size
        total = start + len(body)
        fd = _new_memory(total)
        try:
            with mmap.mmap(fd, total) as memory:
                self._fill(memory, pickler)
                memory[start:total] = body
            head = pickle.dumps((start, total, [(o, b.nbytes) for o, b in pickler.buffers]))
            self.connection.send_bytes(head)
            reduction.send_handle(self.connection, fd, None)
        finally:
            os.close(fd)

    @staticmethod
    def _fill(memory, pickler: _Pickler) -> None:
        for offset, tensor in pickler.tensors:
            _fl.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel(), offset=offset).view(tensor.shape).copy_(
                tensor)
        for offset, raw in pickler.buffers:
            memory[offset:offset + raw.nbytes] = raw.cast("B") if raw.nbytes else b""

    def receive(self):
        """The next object; EOFError when the other side is gone."""
        start, total, buffers = pickle.loads(self.connection.recv_bytes())
        if start < 0:
            data = bytearray(self.connection.recv_bytes())
            memory, start = data, len(data) - total
            body = memoryview(data)[start:]
        else:
            fd = reduction.recv_handle(self.connection)
            try:
                memory = mmap.mmap(fd, total)
            finally:
                os.close(fd)
            body = memoryview(memory)[start:total]
        whole = memoryview(memory)
        _receiving.memory = memory
        try:
            return pickle.loads(body, buffers=[whole[o:o + n] for o, n in buffers])
        finally:
            _receiving.memory = None

    def close(self) -> None:
        """Close this end."""
        try:
            self.connection.close()
        except OSError:
            pass
