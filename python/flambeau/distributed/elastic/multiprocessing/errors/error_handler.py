"""Writing an error to the file that a launcher reads."""
import faulthandler
import json
import os
import time
import traceback
import warnings

__all__ = ["ErrorHandler"]


class ErrorHandler:
    """Writes errors to the file that the environment variable TORCHELASTIC_ERROR_FILE names, if it does."""

    def initialize(self):
        """Have crashes of the interpreter print where they happened."""
        try:
            faulthandler.enable(all_threads=True)
        except Exception as error:  # standard error is no file, in a notebook
            warnings.warn(f"Unable to enable fault handler. {type(error).__name__}: {error}")

    def record_exception(self, e):
        """Write what was raised, where and when."""
        path = os.environ.get("TORCHELASTIC_ERROR_FILE")
        if not path:
            return
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        frames = "".join(traceback.format_exception(e))
        details = {"py_callstack": frames, "timestamp": str(int(time.time()))}
        with open(path, "w") as file:
            json.dump({"message": {"message": f"{type(e).__name__}: {e}", "extraInfo": details}}, file)
