"""Names of tracing that libraries import from here."""
from . import (TracerWarning, TracingCheckError, _script_if_tracing, is_tracing, script_if_tracing, trace,  # noqa: F401
               trace_module)
from ._modules import TopLevelTracedModule, TracedModule  # noqa: F401
