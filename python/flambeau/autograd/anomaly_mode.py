"""Finding the forward operation whose backward failed or made a NaN."""
import warnings

from .. import _C
from .grad_mode import check_flag

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class set_detect_anomaly:
    """Switches anomaly detection on or off, at once; as a context manager, until the end of the block."""

    def __init__(self, mode, check_nan=True):
        check_flag("set_anomaly_enabled", mode)
        self.prev = _C.is_anomaly_enabled()
        self.prev_check_nan = _C.is_anomaly_check_nan_enabled()
        _C.set_anomaly_enabled(mode, check_nan)

    def __enter__(self):
        pass

    def __exit__(self, *args):
        _C.set_anomaly_enabled(self.prev, self.prev_check_nan)


class detect_anomaly:
    """Inside, a failing backward shows the traceback of its forward, and (with `check_nan`) a NaN raises."""

    def __init__(self, check_nan=True):
        self.prev = _C.is_anomaly_enabled()
        self.prev_check_nan = _C.is_anomaly_check_nan_enabled()
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self):
        _C.set_anomaly_enabled(True, self.check_nan)

    def __exit__(self, *args):
        _C.set_anomaly_enabled(self.prev, self.prev_check_nan)
