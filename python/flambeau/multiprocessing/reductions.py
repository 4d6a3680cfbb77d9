"""How tensors and storages go to another process: as the descriptor of a file in memory that both map."""
from multiprocessing import reduction

from .. import _C
from ..storage import TypedStorage, UntypedStorage, map_shared_memory, move_to_shared_memory, shared_descriptor

__all__ = ["init_reductions", "reduce_tensor", "reduce_storage", "rebuild_tensor"]


def rebuild_tensor(cls, memory, dtype, size, stride, offset, requires_grad, attributes):
    """The tensor in this process."""
    tensor = _C.empty(0, dtype=dtype).set_(_rebuild_storage(*memory), offset, size, stride)
    if issubclass(cls, _parameter()):
        tensor = cls(tensor, requires_grad=requires_grad)
    else:
        tensor.requires_grad_(requires_grad)
    tensor.__dict__.update(attributes)
    return tensor


def _parameter():
    from ..nn import Parameter

    return Parameter


def _rebuild_storage(descriptor, nbytes):
    if nbytes == 0:
        return _C.UntypedStorage(0)
    return map_shared_memory(descriptor.detach(), nbytes)


def _memory(tensor):
    """What another process maps."""
    nbytes = tensor.untyped_storage().nbytes()
    if nbytes == 0:
        return None, 0
    return reduction.DupFd(shared_descriptor(move_to_shared_memory(tensor))), nbytes


def reduce_tensor(tensor):
    """The tensor for another process. Its storage moves to shared memory."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing "
            "process boundaries.  If you just want to transfer the data, call detach() on the tensor before serializing "
            "(e.g., putting it on the queue)."
        )
    if tensor.device.type != "cpu" or tensor.layout is not _C.strided:
        return tensor.__reduce_ex__(2)
    return rebuild_tensor, (type(tensor), _memory(tensor), tensor.dtype, tuple(tensor.size()), tensor.stride(),
                            tensor.storage_offset(), tensor.requires_grad, dict(tensor.__dict__))  # fmt: skip


def reduce_storage(storage):
    """A storage for another process."""
    return _rebuild_storage, _memory(_C.empty(0, dtype=_C.uint8).set_(storage))


def _rebuild_typed_storage(storage, dtype):
    return TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def _reduce_typed_storage(storage):
    return _rebuild_typed_storage, (storage._untyped_storage, storage.dtype)


def init_reductions():
    """Tells Python's multiprocessing of all this."""
    for cls in (_C.Tensor, _parameter()):
        reduction.ForkingPickler.register(cls, reduce_tensor)
    reduction.ForkingPickler.register(UntypedStorage, reduce_storage)
    reduction.ForkingPickler.register(TypedStorage, _reduce_typed_storage)
