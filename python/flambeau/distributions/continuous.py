"""Continuous distributions over numbers."""
import math

import flambeau as fl

from .constraints import greater_than, interval, less_than, nonnegative, positive, real, unit_interval
from .distribution import Distribution, ExponentialFamily
from .formulas import at, checked, moment, overall, region
from .multivariate import Dirichlet
from .utils import _kind, _standard_normal, broadcast_all, lazy_property

_LOC_SCALE = {"loc": real, "scale": positive}
_LOG_PI = math.log(math.pi)
_LOG_2PI = math.log(2 * math.pi)
_LOG_ROOT_2PI = math.log(math.sqrt(2 * math.pi))


def _uniform(self, like, sample_shape):
    """Uniform numbers from [0, 1) in the shape of a sample."""
    return fl.rand(self._extended_shape(sample_shape), **_kind(like))


class _LocScale(Distribution):
    """Given by a location and a positive scale; x = loc + scale * z for a variable z without parameters."""

    support = real
    has_rsample = True
    mean = mode = moment(lambda loc: loc)

    def __init__(self, loc, scale, validate_args=None):
        self._begin(validate_args, loc=loc, scale=scale)

    def _constant(self, value):
        return fl.full_like(self.loc, value)

    def rsample(self, sample_shape=fl.Size()):
        return self.loc + self._standard(self._extended_shape(sample_shape)) * self.scale


class Normal(_LocScale, ExponentialFamily, params=_LOC_SCALE):
    """The normal distribution with mean `loc` and standard deviation `scale`."""

    stddev = moment(lambda scale: scale)
    variance = moment(lambda stddev: stddev.square())
    log_prob = checked(
        lambda x, loc, variance, scale: -(x - loc).square() / (2 * variance) - scale.log() - _LOG_ROOT_2PI
    )
    cdf = checked(lambda x, loc, scale: 0.5 * (1 + ((x - loc) * scale.reciprocal() / math.sqrt(2)).erf()), "cdf")
    icdf = at(lambda p, loc, scale: loc + scale * (2 * p - 1).erfinv() * math.sqrt(2))
    entropy = overall(lambda scale: 0.5 + 0.5 * _LOG_2PI + scale.log())
    _natural_params = moment(lambda loc, variance: (loc / variance, -0.5 / variance))

    def __init__(self, loc, scale, validate_args=None):
        self._begin(validate_args, loc=loc, scale=scale)

    def _standard(self, shape):
        return _standard_normal(shape, **_kind(self.loc))

    def sample(self, sample_shape=fl.Size()):
        shape = self._extended_shape(sample_shape)
        with fl.no_grad():
            return fl.normal(*(x.expand(shape) for x in (self.loc, self.scale)))

    def _log_normalizer(self, x, y):
        return 0.5 * (-math.pi / y).log() - 0.25 * x.square() / y


class Laplace(_LocScale, params=_LOC_SCALE):
    """Density exp(-|x - loc| / scale) / (2 scale)."""

    stddev = moment(lambda scale: math.sqrt(2) * scale)
    variance = moment(lambda scale: 2 * scale.square())
    log_prob = checked(lambda x, loc, scale: -(2 * scale).log() - (x - loc).abs() / scale)
    entropy = overall(lambda scale: (2 * scale).log() + 1)

    def _standard(self, shape):
        gap = fl.finfo(self.loc.dtype).eps
        return self._quantile(fl.empty(shape, **_kind(self.loc)).uniform_(gap - 1, 1))

    @staticmethod
    def _quantile(u):
        """The value below which a share (1 + u) / 2 lies, for loc 0 and scale 1."""
        return -u.sign() * (-u.abs()).log1p()

    @checked
    def cdf(x, loc, scale):
        off = x - loc
        return 0.5 - 0.5 * off.sign() * (-off.abs() / scale).expm1()

    def icdf(self, value):
        return self.loc + self.scale * self._quantile(2 * (value - 0.5))


