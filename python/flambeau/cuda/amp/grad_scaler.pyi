# Made by scripts/stubs.
from builtins import bool as _bool, float as _float, int as _int

class GradScaler:
    def __init__(self, init_scale: _float = 65536.0, growth_factor: _float = 2.0, backoff_factor: _float = 0.5, growth_interval: _int = 2000, enabled: _bool = True) -> None: ...
