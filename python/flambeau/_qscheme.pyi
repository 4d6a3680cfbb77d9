# Made by scripts/stubs.
from typing import Any

per_channel_affine: Any
per_channel_affine_float_qparams: Any
per_channel_symmetric: Any
per_tensor_affine: Any
per_tensor_symmetric: Any
class qscheme:
    @staticmethod
    def __new__(cls: Any, *args: Any) -> Any: ...