class Cauchy(_LocScale, params=_LOC_SCALE):
    """The ratio of two normal variables, moved and scaled; it has no moments."""

    mean = property(lambda self: self._constant(math.nan))
    variance = property(lambda self: self._constant(math.inf))
    log_prob = checked(lambda x, loc, scale: -_LOG_PI - scale.log() - ((x - loc) / scale).square().log1p())
    cdf = checked(lambda x, loc, scale: ((x - loc) / scale).atan() / math.pi + 0.5, "cdf")
    icdf = at(lambda p, loc, scale: loc + scale * (math.pi * (p - 0.5)).tan())
    entropy = overall(lambda scale: math.log(4 * math.pi) + scale.log())

    def _standard(self, shape):
        return fl.empty(shape, **_kind(self.loc)).cauchy_()


class StudentT(_LocScale, params={"df": positive, **_LOC_SCALE}):
    """Student's t distribution with `df` degrees of freedom, moved and scaled."""

    mean = moment(lambda loc, df: loc.masked_fill(df <= 1, math.nan))

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        df, loc, scale = broadcast_all(df, loc, scale)
        Chi2(df)  # whose parameter it is: a bad one is its error
        self._begin(validate_args, df=df, loc=loc, scale=scale)

    @moment
    def variance(df, scale):
        finite = fl.where(df > 2, scale.square() * df / (df - 2), math.inf)
        return finite.masked_fill(df <= 1, math.nan)

    def _standard(self, shape):
        normal = _standard_normal(shape, **_kind(self.df))
        squares = Chi2(self.df, validate_args=False).rsample(shape[: len(shape) - self.df.dim()])
        return normal * (squares / self.df).rsqrt()

    @checked
    def log_prob(x, df, loc, scale):
        half, more = 0.5 * df, 0.5 * (df + 1)
        log_norm = scale.log() + 0.5 * df.log() + 0.5 * _LOG_PI + half.lgamma() - more.lgamma()
        return -more * (((x - loc) / scale).square() / df).log1p() - log_norm

    @overall
    def entropy(df, scale):
        half, more = 0.5 * df, 0.5 * (df + 1)
        log_beta = half.lgamma() + math.lgamma(0.5) - more.lgamma()
        return scale.log() + more * (more.digamma() - half.digamma()) + 0.5 * df.log() + log_beta


class Uniform(Distribution, params={"low": 0, "high": 0}):
    """Uniform on [low, high)."""

    has_rsample = True
    support = region(lambda low, high: interval(low, high), is_discrete=False, event_dim=0)
    arg_constraints = moment(lambda low, high: {"low": less_than(high), "high": greater_than(low)})
    _width = moment(lambda low, high: high - low)
    mean = moment(lambda low, high: (low + high) / 2)
    mode = moment(lambda high: high * math.nan)
    stddev = moment(lambda _width: _width / math.sqrt(12))
    variance = moment(lambda _width: _width.square() / 12)
    cdf = checked(lambda x, low, _width: ((x - low) / _width).clamp(0, 1), "cdf")
    icdf = at(lambda p, low, _width: low + p * _width)
    entropy = overall(lambda _width: _width.log())

    def __init__(self, low, high, validate_args=None):
        self._begin(validate_args, low=low, high=high)

    def rsample(self, sample_shape=fl.Size()):
        return self.icdf(_uniform(self, self.low, sample_shape))

    @checked
    def log_prob(x, low, high):
        inside = (low <= x) & (x < high)
        return inside.type_as(low).log() - (high - low).log()


