"""Distributions made from others: transformed, independent, mixtures."""
import math

import flambeau as fl

from . import constraints
from .distribution import Distribution
from .transforms import ComposeTransform, Transform, _independent, _log_jacobian
from .utils import _sum_rightmost


def _delegated(name):
    """A property read from the base distribution."""
    return property(lambda self: getattr(self.base_dist, name))


class Independent(Distribution, params={}, nested=("base_dist",), kept=("reinterpreted_batch_ndims",)):
    """Counts the `reinterpreted_batch_ndims` rightmost batch dimensions of a distribution as event dimensions."""

    has_rsample = _delegated("has_rsample")
    mean, mode, variance = map(_delegated, ("mean", "mode", "variance"))

    def __class_getitem__(cls, item):
        return cls

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        batch, moved = base_distribution.batch_shape, reinterpreted_batch_ndims
        if moved > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {moved} vs {len(batch)}"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, moved
        kept = len(batch) - moved
        event = batch[kept:] + base_distribution.event_shape
        super().__init__(batch[:kept], event, validate_args=validate_args)

    @property
    def has_enumerate_support(self):
        return self.base_dist.has_enumerate_support and self.reinterpreted_batch_ndims == 0

    @constraints.dependent_property
    def support(self):
        return _independent(self.base_dist.support, self.reinterpreted_batch_ndims)

    def sample(self, sample_shape=fl.Size()):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=fl.Size()):
        return self.base_dist.rsample(sample_shape)

    def _joint(self, values):
        return _sum_rightmost(values, self.reinterpreted_batch_ndims)

    def log_prob(self, value):
        return self._joint(self.base_dist.log_prob(value))

    def entropy(self):
        return self._joint(self.base_dist.entropy())

    def enumerate_support(self, expand=True):
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


def _as_list(transforms):
    if isinstance(transforms, Transform):
        return [transforms]
    if not isinstance(transforms, list):
        raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
    if not all(isinstance(t, Transform) for t in transforms):
        raise ValueError("transforms must be a Transform or a list of Transforms")
    return transforms


