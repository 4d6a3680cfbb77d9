"""Writing models for ONNX: not part of Flambeau. Queries say so."""

__all__ = ["is_in_onnx_export", "export"]


def is_in_onnx_export():
    """Is a model being written now? Never."""
    return False


def export(*args, **kwargs):
    """Raises: models are not written for ONNX."""
    raise NotImplementedError("torch.onnx.export: Flambeau does not write ONNX models")
