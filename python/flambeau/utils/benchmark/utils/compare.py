"""Tables of measurements."""
from ..compare import Compare

__all__ = ["Compare"]