class TransformedDistribution(Distribution, params={}, kept=("transforms",)):
    """The distribution of samples of `base_distribution` sent through `transforms`, one after the other."""

    has_rsample = _delegated("has_rsample")

    def __init__(self, base_distribution, transforms, validate_args=None):
        self.transforms = _as_list(transforms)
        whole = ComposeTransform(self.transforms)
        own, enters, leaves = len(base_distribution.event_shape), whole.domain.event_dim, whole.codomain.event_dim
        shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(shape) < enters:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {enters}, but got {shape}."
            )
        out = whole.forward_shape(shape)
        full = whole.inverse_shape(out)  # what the transforms' own shapes make of the base's
        if full != shape:
            base_distribution = base_distribution.expand(full[: len(full) - own])
        if enters > own:
            base_distribution = Independent(base_distribution, enters - own)
        self.base_dist = base_distribution
        batch = len(out) - (leaves + max(own - enters, 0))
        super().__init__(out[:batch], out[batch:], validate_args=validate_args)

    def _expand_more(self, new, batch_shape):
        shape = ComposeTransform(self.transforms).inverse_shape(batch_shape + self.event_shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        last = self.transforms[-1].codomain if self.transforms else self.base_dist.support
        return _independent(last, len(self.event_shape) - last.event_dim)

    def _push(self, x):
        for t in self.transforms:
            x = t(x)
        return x

    def _pull(self, y):
        """The value of the base that is sent to y, and the steps (transform, input, output) between."""
        steps = []
        for t in reversed(self.transforms):
            steps.append((t, t.inv(y), y))
            y = steps[-1][1]
        return y, steps[::-1]

    def sample(self, sample_shape=fl.Size()):
        with fl.no_grad():
            return self._push(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape=fl.Size()):
        return self._push(self.base_dist.rsample(sample_shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        x, steps = self._pull(value)
        growth = sum(t.codomain.event_dim - t.domain.event_dim for t in self.transforms)
        event_dim = len(self.event_shape) - growth
        base = _sum_rightmost(self.base_dist.log_prob(x), event_dim - len(self.base_dist.event_shape))
        volume = 0.0
        for term in reversed(_log_jacobian(steps, event_dim)):
            volume = volume - term
        return volume + base

    def _direction(self, p):
        """Turns a probability round where the transforms together decrease."""
        sign = math.prod(t.sign for t in self.transforms)
        return p if isinstance(sign, int) and sign == 1 else sign * (p - 0.5) + 0.5

    def cdf(self, value):
        x, _ = self._pull(value)
        if self._validate_args:
            self.base_dist._validate_sample(x)
        return self._direction(self.base_dist.cdf(x))

    def icdf(self, value):
        return self._push(self.base_dist.icdf(self._direction(value)))


def _check_mixture(mixture, component):
    from .discrete import Categorical

    if not isinstance(mixture, Categorical):
        raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
    if not isinstance(component, Distribution):
        raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
    weights, members = mixture.batch_shape, component.batch_shape[:-1]
    if any(len({a, b} - {1}) > 1 for a, b in zip(weights[::-1], members[::-1])):
        raise ValueError(
            f"`mixture_distribution.batch_shape` ({weights}) is not compatible with "
            f"`component_distribution.batch_shape`({members})"
        )
    count, given = mixture.logits.shape[-1], component.batch_shape[-1]
    if count != given:
        raise ValueError(
            f"`mixture_distribution component` ({count}) does not equal "
            f"`component_distribution.batch_shape[-1]` ({given})"
        )


class MixtureSameFamily(
    Distribution, params={}, nested=("_component_distribution", "_mixture_distribution"), kept=("_num_component",)
):
    """A mixture of the components along the last batch dimension of `component_distribution`."""

    mixture_distribution = property(lambda self: self._mixture_distribution)
    component_distribution = property(lambda self: self._component_distribution)

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        _check_mixture(mixture_distribution, component_distribution)
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        *batch, self._num_component = component_distribution.batch_shape
        super().__init__(fl.Size(batch), component_distribution.event_shape, validate_args=validate_args)

    @constraints.dependent_property
    def support(self):
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def _event_ndims(self):
        return len(self._event_shape)

    @property
    def _axis(self):
        """The dimension along which components lie in a value of them all."""
        return -1 - self._event_ndims

    def _average(self, values):
        """The mean over the components of what each has as its own."""
        probs = self._mixture_distribution.probs
        return (probs[(...,) + (None,) * self._event_ndims] * values).sum(self._axis)

    @property
    def mean(self):
        return self._average(self._component_distribution.mean)

    @property
    def variance(self):
        """The mean of the variances and the variance of the means."""
        each = self._component_distribution
        offset = each.mean - self.mean.unsqueeze(self._axis)
        return self._average(each.variance) + self._average(offset.square())

    def cdf(self, x):
        each = self._component_distribution.cdf(x.unsqueeze(self._axis))
        return (each * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x):
        if self._validate_args:
            self._validate_sample(x)
        each = self._component_distribution.log_prob(x.unsqueeze(self._axis))
        return (each + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape=fl.Size()):
        with fl.no_grad():
            chosen = self._mixture_distribution.sample(sample_shape)
            each = self._component_distribution.sample(sample_shape)
            event = self._event_shape
            index = chosen[(...,) + (None,) * (1 + len(event))].expand(chosen.shape + (1,) + event)
            axis = len(sample_shape) + len(self._batch_shape)
            return each.gather(axis, index).squeeze(axis)

    def __repr__(self):
        parts = ",\n  ".join(map(str, (self._mixture_distribution, self._component_distribution)))
        return f"MixtureSameFamily(\n  {parts})"
