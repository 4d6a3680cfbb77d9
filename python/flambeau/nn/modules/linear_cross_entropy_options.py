"""Options of `linear_cross_entropy`."""
from dataclasses import dataclass
from typing import Any, Optional

__all__ = ["LinearCrossEntropyOptions"]

_POLICIES = ("accurate", "balanced", "compact", "auto")


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """How to trade memory for time in `linear_cross_entropy`. Accepted; the plain computation is used."""

    allow_retain_graph: bool = False
    batch_chunk_size: Optional[int] = None
    chunking_method: Optional[str] = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self):
        method = self.chunking_method
        if method is not None and method != "auto" and not method.startswith("aspect_ratio:"):
            raise ValueError(f"invalid chunking_method: {method!r}")
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
