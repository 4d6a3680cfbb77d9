"""The rules of opset 9 for writing operators to ONNX, which libraries call in rules of their own: none can be called here."""

__all__ = []


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'torch.onnx.symbolic_opset9' has no attribute '{name}'")

    def rule(*args, **kwargs):
        raise NotImplementedError(f"torch.onnx.symbolic_opset9.{name}: Flambeau does not write ONNX models")

    rule.__name__ = name
    return rule
