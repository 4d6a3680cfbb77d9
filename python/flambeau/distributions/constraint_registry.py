"""`biject_to` and `transform_to`: from a constraint to a transform from unconstrained space onto it."""
from functools import partial
from numbers import Number

from . import constraints as region
from . import transforms as to

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Calls the factory registered for the class of a constraint."""

    def __init__(self):
        self._registry = {}

    def register(self, constraint, factory=None):
        """Registers `factory(constraint) -> Transform` for a class of constraints; a decorator without `factory`."""
        if factory is None:
            return partial(self.register, constraint)
        kind = type(constraint) if isinstance(constraint, region.Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, region.Constraint)):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {kind}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint):
        kind = type(constraint)
        if kind in self._registry:
            return self._registry[kind](constraint)
        raise NotImplementedError(f"Cannot transform {kind.__name__} constraints")


def _to_interval(c):
    ends = c.lower_bound, c.upper_bound
    squash = to.SigmoidTransform()
    if all(isinstance(end, Number) for end in ends) and ends == (0, 1):
        return squash
    return to.ComposeTransform([squash, to.AffineTransform(ends[0], ends[1] - ends[0])])


def _ray(start, direction):
    return to.ComposeTransform([to.ExpTransform(), to.AffineTransform(start, direction)])


# Regions, and the way onto them: a bijection, and a transform that is good for optimization (None: there is none).
_WAYS = (
    ((region.real,), (lambda c: to.identity_transform,) * 2),
    ((region.greater_than, region.greater_than_eq), (lambda c: _ray(c.lower_bound, 1),) * 2),
    ((region.less_than,), (lambda c: _ray(c.upper_bound, -1),) * 2),
    ((region.interval, region.half_open_interval), (_to_interval,) * 2),
    ((region.corr_cholesky,), (lambda c: to.CorrCholeskyTransform(),) * 2),
    ((region.simplex,), (lambda c: to.StickBreakingTransform(), lambda c: to.SoftmaxTransform())),
    ((region.lower_cholesky,), (None, lambda c: to.LowerCholeskyTransform())),
    ((region.positive_definite, region.positive_semidefinite), (None, lambda c: to.PositiveDefiniteTransform())),
)


def _filled(column):
    """A registry with one column of the table, and with ways onto regions that are made of others."""
    registry = ConstraintRegistry()
    for kinds, ways in _WAYS:
        for kind in kinds if ways[column] else ():
            registry.register(kind, ways[column])

    def all_of(c):
        return [registry(part) for part in c.cseq]

    registry.register(
        region.independent,
        lambda c: to.IndependentTransform(registry(c.base_constraint), c.reinterpreted_batch_ndims),
    )
    registry.register(region.cat, lambda c: to.CatTransform(all_of(c), c.dim, c.lengths))
    registry.register(region.stack, lambda c: to.StackTransform(all_of(c), c.dim))
    return registry


biject_to, transform_to = _filled(0), _filled(1)
