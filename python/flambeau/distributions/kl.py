"""Kullback-Leibler divergences: a registry by pairs of classes, and the closed forms."""
import math
import warnings

import flambeau as fl

from .continuous import Beta, Cauchy, Exponential, Gamma, Laplace, Normal, Uniform
from .continuous_transformed import Gumbel, HalfNormal, Pareto
from .discrete import (
    Bernoulli, Binomial, Categorical, ContinuousBernoulli, Geometric, OneHotCategorical, Poisson,
)  # fmt: skip
from .distribution import ExponentialFamily
from .multivariate import Dirichlet, LowRankMultivariateNormal, MultivariateNormal, _solve_lower
from .transformed import Independent, TransformedDistribution
from .utils import _sum_rightmost
from .utils import euler_constant as _euler

__all__ = ["register_kl", "kl_divergence"]

_KL_REGISTRY = {}
_KL_MEMOIZE = {}


# ---- the registry


def register_kl(type_p, type_q):
    """A decorator that registers a function for kl_divergence(p, q) of these classes and their subclasses."""
    for name, kind in {"type_p": type_p, "type_q": type_q}.items():
        if not isinstance(kind, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def keep(function):
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return keep


def _dispatch_kl(type_p, type_q):
    """The function registered nearest to two classes; it must be nearest both for p first and for q first."""
    far_p, far_q = ({kind: i for i, kind in enumerate(t.__mro__)} for t in (type_p, type_q))
    distances = {(far_p[a], far_q[b]): (a, b) for a, b in _KL_REGISTRY if a in far_p and b in far_q}
    if not distances:
        return NotImplemented
    by_p = distances[min(distances)]
    by_q = distances[min(distances, key=lambda d: d[::-1])]
    if _KL_REGISTRY[by_p] is not _KL_REGISTRY[by_q]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). "
            f"Please register_kl({by_p[0].__name__}, {by_q[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[by_p]


def kl_divergence(p, q):
    """KL(p || q), of shape `batch_shape`."""
    pair = type(p), type(q)
    if pair not in _KL_MEMOIZE:
        _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    function = _KL_MEMOIZE[pair]
    if function is NotImplemented:
        names = [kind.__name__ for kind in pair]
        raise NotImplementedError("No KL(p || q) is implemented for p type {} and q type {}".format(*names))
    return function(p, q)


def _add_kl_info():
    """Lists the registered pairs in the docstring of kl_divergence."""
    pairs = sorted(tuple(kind.__name__ for kind in pair) for pair in _KL_REGISTRY)
    lines = ("* {} and {}\n".format(*pair) for pair in pairs)
    kl_divergence.__doc__ += "\n\nPairs with a closed form:\n" + "".join(lines)


# ---- two of one family


def _both(family):
    return register_kl(family, family)


