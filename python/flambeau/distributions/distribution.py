"""The base classes of all distributions."""
import functools
import warnings

import flambeau as fl

from . import constraints
from .utils import _sum_rightmost, broadcast_all, lazy_property

__all__ = ["Distribution", "ExponentialFamily"]


def _unwritten(method):
    """A member that subclasses write."""

    @functools.wraps(method)
    def missing(self, *args, **kwargs):
        raise NotImplementedError

    return missing


def _told(name, value):
    return f"{name} ({type(value).__name__} of shape {tuple(value.shape)})"


def _missing_declaration(owner, name, purpose, level):
    warnings.warn(
        f"{type(owner)} does not define `{name}`{purpose} the distribution with `validate_args=False` to turn off "
        "validation.",
        stacklevel=level + 1,
    )


class Distribution:
    """A probability distribution over events of `event_shape`, `batch_shape` of them side by side.

    Families of this package declare their state as class keywords: `params`, from names to constraints (to numbers of
    event dimensions, where the constraints depend on the instance); `store`, further attributes of batch shape;
    `nested`, attributes that are distributions; `kept`, what copies share. `expand` and `arg_constraints` follow.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    _owner = None  # the class whose declaration holds

    def __init_subclass__(cls, params=None, store=(), nested=None, kept=None, **others):
        super().__init_subclass__(**others)
        if nested is not None:
            cls._nested = nested
        if kept is not None:
            cls._kept = kept
        if params is None:
            return
        cls._owner = cls
        cls._layout = {name: c if isinstance(c, int) else c.event_dim for name, c in params.items()}
        cls._layout.update(dict.fromkeys(store, 0))
        if "arg_constraints" not in vars(cls):
            cls.arg_constraints = params

    _nested = _kept = ()

    @staticmethod
    def set_default_validate_args(value):
        """Turns checking of arguments on or off for distributions made from now on."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape=fl.Size([]), event_shape=fl.Size([]), validate_args=None):
        self._batch_shape, self._event_shape = batch_shape, event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_params()
        super().__init__()

    def _check_params(self):
        try:
            declared = self.arg_constraints
        except NotImplementedError:
            purpose = ". Please set `arg_constraints = {}` or initialize"
            return _missing_declaration(self, "arg_constraints", purpose, 3)
        for name, constraint in declared.items():
            derived = name not in vars(self) and isinstance(getattr(type(self), name), lazy_property)
            if derived or constraints.is_dependent(constraint):
                continue
            value = getattr(self, name)
            if not constraints._everywhere(constraint.check(value)):
                raise ValueError(
                    f"Expected parameter {_told(name, value)} of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    def _begin(self, validate_args, **params):
        """Broadcasts the parameters, stores them, and takes their common shape as the batch shape."""
        values = broadcast_all(*params.values())
        vars(self).update(zip(params, values))
        Distribution.__init__(self, values[0].size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """The same distribution with its batch dimensions expanded to `batch_shape`."""
        owner = self._owner
        if owner is None:
            raise NotImplementedError
        new, batch_shape = self._get_checked_instance(owner, _instance), fl.Size(batch_shape)
        mine, theirs = vars(self), vars(new)
        for name, event_dim in owner._layout.items():
            if name in mine:
                shape = mine[name].shape
                theirs[name] = mine[name].expand(batch_shape + shape[len(shape) - event_dim :])
        for name in owner._nested:
            more = mine[name].batch_shape[len(self._batch_shape) :]
            theirs[name] = mine[name].expand(batch_shape + more)
        theirs.update((name, mine[name]) for name in owner._kept)
        self._expand_more(new, batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _expand_more(self, new, batch_shape):
        """Gives an expanded instance what the declaration does not say."""

    def _get_checked_instance(self, cls, _instance=None):
        if _instance is not None:
            return _instance
        kind = type(self)
        if kind.__init__ is not cls.__init__:
            raise NotImplementedError(
                f"Subclass {kind.__name__} of {cls.__name__} that defines a custom __init__ method must also define a "
                "custom .expand() method."
            )
        return kind.__new__(kind)

    batch_shape = property(lambda self: self._batch_shape)
    event_shape = property(lambda self: self._event_shape)

    @property
    @_unwritten
    def arg_constraints(self):
        """A dictionary from parameter names to constraints."""

    @property
    @_unwritten
    def support(self):
        """The constraint that samples fulfil."""

    @property
    @_unwritten
    def mean(self):
        """The expectation, of shape batch_shape + event_shape."""

    @property
    def mode(self):
        """The value of greatest density or mass."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    @_unwritten
    def variance(self):
        """The variance of each element."""

    stddev = property(lambda self: self.variance.sqrt(), doc="The square root of the variance.")

    def sample(self, sample_shape=fl.Size()):
        """A sample of shape `sample_shape + batch_shape + event_shape`, without a gradient."""
        with fl.no_grad():
            return self.rsample(sample_shape)

    @_unwritten
    def rsample(self, sample_shape=fl.Size()):
        """A sample through which gradients flow to the parameters."""

    def sample_n(self, n):
        """n samples (deprecated: use sample((n,)))."""
        warnings.warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2)
        return self.sample(fl.Size((n,)))

    @_unwritten
    def log_prob(self, value):
        """The logarithm of the density or mass at `value`."""

    @_unwritten
    def cdf(self, value):
        """The probability of values up to `value`."""

    @_unwritten
    def icdf(self, value):
        """The quantile of the probability `value`."""

    @_unwritten
    def enumerate_support(self, expand=True):
        """All values of a discrete distribution, along a new first dimension."""

    @_unwritten
    def entropy(self):
        """The expectation of -log_prob, of shape batch_shape."""

    def perplexity(self):
        """exp(entropy)"""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape=fl.Size()):
        return fl.Size(sample_shape) + self._batch_shape + self._event_shape

    def _along_batch(self, values, expand):
        """What enumerate_support returns: `values`, of shape (n, *event_shape), beside every member of the batch."""
        batch, count = self._batch_shape, len(values)
        values = values.reshape((count,) + (1,) * len(batch) + self._event_shape)
        return values.expand((count,) + batch + self._event_shape) if expand else values

    def _validate_sample(self, value):
        if not isinstance(value, fl.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        got, event, full = value.size(), self._event_shape, self._batch_shape + self._event_shape
        if got[len(got) - len(event) :] != event:
            raise ValueError(f"The right-most size of value must match event_shape: {got} vs {event}.")
        if any(len({a, b} - {1}) > 1 for a, b in zip(got[::-1], full[::-1])):
            raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {got} vs {full}.")
        try:
            region = self.support
        except NotImplementedError:
            purpose = " to enable sample validation. Please initialize"
            return _missing_declaration(self, "support", purpose, 3)
        if region is None:
            raise AssertionError("support is None")
        if not constraints._everywhere(region.check(value)):
            raise ValueError(
                f"Expected {_told('value argument', value)} to be within the support ({region!r}) of the distribution "
                f"{self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self):
        held = {name: vars(self)[name] for name in self.arg_constraints if name in vars(self)}
        shown = (f"{name}: {v if v.numel() == 1 else v.size()}" for name, v in held.items())
        return f"{type(self).__name__}({', '.join(shown)})"


class ExponentialFamily(Distribution):
    """Distributions of the form exp(<t(x), theta> - F(theta) + k(x)); their entropy follows from F by gradients."""

    _mean_carrier_measure = 0

    @property
    @_unwritten
    def _natural_params(self):
        """theta, a tuple of tensors."""

    @_unwritten
    def _log_normalizer(self, *natural_params):
        """F"""

    @staticmethod
    def _with_gradients(family, natural):
        """Leaves with the values of `natural`, F there, and the gradient of F: the mean of the statistics t(x)."""
        theta = [x.detach().requires_grad_() for x in natural]
        log_z = family._log_normalizer(*theta)
        return theta, log_z, fl.autograd.grad(log_z.sum(), theta, create_graph=True)

    def entropy(self):
        theta, log_z, means = self._with_gradients(self, self._natural_params)
        dots = (t * m for t, m in zip(theta, means))
        inner = sum(_sum_rightmost(d, d.dim() - len(self._batch_shape)) for d in dots)
        return log_z - self._mean_carrier_measure - inner
