"""Discrete distributions, and the continuous ones that relax them."""
import math

import flambeau as fl

from . import constraints
from .constraints import (
    boolean, half_open_interval, integer_interval, nonnegative, nonnegative_integer, one_hot, real, unit_interval,
)  # fmt: skip
from .distribution import Distribution, ExponentialFamily, _told
from .formulas import checked, moment, overall, region
from .transformed import TransformedDistribution, _delegated
from .transforms import ExpTransform, SigmoidTransform
from .utils import _kind, broadcast_all, clamp_probs, lazy_property, logits_to_probs, probs_to_logits

_BINARY = {"probs": unit_interval, "logits": real}
_CLASSES = {"probs": constraints.simplex, "logits": constraints.real_vector}


def _cross_entropy(logits, target):
    return fl.binary_cross_entropy_with_logits(logits, target, None, None, 0)


def _given(probs, logits):
    """The name and the value of the one of the two that is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return ("logits", logits) if probs is None else ("probs", probs)


class _ProbsOrLogits(Distribution):
    """Parametrized by `probs` or by `logits`; the other one is computed when asked for."""

    _is_binary = True

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, self._is_binary)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits, self._is_binary)

    @property
    def _param(self):
        held = vars(self)
        return held["probs" if "probs" in held else "logits"]

    param_shape = property(lambda self: self._param.size(), doc="The shape of the parameter given.")

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)

    def _begin_with(self, probs, logits, validate_args, **others):
        """Stores the given one of the two, broadcast with other parameters, which take its dtype."""
        name, value = _given(probs, logits)
        *values, value = broadcast_all(*others.values(), value)
        vars(self).update(zip(others, (v.type_as(value) for v in values)))
        vars(self)[name] = value
        Distribution.__init__(self, value.size(), validate_args=validate_args)

    def _range(self, count, dtype=None):
        return fl.arange(count, **_kind(self._param) | ({"dtype": dtype} if dtype else {}))

    def _each(self, sample_shape, *params):
        """Parameters in the shape of a sample."""
        shape = self._extended_shape(sample_shape)
        return [p.expand(shape) for p in params]


class Bernoulli(_ProbsOrLogits, ExponentialFamily, params=_BINARY):
    """1 with probability `probs`, else 0."""

    support = boolean
    has_enumerate_support = True
    mean = moment(lambda probs: probs)
    variance = moment(lambda probs: probs * (1 - probs))
    log_prob = checked(lambda x, logits: -_cross_entropy(*broadcast_all(logits, x)))
    entropy = overall(lambda logits, probs: _cross_entropy(logits, probs))
    _natural_params = moment(lambda probs: (probs.logit(),))

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._begin_with(probs, logits, validate_args)

    @moment
    def mode(probs):
        return (probs > 0.5).to(probs).masked_fill(probs == 0.5, math.nan)

    def sample(self, sample_shape=fl.Size()):
        with fl.no_grad():
            return fl.bernoulli(*self._each(sample_shape, self.probs))

    def enumerate_support(self, expand=True):
        return self._along_batch(self._range(2), expand)

    def _log_normalizer(self, x):
        return x.exp().log1p()


class Geometric(_ProbsOrLogits, params=_BINARY):
    """The number of failures before the first success."""

    support = nonnegative_integer
    mean = moment(lambda probs: probs.reciprocal() - 1)
    mode = moment(lambda probs: fl.zeros_like(probs))
    variance = moment(lambda mean, probs: mean / probs)
    entropy = overall(lambda logits, probs: _cross_entropy(logits, probs) / probs)

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._begin_with(probs, logits, validate_args)
        if probs is None or not self._validate_args:
            return
        zero = ~(self.probs > 0)
        if bool(zero.any()):
            raise ValueError(
                f"Expected parameter {_told('probs', self.probs)} of distribution {self!r} to be positive but found "
                f"invalid values:\n{self.probs[zero]}"
            )

    def sample(self, sample_shape=fl.Size()):
        with fl.no_grad():
            (probs,) = self._each(sample_shape, self.probs)
            u = fl.empty(probs.shape, **_kind(probs))
            u.uniform_(fl.finfo(probs.dtype).tiny, 1)
            return (u.log() / (-probs).log1p()).floor()

    @checked
    def log_prob(x, probs):
        x, probs = broadcast_all(x, probs)
        # no failure of a certain success: 0 * log(0) is 0
        log_failure = (-probs.masked_fill((probs == 1) & (x == 0), 0)).log1p()
        return x * log_failure + probs.log()


class Binomial(_ProbsOrLogits, params={"total_count": nonnegative_integer, **_BINARY}):
    """The number of successes in `total_count` trials."""

    has_enumerate_support = True
    support = region(lambda total_count: integer_interval(0, total_count), is_discrete=True, event_dim=0)
    mean = moment(lambda total_count, probs: total_count * probs)
    mode = moment(lambda total_count, probs: ((total_count + 1) * probs).floor().clamp(max=total_count))
    variance = moment(lambda mean, probs: mean * (1 - probs))

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        self._begin_with(probs, logits, validate_args, total_count=total_count)

    def sample(self, sample_shape=fl.Size()):
        with fl.no_grad():
            return fl.binomial(*self._each(sample_shape, self.total_count, self.probs))

    @checked
    def log_prob(x, total_count, logits):
        # log(1 + exp(logits)) without overflow; the half sum keeps the gradient at zero
        above = (logits.clamp(min=0) + logits - logits.clamp(max=0)) / 2
        log_failures = total_count * above + total_count * (-logits.abs()).exp().log1p()
        log_orders = (total_count + 1).lgamma()
        return x * logits - (x + 1).lgamma() - (total_count - x + 1).lgamma() - (log_failures - log_orders)

    def _one_count(self, what):
        least, most = (int(x) for x in self.total_count.aminmax())
        if least != most:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{what}`.")
        return most

    def entropy(self):
        self._one_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand=True):
        return self._along_batch(self._range(1 + self._one_count("enumerate_support")), expand)


class NegativeBinomial(
    _ProbsOrLogits,
    params={"total_count": constraints.greater_than_eq(0), "probs": half_open_interval(0.0, 1.0), "logits": real},
):
    """The number of successes before `total_count` failures."""

    support = nonnegative_integer
    mean = moment(lambda total_count, logits: total_count * logits.exp())
    mode = moment(lambda total_count, logits: ((total_count - 1) * logits.exp()).floor().clamp(min=0))
    variance = moment(lambda mean, logits: mean / (-logits).sigmoid())

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        self._begin_with(probs, logits, validate_args, total_count=total_count)

    def sample(self, sample_shape=fl.Size()):
        """Poisson counts at rates that are gamma distributed."""
        with fl.no_grad():
            shapes, inverse_scales = self._each(sample_shape, self.total_count, (-self.logits).exp())
            rates = fl._standard_gamma(shapes) / inverse_scales
            return fl.poisson(rates.clamp(min=fl.finfo(rates.dtype).tiny))

    @checked
    def log_prob(x, total_count, logits):
        log_sigmoid, both = fl.ops.aten.log_sigmoid, total_count + x
        log_ways = both.lgamma() - (1 + x).lgamma() - total_count.lgamma()
        log_power = total_count * log_sigmoid(-logits) + x * log_sigmoid(logits)
        return log_power + log_ways.masked_fill(both == 0, 0)


class Poisson(ExponentialFamily, params={"rate": nonnegative}):
    """Counts of independent events that come at `rate`."""

    support = nonnegative_integer
    mean = variance = moment(lambda rate: rate)
    mode = moment(lambda rate: rate.floor())
    _natural_params = moment(lambda rate: (rate.log(),))

    def __init__(self, rate, validate_args=None):
        self._begin(validate_args, rate=rate)

    def sample(self, sample_shape=fl.Size()):
        with fl.no_grad():
            return fl.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    @checked
    def log_prob(x, rate):
        rate, x = broadcast_all(rate, x)
        return fl.xlogy(x, rate) - rate - (1 + x).lgamma()

    @property
    def _mean_carrier_measure(self):
        raise NotImplementedError  # E[log k!] has no closed form

    def _log_normalizer(self, x):
        return x.exp()


class Categorical(_ProbsOrLogits, params=_CLASSES, kept=("_num_events",)):
    """One of K classes, with probabilities along the last dimension."""

    has_enumerate_support = True
    _is_binary = False
    support = region(lambda _num_events: integer_interval(0, _num_events - 1), is_discrete=True, event_dim=0)
    mean = variance = property(lambda self: fl.full_like(self._param[..., 0], math.nan))
    mode = moment(lambda probs: probs.argmax(-1))

    def __init__(self, probs=None, logits=None, validate_args=None):
        name, value = _given(probs, logits)
        if value.dim() == 0:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if name == "probs":
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(-1, keepdim=True)
        self._num_events = value.shape[-1]
        super().__init__(value.shape[:-1], validate_args=validate_args)

    def sample(self, sample_shape=fl.Size()):
        sample_shape = fl.Size(sample_shape)
        draws = fl.multinomial(self.probs.reshape(-1, self._num_events), sample_shape.numel(), True)
        return draws.T.reshape(self._extended_shape(sample_shape))

    @checked
    def log_prob(x, logits):
        index = x.long().unsqueeze(-1)
        index, table = fl.broadcast_tensors(index, logits)
        return table.gather(-1, index[..., :1])[..., 0]

    @overall
    def entropy(logits, probs):
        finite = logits.clamp(min=fl.finfo(logits.dtype).min)
        return -(probs * finite).sum(-1)

    def enumerate_support(self, expand=True):
        return self._along_batch(self._range(self._num_events, fl.long), expand)


class _OverClasses(Distribution):
    """Over vectors with an element for each class of an inner Categorical, which holds the parameters."""

    probs, logits, param_shape, _param = (
        property(lambda self, name=name: getattr(self._categorical, name))
        for name in ("probs", "logits", "param_shape", "_param")
    )

    def _new(self, *args, **kwargs):
        return self._categorical._new(*args, **kwargs)

    def _begin_over(self, probs, logits, validate_args, **others):
        inner = self._categorical = Categorical(probs, logits)
        vars(self).update(others)
        Distribution.__init__(self, inner.batch_shape, inner.param_shape[-1:], validate_args=validate_args)


class OneHotCategorical(_OverClasses, params=_CLASSES, nested=("_categorical",)):
    """One of K classes as a one-hot vector."""

    support = one_hot
    has_enumerate_support = True
    mean = moment(lambda probs: probs)
    mode = property(lambda self: self._hot(self._categorical.mode))
    variance = moment(lambda probs: probs * (1 - probs))
    log_prob = checked(lambda x, _categorical: _categorical.log_prob(x.argmax(-1)))
    entropy = overall(lambda _categorical: _categorical.entropy())

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._begin_over(probs, logits, validate_args)

    def _hot(self, classes):
        return fl.ops.aten.one_hot(classes, self._event_shape[0]).to(self.probs)

    def sample(self, sample_shape=fl.Size()):
        return self._hot(self._categorical.sample(sample_shape))

    def enumerate_support(self, expand=True):
        unit = fl.eye(*self._event_shape, **_kind(self._param))
        return self._along_batch(unit, expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """A OneHotCategorical whose samples pass gradients straight to the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape=fl.Size()):
        through = self.probs - self.probs.detach()  # zeros that have the gradient of the probabilities
        return self.sample(sample_shape) + through


