"""Names of scripting that libraries import from here."""
from . import Attribute, CompilationUnit, ScriptFunction, ScriptWarning, interface, script, script_method  # noqa: F401
from ._modules import RecursiveScriptModule, ScriptModule  # noqa: F401
from ._objects import ScriptObject as RecursiveScriptClass  # noqa: F401