@_both(ExponentialFamily)
def _(p, q):
    """The Bregman divergence of the log normalizer between the natural parameters."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    theirs = q._natural_params
    own, log_z, means = p._with_gradients(p, p._natural_params)
    divergence = q._log_normalizer(*theirs) - log_z
    for a, b, mean in zip(own, theirs, means):
        term = (b - a) * mean
        divergence = divergence - _sum_rightmost(term, len(q.event_shape) if term.dim() > divergence.dim() else 0)
    return divergence


@_both(TransformedDistribution)
def _(p, q):
    if p.event_shape == q.event_shape and p.transforms == q.transforms:
        return kl_divergence(p.base_dist, q.base_dist)
    raise NotImplementedError


@_both(Independent)
def _(p, q):
    moved = p.reinterpreted_batch_ndims
    if q.reinterpreted_batch_ndims != moved:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), moved)


_both(HalfNormal)(lambda p, q: kl_divergence(p.base_dist, q.base_dist))
_both(OneHotCategorical)(lambda p, q: kl_divergence(p._categorical, q._categorical))


def _expected(weight, log_ratio, q_mass):
    """weight * log_ratio: infinite where q has no mass, and nothing where the weight is zero all the same."""
    return (weight * log_ratio).where(q_mass != 0, math.inf).where(weight != 0, 0.0)


@_both(Bernoulli)
def _(p, q):
    softplus = fl.ops.aten.softplus
    success = _expected(p.probs, softplus(-q.logits) - softplus(-p.logits), q.probs)
    return success + _expected(1 - p.probs, softplus(q.logits) - softplus(p.logits), 1 - q.probs)


@_both(Categorical)
def _(p, q):
    return _expected(p.probs, p.logits - q.logits, q.probs).sum(-1)


@_both(Binomial)
def _(p, q):
    more = p.total_count - q.total_count
    if bool((more < 0).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    log_failures = ((-d.probs).log1p() for d in (p, q))
    one_trial = p.probs * (p.logits - q.logits) + next(log_failures) - next(log_failures)
    return (p.total_count * one_trial).where(more <= 0, math.inf)


@_both(Geometric)
def _(p, q):
    return -(-q.probs).log1p() / p.probs - q.logits - p.entropy()


@_both(Poisson)
def _(p, q):
    log_ratio = p.rate.log() - q.rate.log()
    return q.rate - p.rate + p.rate * log_ratio


@_both(ContinuousBernoulli)
def _(p, q):
    at_zero = (d._log_norm() + (-d.probs).log1p() for d in (p, q))  # the logarithms of the densities at 0
    return p.mean * (p.logits - q.logits) + next(at_zero) - next(at_zero)


@_both(Dirichlet)
def _(p, q):
    a, b = p.concentration, q.concentration
    mean_logs = a.digamma() - a.sum(-1, keepdim=True).digamma()
    return q._log_normalizer(b) - p._log_normalizer(a) + ((a - b) * mean_logs).sum(-1)


_both(Beta)(lambda p, q: kl_divergence(p._dirichlet, q._dirichlet))


@_both(Gamma)
def _(p, q):
    a, b = p.concentration, q.concentration
    shapes = b.lgamma() - a.lgamma() + (a - b) * a.digamma()
    return shapes + b * (p.rate / q.rate).log() + (q.rate - p.rate) * (a / p.rate)


@_both(Exponential)
def _(p, q):
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Exponential, Gamma)
def _(p, q):
    ratio, more = q.rate / p.rate, q.concentration - 1
    return (ratio - 1 - ratio.log()) + more * (_euler - ratio.log()) + q.concentration.lgamma()


@_both(Pareto)
def _(p, q):
    ratio = q.alpha / p.alpha
    kl = ratio - 1 - ratio.log() + q.alpha * (p.scale / q.scale).log()
    return kl.masked_fill(p.scale < q.scale, math.inf)


@_both(Uniform)
def _(p, q):
    outside = (p.low < q.low) | (p.high > q.high)
    return (q._width / p._width).log().masked_fill(outside, math.inf)


@_both(Cauchy)
def _(p, q):
    squares = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return squares.log() - (4 * p.scale * q.scale).log()


@_both(Laplace)
def _(p, q):
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return ratio * (-apart / p.scale).exp() + apart / q.scale - ratio.log() - 1


@_both(Gumbel)
def _(p, q):
    ratio, apart = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return apart - ratio.log() + _euler * (ratio - 1) - 1 + ((1 + ratio).lgamma() - apart).exp()


@_both(Normal)
def _(p, q):
    ratio, apart = (p.scale / q.scale).square(), ((p.loc - q.loc) / q.scale).square()
    return 0.5 * (ratio + apart - 1 - ratio.log())


# ---- normal distributions over vectors: half of trace(C_q^-1 C_p) - n, the distance of the means, and log det


def _square_sum(matrix):
    return matrix.square().sum((-2, -1))


def _full_roots(p):
    """Matrices whose products with their own transposes add up to the covariance."""
    if isinstance(p, MultivariateNormal):
        return [p._unbroadcasted_scale_tril]
    return [p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()]


def _trace(q, root):
    """trace(C_q^-1 R R^T)"""
    if isinstance(q, MultivariateNormal):
        tril = q._unbroadcasted_scale_tril
        batch = fl.broadcast_shapes(tril.shape[:-2], root.shape[:-2])
        return _square_sum(_solve_lower(*(x.expand(batch + x.shape[-2:]) for x in (tril, root))))
    scaled = root * q._unbroadcasted_cov_diag.rsqrt()[..., None]
    return _square_sum(scaled) - _square_sum(q._woodbury.subtracted() @ root)


def _normal_vectors(text):
    def kl(p, q):
        if p.event_shape != q.event_shape:
            raise ValueError(f"KL-divergence between two {text}s with different event shapes cannot be computed")
        trace = sum(_trace(q, root) for root in _full_roots(p))
        apart = q._squared_distance(q.loc - p.loc)
        return q._half_log_det - p._half_log_det + 0.5 * (trace + apart - p.event_shape[0])

    return kl


for _p, _q, _text in (
    (MultivariateNormal, MultivariateNormal, "Multivariate Normal"),
    (LowRankMultivariateNormal, LowRankMultivariateNormal, "Low Rank Multivariate Normal"),
    (MultivariateNormal, LowRankMultivariateNormal, "(Low Rank) Multivariate Normal"),
    (LowRankMultivariateNormal, MultivariateNormal, "(Low Rank) Multivariate Normal"),
):
    register_kl(_p, _q)(_normal_vectors(_text))


# ---- p with mass where q has none: infinite, in the shape of the named parameter of p


for _p, _name, _qs in (
    (Beta, "concentration1", (Pareto,)),
    (ContinuousBernoulli, "probs", (Pareto,)),
    (Exponential, "rate", (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gamma, "concentration", (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gumbel, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Laplace, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Normal, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Pareto, "scale", (Beta, ContinuousBernoulli, Uniform)),
    (Poisson, "rate", (Bernoulli, Binomial)),
):
    for _q in _qs:
        register_kl(_p, _q)(lambda p, q, name=_name: fl.full_like(getattr(p, name), math.inf))


# ---- the other pairs: KL(p || q) = -H(p) - E[log q(x)], with expectations under p


class _Mean:
    """Expectations under p."""

    def __init__(self, p):
        self.p = p

    def x(self):
        return self.p.mean

    def square(self):
        return self.p.variance + self.p.mean.square()


class _BetaMean(_Mean):
    def log(self):
        a, b = self.p.concentration1, self.p.concentration0
        return a.digamma() - (a + b).digamma()


class _GammaMean(_Mean):
    def log(self):
        return self.p.concentration.digamma() - self.p.rate.log()

    def exp(self, shift, t):
        """E[exp(shift - t x)]"""
        return shift.exp() * (1 + t / self.p.rate) ** -self.p.concentration


class _ExponentialMean(_Mean):
    def exp(self, shift, t):
        return shift.exp() * self.p.rate / (self.p.rate + t)


class _NormalMean(_Mean):
    def exp(self, shift, t):
        return (shift - t * self.p.loc + 0.5 * (t * self.p.scale).square()).exp()

    def distance(self, point):
        """E|x - point|"""
        off = self.p.loc - point
        z = off / self.p.scale / math.sqrt(2)
        return math.sqrt(2 / math.pi) * self.p.scale * (-z.square()).exp() + off * z.erf()


class _ParetoMean(_Mean):
    def x(self):
        return self.p.alpha * self.p.scale / (self.p.alpha - 1)

    def square(self):
        return self.p.alpha * self.p.scale.square() / (self.p.alpha - 2)

    def log(self):
        return self.p.scale.log() + self.p.alpha.reciprocal()


class _UniformMean(_Mean):
    @staticmethod
    def _log_between(low, high):
        return (fl.xlogy(high, high) - fl.xlogy(low, low)) / (high - low) - 1

    def log(self):
        return self._log_between(self.p.low, self.p.high)

    def log_rest(self):
        """E[log(1 - x)]"""
        return self._log_between(1 - self.p.high, 1 - self.p.low)

    def exp(self, shift, t):
        return ((shift - t * self.p.low).exp() - (shift - t * self.p.high).exp()) / (t * self.p._width)


# -E[log q(x)]
_CROSS = {
    Poisson: lambda q, mean: q.rate - mean.x() * q.rate.log(),  # for x of 0 or 1
    Exponential: lambda q, mean: q.rate * mean.x() - q.rate.log(),
    Uniform: lambda q, mean: q.entropy(),
    ContinuousBernoulli: lambda q, mean: -mean.x() * q.logits - (-q.probs).log1p() - q._log_norm(),
    Laplace: lambda q, mean: (2 * q.scale).log() + mean.distance(q.loc) / q.scale,
    Pareto: lambda q, mean: (q.alpha + 1) * mean.log() - (q.alpha * q.scale**q.alpha).log(),
}


def _cross(family):
    return lambda function: _CROSS.setdefault(family, function)


@_cross(Normal)
def _(q, mean):
    spread = mean.square() - 2 * mean.x() * q.loc + q.loc.square()
    return q.scale.log() + 0.5 * math.log(2 * math.pi) + 0.5 * spread / q.scale.square()


@_cross(Gamma)
def _(q, mean):
    c, rate = q.concentration, q.rate
    return c.lgamma() - c * rate.log() - (c - 1) * mean.log() + rate * mean.x()


@_cross(Beta)
def _(q, mean):
    a, b = q.concentration1, q.concentration0
    return q._log_normalizer(a, b) - (a - 1) * mean.log() - (b - 1) * mean.log_rest()


@_cross(Gumbel)
def _(q, mean):
    t = q.scale.reciprocal()
    shift = q.loc * t
    return q.scale.log() + mean.x() * t - shift + mean.exp(shift, t)


def _never(p, q):
    return None


def _register_cross(p_kind, q_kind, mean, infinite):
    cross = _CROSS[q_kind]

    def kl(p, q):
        value, beyond = cross(q, mean(p)) - p.entropy(), infinite(p, q)
        return value if beyond is None else value.where(~beyond, math.inf)

    register_kl(p_kind, q_kind)(kl)


# p, its expectations, and the q there are, each with where the divergence is infinite.
_PAIRS = (
    (Bernoulli, _Mean, {Poisson: _never}),
    (Beta, _BetaMean, {
        ContinuousBernoulli: _never, Exponential: _never, Gamma: _never, Normal: _never,
        Uniform: lambda p, q: (q.low > 0) | (q.high < 1),
    }),
    (ContinuousBernoulli, _Mean, {
        Exponential: _never, Normal: _never, Uniform: lambda p, q: (q.low >= 0) | (q.high <= 1),
    }),
    (Exponential, _ExponentialMean, {Gumbel: _never, Normal: _never}),
    (Gamma, _GammaMean, {Exponential: _never, Gumbel: _never, Normal: _never}),
    (Gumbel, _Mean, {Normal: _never}),
    (Laplace, _Mean, {Normal: _never}),
    (Normal, _NormalMean, {Gumbel: _never, Laplace: _never}),
    (Pareto, _ParetoMean, {
        Exponential: lambda p, q: p.alpha <= 1, Gamma: lambda p, q: p.alpha <= 1, Normal: lambda p, q: p.alpha <= 2,
    }),
    (Uniform, _UniformMean, {
        Beta: lambda p, q: (p.low < 0) | (p.high > 1),
        ContinuousBernoulli: lambda p, q: (p.low <= 0) | (p.high >= 1),
        Exponential: lambda p, q: p.low < 0,
        Gamma: lambda p, q: p.low < 0,
        Gumbel: _never, Normal: _never,
        Pareto: lambda p, q: p.low < q.scale,
    }),
)  # fmt: skip
for _p, _mean, _conditions in _PAIRS:
    for _q, _infinite in _conditions.items():
        _register_cross(_p, _q, _mean, _infinite)