class Exponential(ExponentialFamily, params={"rate": positive}):
    """Waiting times of events that come at `rate`."""

    support = nonnegative
    has_rsample = True
    mean = stddev = moment(lambda rate: rate.reciprocal())
    mode = moment(lambda rate: fl.zeros_like(rate))
    variance = moment(lambda rate: rate**-2)
    log_prob = checked(lambda x, rate: rate.log() - rate * x)
    cdf = checked(lambda x, rate: 1 - (-rate * x).exp(), "cdf")
    icdf = at(lambda p, rate: -(-p).log1p() / rate)
    entropy = overall(lambda rate: 1 - rate.log())
    _natural_params = moment(lambda rate: (-rate,))

    def __init__(self, rate, validate_args=None):
        self._begin(validate_args, rate=rate)

    def rsample(self, sample_shape=fl.Size()):
        unit = fl.empty(self._extended_shape(sample_shape), **_kind(self.rate)).exponential_()
        return unit / self.rate

    def _log_normalizer(self, x):
        return -(-x).log()


def _positive_(x):
    """x, with zeros (where a density may be infinite) made the smallest positive number, unseen by autograd."""
    x.detach().clamp_(min=fl.finfo(x.dtype).tiny)
    return x


class Gamma(ExponentialFamily, params={"concentration": positive, "rate": positive}):
    """The gamma distribution with shape `concentration` and inverse scale `rate`."""

    support = nonnegative
    has_rsample = True
    mean = moment(lambda concentration, rate: concentration / rate)
    mode = moment(lambda concentration, rate: ((concentration - 1) / rate).clamp(min=0))
    variance = moment(lambda concentration, rate: concentration / rate.square())
    cdf = checked(lambda x, concentration, rate: fl.special.gammainc(concentration, rate * x), "cdf")
    _natural_params = moment(lambda concentration, rate: (concentration - 1, -rate))

    def __init__(self, concentration, rate, validate_args=None):
        self._begin(validate_args, concentration=concentration, rate=rate)

    def rsample(self, sample_shape=fl.Size()):
        shape = self._extended_shape(sample_shape)
        return _positive_(fl._standard_gamma(self.concentration.expand(shape)) / self.rate)

    def log_prob(self, value):
        value = fl.as_tensor(value, **_kind(self.rate))
        return self._log_density(value)

    _log_density = checked(
        lambda x, concentration, rate: (
            fl.xlogy(concentration, rate) + fl.xlogy(concentration - 1, x) - rate * x - concentration.lgamma()
        )
    )
    entropy = overall(lambda concentration, rate: (
        concentration - rate.log() + concentration.lgamma() + (1 - concentration) * concentration.digamma()
    ))  # fmt: skip

    def _log_normalizer(self, x, y):
        shape = x + 1
        return shape.lgamma() + shape * (-y.reciprocal()).log()


class Chi2(Gamma, params={"df": positive}, store=("concentration", "rate")):
    """The sum of the squares of `df` standard normal variables."""

    df = moment(lambda concentration: 2 * concentration)

    def __init__(self, df, validate_args=None):
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)


class FisherSnedecor(Distribution, params={"df1": positive, "df2": positive}):
    """The ratio of two chi-squared variables, each divided by its degrees of freedom."""

    support = positive
    has_rsample = True

    def __init__(self, df1, df2, validate_args=None):
        self._begin(validate_args, df1=df1, df2=df2)

    @moment
    def mean(df2):
        enough = df2.masked_fill(df2 <= 2, math.nan)
        return enough / (enough - 2)

    @moment
    def mode(df1, df2):
        return ((df1 - 2) / df1 * df2 / (df2 + 2)).masked_fill(df1 <= 2, math.nan)

    @moment
    def variance(df1, df2):
        m = df2.masked_fill(df2 <= 4, math.nan)
        return 2 * m.square() * (df1 + m - 2) / (df1 * (m - 2).square() * (m - 4))

    def rsample(self, sample_shape=fl.Size()):
        # a chi-squared variable of n degrees, divided by n, is Gamma(n / 2, n / 2); the common factor 2 drops out
        over, under = (Gamma(0.5 * df, df, validate_args=False).rsample(sample_shape) for df in (self.df1, self.df2))
        tiny = fl.finfo(under.dtype).tiny
        return over.div(under.clamp_(min=tiny)).clamp_(min=tiny)

    @checked
    def log_prob(x, df1, df2):
        a, b, ratio = 0.5 * df1, 0.5 * df2, df1 / df2
        log_norm = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return log_norm + (a * ratio.log() + (a - 1) * x.log()) - (a + b) * (ratio * x).log1p()