class Multinomial(_OverClasses, params=_CLASSES, nested=("_categorical", "_binomial"), kept=("total_count",)):
    """Counts of each of K classes in `total_count` draws."""

    support = region(lambda total_count: constraints.multinomial(total_count), is_discrete=True, event_dim=1)
    mean = moment(lambda probs, total_count: probs * total_count)
    variance = moment(lambda mean, probs: mean * (1 - probs))

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self._begin_over(probs, logits, validate_args, total_count=total_count)
        self._binomial = Binomial(total_count, self.probs)

    def sample(self, sample_shape=fl.Size()):
        sample_shape = fl.Size(sample_shape)
        draws = self._categorical.sample((self.total_count, *sample_shape))
        counts = draws.new_zeros(self._extended_shape(sample_shape))
        counts.scatter_add_(-1, draws.movedim(0, -1), fl.ones_like(draws).movedim(0, -1))
        return counts.type_as(self.probs)

    def entropy(self):
        """By E[log k_i!], where each count k_i alone is binomial."""
        n = fl.tensor(self.total_count)
        k = self._binomial.enumerate_support(expand=False)[1:]
        mean_log_factorials = (self._binomial.log_prob(k).exp() * (k + 1).lgamma()).sum([0, -1])
        return n * self._categorical.entropy() - (n + 1).lgamma() + mean_log_factorials

    @checked
    def log_prob(x, logits):
        logits, x = broadcast_all(logits, x)
        # an impossible class that was not drawn counts nothing
        powers = x * logits.masked_fill((x == 0) & logits.isneginf(), 0)
        return (x.sum(-1) + 1).lgamma() - (x + 1).lgamma().sum(-1) + powers.sum(-1)


