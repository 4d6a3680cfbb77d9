"""Namespaces that are tables of operators: `linalg.det` is the operator `linalg_det`, and so on."""
from . import _C


def fill(scope, prefix, names):
    """Puts the operator `prefix + name` under each name into `scope`, a module's globals."""
    for name in names.split():
        operator = getattr(_C, prefix + name, None)
        if operator is not None:
            scope[name] = operator
    scope["__all__"] = [n for n in names.split() if n in scope]
