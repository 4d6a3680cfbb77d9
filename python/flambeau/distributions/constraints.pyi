# Made by scripts/stubs.
from builtins import bool as _bool, int as _int
from typing import Any

# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
class Constraint:
    is_discrete: _bool
    event_dim: _int
    def check(self, value: Any) -> Any: ...
class MixtureSameFamilyConstraint(_Wrapping):
    def check(self, value: Any) -> Any: ...
class _Dependent(Constraint):
    def __init__(self, *, is_discrete: Any = ..., event_dim: Any = ...) -> None: ...
    is_discrete: Any
    event_dim: Any
    def __call__(self, *, is_discrete: Any = ..., event_dim: Any = ...) -> Any: ...
    def check(self, x: Any) -> Any: ...
class _From(_Region):
    def __init__(self, lower_bound: Any) -> None: ...
    lower_bound: Any
class _Region(Constraint):
    def check(self, value: Any) -> Any: ...
class _SideBySide(Constraint):
    def __init__(self, cseq: Any, dim: Any) -> None: ...
    is_discrete: Any
    event_dim: Any
    def check(self, value: Any) -> Any: ...
    cseq: Any
    dim: Any
class _UpTo(_Region):
    def __init__(self, upper_bound: Any) -> None: ...
    upper_bound: Any
class _Within(_From):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None: ...
    upper_bound: Any
class _Wrapping(Constraint):
    def __init__(self, base_constraint: Any) -> None: ...
    is_discrete: Any
    event_dim: Any
    base_constraint: Any
boolean: Any
class cat(_SideBySide):
    def __init__(self, cseq: Any, dim: _int = 0, lengths: Any = None) -> None: ...
    lengths: Any
corr_cholesky: Any
dependent: Any
class dependent_property(property, _Dependent):
    def __init__(self, fn: Any = None, *, is_discrete: Any = ..., event_dim: Any = ...) -> None: ...
    def __call__(self, fn: Any) -> Any: ...
class greater_than(_From):
    is_discrete: _bool
    event_dim: _int
class greater_than_eq(_From):
    is_discrete: _bool
    event_dim: _int
class half_open_interval(_Within):
    is_discrete: _bool
    event_dim: _int
class independent(_Wrapping):
    def __init__(self, base_constraint: Any, reinterpreted_batch_ndims: Any) -> None: ...
    def check(self, value: Any) -> Any: ...
    reinterpreted_batch_ndims: Any
class integer_interval(_Within):
    is_discrete: _bool
    event_dim: _int
class interval(_Within):
    is_discrete: _bool
    event_dim: _int
def is_dependent(constraint: Any) -> _bool: ...
class less_than(_UpTo):
    is_discrete: _bool
    event_dim: _int
lower_cholesky: Any
lower_triangular: Any
class multinomial(_UpTo):
    is_discrete: _bool
    event_dim: _int
nonnegative: Any
nonnegative_integer: Any
one_hot: Any
positive: Any
positive_definite: Any
positive_integer: Any
positive_semidefinite: Any
real: Any
real_vector: Any
simplex: Any
square: Any
class stack(_SideBySide):
    def __init__(self, cseq: Any, dim: _int = 0) -> None: ...
    event_dim: Any
symmetric: Any
unit_interval: Any