class ContinuousBernoulli(_ProbsOrLogits, ExponentialFamily, params=_BINARY, kept=("_lims",)):
    """On [0, 1] with a density proportional to probs^x (1 - probs)^(1 - x).

    Between `lims` the closed forms lose their digits around probs = 1/2; Taylor series stand in there.
    """

    support = unit_interval
    has_rsample = True
    stddev = moment(lambda variance: variance.sqrt())

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        if probs is not None:
            (probs,) = broadcast_all(probs)
            if validate_args and not constraints._everywhere(unit_interval.check(probs)):
                raise ValueError("The parameter probs has invalid values")
            probs = clamp_probs(probs)
        self._lims = lims
        self._begin_with(probs, logits, validate_args)

    def _far(self, x, middle=0.0):
        """Where closed forms are used, and x with what is not there replaced by a value that harms no gradient."""
        low, high = (limit - middle for limit in self._lims)
        far = (x <= low) | (x > high)
        return far, fl.where(far, x, low)

    def _either(self, closed, series):
        """closed(p, log(1 - p) - log(p)) away from p = 1/2, and series(p - 1/2) around it."""
        far, p = self._far(self.probs)
        return fl.where(far, closed(p, (-p).log1p() - p.log()), series(self.probs - 0.5))

    def _log_norm(self):
        def closed(p, log_odds):
            return log_odds.abs().log() - (-2.0 * fl.minimum(p, 1.0 - p)).log1p()

        def series(x):
            x = x.square()
            return math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x

        return self._either(closed, series)

    @property
    def mean(self):
        return self._either(
            lambda p, log_odds: p / (2.0 * p - 1.0) + log_odds.reciprocal(),
            lambda x: 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.square()) * x,
        )

    @property
    def variance(self):
        return self._either(
            lambda p, log_odds: p * (p - 1.0) / (1.0 - 2.0 * p).square() + log_odds.square().reciprocal(),
            lambda x: 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x.square()) * x.square(),
        )

    def rsample(self, sample_shape=fl.Size()):
        shape = self._extended_shape(sample_shape)
        return self.icdf(fl.rand(shape, **_kind(self._param)))

    log_prob = checked(lambda x, logits, _log_norm: _log_norm() - _cross_entropy(*broadcast_all(logits, x)))

    def icdf(self, value):
        def closed(p, log_odds):
            low = (-p).log1p()
            return ((-p + value * (2.0 * p - 1.0)).log1p() - low) / (p.log() - low)

        return self._either(closed, lambda x: value)

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)

        def closed(p, log_odds):
            return (p**value * (1.0 - p) ** (1.0 - value) + p - 1.0) / (2.0 * p - 1.0)

        inside = self._either(closed, lambda x: value)
        return fl.where(value <= 0.0, 0.0, fl.where(value >= 1.0, 1.0, inside))

    @overall
    def entropy(mean, probs, _log_norm):
        log_not = (-probs).log1p()
        return mean * (log_not - probs.log()) - _log_norm() - log_not

    _natural_params = moment(lambda logits: (logits,))

    def _log_normalizer(self, x):
        """log of (exp(x) - 1) / x, near zero by its series"""
        far, safe = self._far(x, 0.5)
        square = x.square()
        near = 0.5 * x + square / 24.0 - square.square() / 2880.0
        return fl.where(far, safe.expm1().abs().log() - safe.abs().log(), near)