class Beta(ExponentialFamily, params={"concentration1": positive, "concentration0": positive}, nested=("_dirichlet",)):
    """The beta distribution on (0, 1): the first part of a Dirichlet variable of two."""

    support = unit_interval
    has_rsample = True
    concentration1, concentration0 = (
        property(lambda self, i=i: self._dirichlet.concentration[..., i]) for i in range(2)
    )
    mean = moment(lambda concentration1, concentration0: concentration1 / (concentration1 + concentration0))
    mode = moment(lambda _dirichlet: _dirichlet.mode[..., 0])
    log_prob = checked(lambda x, _dirichlet: _dirichlet.log_prob(fl.stack([x, 1 - x], -1)))
    entropy = overall(lambda _dirichlet: _dirichlet.entropy())
    _natural_params = moment(lambda concentration1, concentration0: (concentration1, concentration0))

    def __init__(self, concentration1, concentration0, validate_args=None):
        both = fl.stack(broadcast_all(concentration1, concentration0), -1)
        if not both.is_floating_point():
            both = both.to(fl.get_default_dtype())
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(both.shape[:-1], validate_args=validate_args)

    @moment
    def variance(concentration1, concentration0):
        total = concentration1 + concentration0
        return concentration1 * concentration0 / (total.square() * (total + 1))

    def rsample(self, sample_shape=()):
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def _log_normalizer(self, x, y):
        return x.lgamma() + y.lgamma() - (x + y).lgamma()


class GeneralizedPareto(_LocScale, params={**_LOC_SCALE, "concentration": real}):
    """Excesses over a threshold `loc`; the tail's weight is `concentration` (0: exponential)."""

    support = region(lambda loc, _most: interval(loc, _most), is_discrete=False, event_dim=0)
    log_cdf = at(lambda x, log_survival_function: (-log_survival_function(x).exp()).log1p(), "log_cdf")
    cdf = at(lambda x, log_cdf: log_cdf(x).exp(), "cdf")
    entropy = overall(lambda scale, concentration: scale.log() + concentration + 1)

    def __init__(self, loc, scale, concentration, validate_args=None):
        self._begin(validate_args, loc=loc, scale=scale, concentration=concentration)

    @moment
    def _most(loc, scale, concentration):
        return fl.where(concentration < 0, loc - scale / concentration, math.inf)

    def _below(self, bound, finite, elsewhere):
        """finite(concentration) where the concentration is below `bound`, else infinite."""
        valid = self.concentration < bound
        return fl.where(valid, finite(fl.where(valid, self.concentration, elsewhere)), math.inf)

    @property
    def mean(self):
        return self._below(1.0, lambda c: self.loc + self.scale / (1 - c), 0.5)

    @property
    def variance(self):
        return self._below(0.5, lambda c: self.scale.square() / ((1 - c).square() * (1 - 2 * c)), 0.25)

    @property
    def _tail(self):
        """Where the tail is exponential, and a concentration that can be divided by."""
        zero = fl.isclose(self.concentration, fl.zeros_like(self.concentration))
        return zero, self.concentration.masked_fill(zero, 1.0)

    def rsample(self, sample_shape=fl.Size()):
        return self.icdf(_uniform(self, self.loc, sample_shape))

    @checked
    def log_prob(x, loc, scale, _tail):
        (zero, c), z = _tail, (x - loc) / scale
        return fl.where(zero, -z, -(1 + 1 / c) * (c * z).log1p()) - scale.log()

    @checked
    def log_survival_function(x, loc, scale, _tail):
        """log(1 - cdf)"""
        (zero, c), z = _tail, (x - loc) / scale
        return fl.where(zero, -z, -(c * z).log1p() / c)

    @at
    def icdf(p, loc, scale, _tail):
        (zero, c), log_rest = _tail, (-p).log1p()
        return loc + fl.where(zero, -scale * log_rest, scale / c * (-c * log_rest).expm1())


