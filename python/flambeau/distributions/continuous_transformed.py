"""Continuous distributions that are transformed others."""
import math

import flambeau as fl

from .constraints import greater_than_eq, nonnegative, positive, real, unit_interval
from .continuous import _LOC_SCALE, Cauchy, Exponential, Gamma, Normal, Uniform
from .formulas import checked, moment, overall, region
from .transformed import TransformedDistribution, _delegated
from .transforms import AbsTransform, AffineTransform, ExpTransform, PowerTransform
from .utils import _kind, broadcast_all, euler_constant


class _Derived(TransformedDistribution):
    """A transformed distribution of another family, which `_derive` makes of the parameters."""

    has_rsample = True

    def _derive(self, base, *transforms, validate_args):
        TransformedDistribution.__init__(self, base, list(transforms), validate_args=validate_args)

    def _hold(self, **params):
        """Broadcasts and keeps parameters that the base does not have; returns them."""
        values = broadcast_all(*params.values())
        vars(self).update(zip(params, values))
        return values


class LogNormal(_Derived, params=_LOC_SCALE):
    """The exponential of a normal variable."""

    support = positive
    loc, scale = map(_delegated, ("loc", "scale"))
    mean = moment(lambda loc, scale: (loc + scale.square() / 2).exp())
    mode = moment(lambda loc, scale: (loc - scale.square()).exp())
    variance = moment(lambda loc, scale: scale.square().expm1() * (2 * loc + scale.square()).exp())
    entropy = overall(lambda base_dist: base_dist.entropy() + base_dist.loc)

    def __init__(self, loc, scale, validate_args=None):
        self._derive(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)


class _Half(_Derived):
    """The absolute value of a distribution that is symmetric around zero: twice its density, on one side."""

    support = nonnegative
    scale = _delegated("scale")
    mode = moment(lambda scale: fl.zeros_like(scale))
    cdf = checked(lambda x, base_dist: 2 * base_dist.cdf(x) - 1, "cdf")
    entropy = overall(lambda base_dist: base_dist.entropy() - math.log(2))

    def __init__(self, scale, validate_args=None):
        whole = self._symmetric(0, scale, validate_args=False)
        self._derive(whole, AbsTransform(), validate_args=validate_args)

    @checked
    def log_prob(x, scale, base_dist):
        x = fl.as_tensor(x, **_kind(scale))
        return fl.where(x < 0, -math.inf, base_dist.log_prob(x) + math.log(2))

    def icdf(self, prob):
        return self.base_dist.icdf((1 + prob) / 2)


class HalfNormal(_Half, params={"scale": positive}):
    """The absolute value of a normal variable around zero."""

    _symmetric = Normal
    mean = moment(lambda scale: math.sqrt(2 / math.pi) * scale)
    variance = moment(lambda scale: (1 - 2 / math.pi) * scale.square())


class HalfCauchy(_Half, params={"scale": positive}):
    """The absolute value of a Cauchy variable around zero."""

    _symmetric = Cauchy
    mean = variance = moment(lambda scale: fl.full_like(scale, math.inf))


class InverseGamma(_Derived, params={"concentration": positive, "rate": positive}):
    """The reciprocal of a gamma variable."""

    support = positive
    concentration, rate = map(_delegated, ("concentration", "rate"))
    mode = moment(lambda concentration, rate: rate / (1 + concentration))

    def __init__(self, concentration, rate, validate_args=None):
        base = Gamma(concentration, rate, validate_args=validate_args)
        self._derive(base, PowerTransform(base.rate.new_full((), -1.0)), validate_args=validate_args)

    @moment
    def mean(concentration, rate):
        return fl.where(concentration > 1, rate / (concentration - 1), math.inf)

    @moment
    def variance(concentration, rate):
        less = concentration - 1
        return fl.where(concentration > 2, (rate / less).square() / (less - 1), math.inf)

    @overall
    def entropy(concentration, rate):
        return concentration + rate.log() + concentration.lgamma() - (1 + concentration) * concentration.digamma()