class LogitRelaxedBernoulli(_ProbsOrLogits, params=_BINARY, kept=("temperature",)):
    """The logit of a RelaxedBernoulli."""

    support = real

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        self._begin_with(probs, logits, validate_args)

    def rsample(self, sample_shape=fl.Size()):
        p = clamp_probs(*self._each(sample_shape, self.probs))
        u = clamp_probs(fl.rand(p.shape, **_kind(p)))
        return (u.log() - (-u).log1p() + p.log() - (-p).log1p()) / self.temperature

    @checked
    def log_prob(x, logits, temperature):
        logits, x = broadcast_all(logits, x)
        z = logits - temperature * x
        return temperature.log() + z - 2 * z.exp().log1p()


class ExpRelaxedCategorical(_OverClasses, params=_CLASSES, nested=("_categorical",), kept=("temperature",)):
    """The logarithm of a RelaxedOneHotCategorical."""

    support = constraints.real_vector
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self._begin_over(probs, logits, validate_args, temperature=temperature)

    def rsample(self, sample_shape=fl.Size()):
        shape, logits = self._extended_shape(sample_shape), self.logits
        u = clamp_probs(fl.rand(shape, **_kind(logits)))
        noisy = (logits - (-u.log()).log()) / self.temperature  # Gumbel noise
        return noisy - noisy.logsumexp(-1, keepdim=True)

    @checked
    def log_prob(x, logits, temperature):
        logits, x = broadcast_all(logits, x)
        k = logits.shape[-1]
        z = logits - temperature * x
        log_scale = fl.full_like(temperature, float(k)).lgamma() + (k - 1) * temperature.log()
        return (z - z.logsumexp(-1, keepdim=True)).sum(-1) + log_scale


class _Relaxed(TransformedDistribution):
    """A transformed relaxation that shows its base's parameters."""

    has_rsample = True
    temperature, logits, probs = map(_delegated, ("temperature", "logits", "probs"))


class RelaxedBernoulli(_Relaxed, params=_BINARY):
    """Values in (0, 1) that approach a Bernoulli as the temperature goes to zero."""

    support = unit_interval

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        inner = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(inner, SigmoidTransform(), validate_args=validate_args)


class RelaxedOneHotCategorical(_Relaxed, params=_CLASSES):
    """Points of the simplex that approach one-hot vectors as the temperature goes to zero."""

    support = constraints.simplex

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        inner = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(inner, ExpTransform(), validate_args=validate_args)
