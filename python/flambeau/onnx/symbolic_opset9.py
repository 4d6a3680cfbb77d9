"""The rules of opset 9 for writing operators to ONNX, which libraries call in rules of their own: none can be called here."""
from ._no_rules import rules_of

__all__ = []

__getattr__ = rules_of("torch.onnx.symbolic_opset9")