class Gumbel(_Derived, params=_LOC_SCALE):
    """The largest of many exponential-tailed variables."""

    support = real
    mean = moment(lambda loc, scale: loc + scale * euler_constant)
    mode = moment(lambda loc: loc)
    stddev = moment(lambda scale: math.pi / math.sqrt(6) * scale)
    variance = moment(lambda stddev: stddev.square())
    entropy = overall(lambda scale: scale.log() + (1 + euler_constant))

    def __init__(self, loc, scale, validate_args=None):
        loc, scale = self._hold(loc=loc, scale=scale)
        info = fl.finfo(loc.dtype)
        open_unit = Uniform(*(fl.full_like(loc, x) for x in (info.tiny, 1 - info.eps)), validate_args=validate_args)
        # x = loc - scale * log(-log(u))
        log, minus = ExpTransform().inv, AffineTransform(0, -fl.ones_like(scale))
        self._derive(open_unit, log, minus, log, AffineTransform(loc, -scale), validate_args=validate_args)

    @checked
    def log_prob(x, loc, scale):
        z = (loc - x) / scale
        return z - z.exp() - scale.log()


class Kumaraswamy(_Derived, params={"concentration1": positive, "concentration0": positive}):
    """A relative of the beta distribution with a closed-form cdf."""

    support = unit_interval
    mean = property(lambda self: self._moment(1))
    variance = property(lambda self: self._moment(2) - self._moment(1).square())

    def __init__(self, concentration1, concentration0, validate_args=None):
        a, b = self._hold(concentration1=concentration1, concentration0=concentration0)
        unit = Uniform(fl.zeros_like(b), fl.ones_like(b), validate_args=validate_args)
        # x = (1 - u^(1/b))^(1/a)
        roots = (PowerTransform(x.reciprocal()) for x in (b, a))
        self._derive(unit, next(roots), AffineTransform(1.0, -1.0), next(roots), validate_args=validate_args)

    def _moment(self, n):
        """E[x^n] = b Beta(1 + n / a, b)"""
        b, m = self.concentration0, 1 + n / self.concentration1
        return b * (m.lgamma() + b.lgamma() - (m + b).lgamma()).exp()

    @moment
    def mode(concentration1, concentration0):
        log_mode = (-concentration0).log1p() / concentration0 - (-concentration0 * concentration1).log1p()
        return log_mode.exp().masked_fill((concentration0 < 1) | (concentration1 < 1), math.nan)

    @overall
    def entropy(concentration1, concentration0):
        harmonic = (concentration0 + 1).digamma() + euler_constant
        logs = concentration1.log() + concentration0.log()
        return (1 - concentration0.reciprocal()) + (1 - concentration1.reciprocal()) * harmonic - logs


class Pareto(_Derived, params={"alpha": positive, "scale": positive}):
    """A power law above `scale`."""

    support = region(lambda scale: greater_than_eq(scale), is_discrete=False, event_dim=0)
    mode = moment(lambda scale: scale)
    entropy = overall(lambda scale, alpha: (scale / alpha).log() + (1 + alpha.reciprocal()))

    def __init__(self, scale, alpha, validate_args=None):
        scale, alpha = self._hold(scale=scale, alpha=alpha)
        base = Exponential(alpha, validate_args=validate_args)
        self._derive(base, ExpTransform(), AffineTransform(0, scale), validate_args=validate_args)

    @moment
    def mean(scale, alpha):
        a = alpha.clamp(min=1)  # infinite below
        return a * scale / (a - 1)

    @moment
    def variance(scale, alpha):
        a = alpha.clamp(min=2)  # infinite below
        return a * scale.square() / ((a - 1).square() * (a - 2))


class Weibull(
    _Derived, params={"scale": positive, "concentration": positive}, store=("concentration_reciprocal",)
):
    """A power of an exponential variable."""

    support = positive
    mean = property(lambda self: self._moment(1))
    variance = property(lambda self: self._moment(2) - self._moment(1).square())

    def __init__(self, scale, concentration, validate_args=None):
        scale, concentration = self._hold(scale=scale, concentration=concentration)
        root = self.concentration_reciprocal = concentration.reciprocal()
        unit = Exponential(fl.ones_like(scale), validate_args=validate_args)
        self._derive(unit, PowerTransform(root), AffineTransform(0, scale), validate_args=validate_args)

    def _moment(self, n):
        """E[x^n] = scale^n Gamma(1 + n / concentration)"""
        return self.scale**n * (1 + n * self.concentration_reciprocal).lgamma().exp()

    @moment
    def mode(scale, concentration, concentration_reciprocal):
        return scale * (1 - concentration_reciprocal) ** concentration_reciprocal

    @overall
    def entropy(scale, concentration_reciprocal):
        return 1 + euler_constant * (1 - concentration_reciprocal) + (scale * concentration_reciprocal).log()
