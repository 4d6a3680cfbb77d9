# Made by scripts/stubs.
from builtins import bool as _bool
from typing import Any
from typing_extensions import Self

class detect_anomaly:
    def __init__(self, check_nan: _bool = True) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: Any) -> None: ...
    prev: Any
    prev_check_nan: Any
    check_nan: _bool
is_anomaly_check_nan_enabled: Any
is_anomaly_enabled: Any
set_anomaly_enabled: Any
class set_detect_anomaly:
    def __init__(self, mode: Any, check_nan: _bool = True) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: Any) -> None: ...
    prev: Any
    prev_check_nan: Any
