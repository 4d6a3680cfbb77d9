"""The workings of `DataLoader`."""
from __future__ import annotations

import sys

from flambeau._utils import ExceptionWrapper

IS_WINDOWS = sys.platform == "win32"
MP_STATUS_CHECK_INTERVAL = 5.0  # seconds between looks at whether the other side is alive

from . import collate, fetch, pin_memory, worker  # noqa: E402,F401