# Abramowitz and Stegun 9.8.1 to 9.8.4: Bessel functions I0 and I1 for |x| below and above 3.75.
_BESSEL = {
    0: (
        (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.360768e-1, 0.45813e-2),
        (0.39894228, 0.1328592e-1, 0.225319e-2, -0.157565e-2, 0.916281e-2, -0.2057706e-1, 0.2635537e-1, -0.1647633e-1,
         0.392377e-2),
    ),
    1: (
        (0.5, 0.87890594, 0.51498869, 0.15084934, 0.2658733e-1, 0.301532e-2, 0.32411e-3),
        (0.39894228, -0.3988024e-1, -0.362018e-2, 0.163801e-2, -0.1031555e-1, 0.2282967e-1, -0.2895312e-1, 0.1787654e-1,
         -0.420059e-2),
    ),
}  # fmt: skip


def _polynomial(x, coefficients):
    """Coefficients from the constant one up, by Horner's rule."""
    *lower, total = coefficients
    while lower:
        total = lower.pop() + x * total
    return total


def _log_modified_bessel_fn(x, order=0):
    """The logarithm of the modified Bessel function of the first kind, of order 0 or 1, for positive x."""
    near, far = _BESSEL[order]
    t = x / 3.75
    small = _polynomial(t.square(), near) * x.abs() ** order
    large = x - 0.5 * x.log() + _polynomial(3.75 / x, far).log()
    return fl.where(x < 3.75, small.log(), large)


class VonMises(Distribution, params={"loc": real, "concentration": positive}):
    """The normal distribution's cousin on the circle; angles in (-pi, pi]."""

    support = real
    mean = mode = moment(lambda loc: loc)
    log_prob = checked(lambda x, loc, concentration: (
        concentration * (x - loc).cos() - _LOG_2PI - _log_modified_bessel_fn(concentration, 0)
    ))  # fmt: skip

    def __init__(self, loc, concentration, validate_args=None):
        self._begin(validate_args, loc=loc, concentration=concentration)

    @lazy_property
    def variance(self):
        """The circular variance."""
        log_i0, log_i1 = (_log_modified_bessel_fn(self.concentration, order) for order in range(2))
        return 1 - (log_i1 - log_i0).exp()

    @property
    def _proposal_r(self):
        """The parameter of Best and Fisher's envelope, a wrapped Cauchy density; by its series for small kappa."""
        kappa = self.concentration.double()
        tau = (4 * kappa.square() + 1).sqrt() + 1
        rho = (tau - (tau + tau).sqrt()) / (kappa + kappa)
        return fl.where(kappa < 1e-5, kappa + 1 / kappa, (rho.square() + 1) / (rho + rho))

    def sample(self, sample_shape=fl.Size()):
        """Best and Fisher's rejection from a wrapped Cauchy distribution, in double precision."""
        shape = self._extended_shape(sample_shape)
        with fl.no_grad():
            kappa, r = self.concentration.double(), self._proposal_r
            angle = fl.zeros(shape, dtype=fl.double, device=self.loc.device)
            waiting = fl.ones_like(angle, dtype=fl.bool)
            while bool(waiting.any()):
                u1, u2, u3 = fl.rand((3, *shape), dtype=fl.double, device=self.loc.device)
                z = (math.pi * u1).cos()
                cosine = (1 + r * z) / (r + z)
                c = kappa * (r - cosine)
                taken = (c * (2 - c) > u2) | ((c / u2).log() + 1 >= c)
                angle = fl.where(taken, (u3 - 0.5).sign() * cosine.acos(), angle)
                waiting = waiting & ~taken
            turned = (angle + math.pi + self.loc.double()) % (2 * math.pi) - math.pi
            return turned.to(self.loc.dtype)
