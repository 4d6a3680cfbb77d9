"""Constraints: regions that a distribution's parameters or samples lie in, each with `check(value)`."""
from itertools import accumulate

import flambeau as fl

__all__ = [
    "Constraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property", "greater_than",
    "greater_than_eq", "independent", "integer_interval", "interval", "half_open_interval", "is_dependent", "less_than",
    "lower_cholesky", "lower_triangular", "MixtureSameFamilyConstraint", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_semidefinite", "positive_definite", "positive_integer",
    "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A region over which a variable is valid. `event_dim` rightmost dimensions together make one variable."""

    is_discrete = False
    event_dim = 0

    def check(self, value):
        """A boolean tensor of the shape of `value` without its event dimensions: is each event valid?"""
        raise NotImplementedError

    def _shown(self):
        return ""

    def __repr__(self):
        return f"{type(self).__name__[1:]}({self._shown()})"


# ---- regions that follow from other variables


class _Dependent(Constraint):
    """A region that depends on other variables, so that it cannot be checked alone."""

    def __init__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        self._facts = {"is_discrete": is_discrete, "event_dim": event_dim}

    def _fact(self, name):
        if self._facts[name] is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return self._facts[name]

    is_discrete = property(lambda self: self._fact("is_discrete"))
    event_dim = property(lambda self: self._fact("event_dim"))

    def __call__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        news = {"is_discrete": is_discrete, "event_dim": event_dim}
        return _Dependent(**{k: self._facts[k] if v is NotImplemented else v for k, v in news.items()})

    def check(self, x):
        raise ValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A property that is, seen from the class, a dependent constraint."""

    def __init__(self, fn=None, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn):
        return type(self)(fn, **self._facts)


def is_dependent(constraint):
    """Does the constraint depend on other variables?"""
    return isinstance(constraint, _Dependent)


# ---- regions made of another one


def _require(holds, message):
    if not holds:
        raise AssertionError(message)


class _Wrapping(Constraint):
    """Made of `base_constraint`; `_more` further dimensions belong to one event."""

    _more = 0

    def __init__(self, base_constraint):
        kind = type(base_constraint).__name__
        _require(isinstance(base_constraint, Constraint), f"base_constraint must be a Constraint, got {kind}")
        self.base_constraint = base_constraint

    is_discrete = property(lambda self: self.base_constraint.is_discrete)
    event_dim = property(lambda self: self.base_constraint.event_dim + self._more)

    def _all_but(self, flags, kept, value):
        """Whether all is valid, of the dimensions after the first `kept`."""
        if kept < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return flags.reshape(flags.shape[:kept] + (-1,)).all(-1)


class _IndependentConstraint(_Wrapping):
    """A base constraint whose `reinterpreted_batch_ndims` rightmost batch dimensions belong to one event."""

    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        super().__init__(base_constraint)
        n = self._more = self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        _require(isinstance(n, int), f"reinterpreted_batch_ndims must be an int, got {type(n).__name__}")
        _require(n >= 0, f"reinterpreted_batch_ndims must be >= 0, got {n}")

    def check(self, value):
        flags = self.base_constraint.check(value)
        return self._all_but(flags, flags.dim() - self._more, value)

    def _shown(self):
        return f"{self.base_constraint!r}, {self._more}"


class MixtureSameFamilyConstraint(_Wrapping):
    """The support of a mixture: a value is valid where it is valid for every component."""

    def check(self, value):
        flags = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return self._all_but(flags, value.dim() - self.event_dim, value)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_constraint!r})"


# ---- regions that a predicate of the value and of bounds describes


class _Region(Constraint):
    """The values for which `_holds(value, *bounds)`."""

    _bounds = ()

    def check(self, value):
        return self._holds(value, *(getattr(self, name) for name in self._bounds))

    def _shown(self):
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._bounds)


class _From(_Region):
    _bounds = ("lower_bound",)

    def __init__(self, lower_bound):
        self.lower_bound = lower_bound


class _UpTo(_Region):
    _bounds = ("upper_bound",)

    def __init__(self, upper_bound):
        self.upper_bound = upper_bound


class _Within(_From):
    _bounds = ("lower_bound", "upper_bound")

    def __init__(self, lower_bound, upper_bound):
        super().__init__(lower_bound)
        self.upper_bound = upper_bound


def _region(name, doc, holds, base=_Region, discrete=False, event_dim=0):
    """A class of constraints."""
    members = {"_holds": staticmethod(holds), "is_discrete": discrete, "event_dim": event_dim}
    return type(name, (base,), {**members, "__doc__": doc, "__module__": __name__})


def _whole(x):
    return x % 1 == 0


def _binary(x):
    return (x == 0) | (x == 1)


_Real = _region("_Real", "Every number except NaN.", lambda x: ~x.isnan())
_Boolean = _region("_Boolean", "0 or 1.", _binary, discrete=True)
_GreaterThan = _region("_GreaterThan", "(lower_bound, inf]", lambda x, low: low < x, _From)
_GreaterThanEq = _region("_GreaterThanEq", "[lower_bound, inf]", lambda x, low: low <= x, _From)
_LessThan = _region("_LessThan", "[-inf, upper_bound)", lambda x, high: x < high, _UpTo)
_Interval = _region(
    "_Interval", "[lower_bound, upper_bound]", lambda x, low, high: (low <= x) & (x <= high), _Within
)
_HalfOpenInterval = _region(
    "_HalfOpenInterval", "[lower_bound, upper_bound)", lambda x, low, high: (low <= x) & (x < high), _Within
)
_IntegerInterval = _region(
    "_IntegerInterval", "Whole numbers in [lower_bound, upper_bound].",
    lambda x, low, high: _whole(x) & (low <= x) & (x <= high), _Within, discrete=True,
)  # fmt: skip
_IntegerLessThan = _region(
    "_IntegerLessThan", "Whole numbers up to upper_bound.", lambda x, high: _whole(x) & (x <= high), _UpTo,
    discrete=True,
)  # fmt: skip
_IntegerGreaterThan = _region(
    "_IntegerGreaterThan", "Whole numbers from lower_bound on.", lambda x, low: _whole(x) & (x >= low), _From,
    discrete=True,
)  # fmt: skip

# vectors

_OneHot = _region(
    "_OneHot", "One 1 among zeros.", lambda x: _binary(x).all(-1) & (x.sum(-1) == 1), discrete=True, event_dim=1
)
_Simplex = _region(
    "_Simplex", "Non-negative vectors that sum to one.",
    lambda x: (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6), event_dim=1,
)  # fmt: skip


class _Multinomial(_UpTo):
    """Counts that sum to at most `upper_bound`."""

    is_discrete = True
    event_dim = 1

    def _shown(self):
        return ""

    @staticmethod
    def _holds(x, most):
        return (x >= 0).all(-1) & (x.sum(-1) <= most)


# matrices


def _everywhere(flags):
    """Whether flags are all set: inside vmap, those of every sample, which no sample may ask about."""
    while getattr(flags, "_flambeau_batched", False):
        flags = flags._value
    return bool(flags.all())


def _in_turn(*tests):
    """Holds where every test does; a test is made only if the ones before hold everywhere (it may fail otherwise)."""

    def holds(x):
        for test in tests:
            flags = test(x)
            if not _everywhere(flags):
                break
        return flags

    return holds


def _is_lower(x):
    return (x.tril() == x).flatten(-2).all(-1)


def _is_cholesky(x):
    return _is_lower(x) & (x.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


def _has_unit_rows(x):
    tolerance = 10 * x.size(-1) * fl.finfo(x.dtype).eps
    return ((fl.linalg.norm(x.detach(), dim=-1) - 1).abs() <= tolerance).all(-1)


def _is_square(x):
    shape = x.shape
    return fl.full(shape[:-2], shape[-2] == shape[-1], dtype=fl.bool, device=x.device)


def _is_symmetric(x):
    return fl.isclose(x, x.mT, atol=1e-6).flatten(-2).all(-1)


def _matrices(name, doc, holds):
    return _region(name, doc, holds, event_dim=2)


_LowerTriangular = _matrices("_LowerTriangular", "Zero above the diagonal.", _is_lower)
_LowerCholesky = _matrices("_LowerCholesky", "Lower triangular with a positive diagonal.", _is_cholesky)
_CorrCholesky = _matrices(
    "_CorrCholesky", "Lower triangular with a positive diagonal and rows of length one.",
    lambda x: _has_unit_rows(x) & _is_cholesky(x),
)  # fmt: skip
_Square = _matrices("_Square", "As many rows as columns.", _is_square)
_Symmetric = _matrices("_Symmetric", "Equal to their transpose.", _in_turn(_is_square, _is_symmetric))
_PositiveSemidefinite = _matrices(
    "_PositiveSemidefinite", "Symmetric without negative eigenvalues.",
    _in_turn(_is_square, _is_symmetric, lambda x: (fl.linalg.eigvalsh(x) >= 0).all(-1)),
)  # fmt: skip
_PositiveDefinite = _matrices(
    "_PositiveDefinite", "Symmetric with positive eigenvalues only.",
    _in_turn(_is_square, _is_symmetric, lambda x: fl.linalg.cholesky_ex(x).info == 0),
)  # fmt: skip


# ---- several regions side by side


class _SideBySide(Constraint):
    """Constraints `cseq` along `dim`; subclasses say where each finds its part, and how to join the answers."""

    def __init__(self, cseq, dim):
        self.cseq, self.dim = list(cseq), dim
        fine = all(isinstance(c, Constraint) for c in self.cseq)
        _require(fine, "All elements of cseq must be Constraint instances")

    is_discrete = property(lambda self: any(c.is_discrete for c in self.cseq))
    event_dim = property(lambda self: max(c.event_dim for c in self.cseq))

    def check(self, value):
        rank = value.dim()
        _require(-rank <= self.dim < rank, f"dim {self.dim} out of range for value with {rank} dimensions")
        return self._join([c.check(part) for c, part in zip(self.cseq, self._parts(value))], self.dim)


class _Cat(_SideBySide):
    """Constraint i holds for the i-th slice, of length `lengths[i]`, along `dim`."""

    _join = staticmethod(lambda flags, dim: fl.cat(flags, dim))

    def __init__(self, cseq, dim=0, lengths=None):
        super().__init__(cseq, dim)
        self.lengths = list(lengths or [1] * len(self.cseq))
        sizes = len(self.lengths), len(self.cseq)
        _require(sizes[0] == sizes[1], "lengths ({}) must match cseq ({})".format(*sizes))

    def _parts(self, value):
        return (value.narrow(self.dim, end - n, n) for n, end in zip(self.lengths, accumulate(self.lengths)))


class _Stack(_SideBySide):
    """Constraint i holds for the i-th element along `dim`."""

    _join = staticmethod(lambda flags, dim: fl.stack(flags, dim))

    def __init__(self, cseq, dim=0):
        super().__init__(cseq, dim)

    @property
    def event_dim(self):
        inner = super().event_dim
        return inner + (self.dim + inner < 0)

    def _parts(self, value):
        return value.unbind(self.dim)


dependent, dependent_property = _Dependent(), _DependentProperty
independent, cat, stack = _IndependentConstraint, _Cat, _Stack

real, real_vector = _Real(), independent(_Real(), 1)
positive, nonnegative, unit_interval = _GreaterThan(0.0), _GreaterThanEq(0.0), _Interval(0.0, 1.0)
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
interval, half_open_interval, integer_interval = _Interval, _HalfOpenInterval, _IntegerInterval
boolean, nonnegative_integer, positive_integer = _Boolean(), _IntegerGreaterThan(0), _IntegerGreaterThan(1)
one_hot, multinomial, simplex = _OneHot(), _Multinomial, _Simplex()
lower_triangular, lower_cholesky, corr_cholesky = _LowerTriangular(), _LowerCholesky(), _CorrCholesky()
square, symmetric = _Square(), _Symmetric()
positive_semidefinite, positive_definite = _PositiveSemidefinite(), _PositiveDefinite()
