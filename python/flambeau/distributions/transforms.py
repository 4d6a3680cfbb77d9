"""Invertible transformations of tensors with computable log determinants of their Jacobians."""
import math
import weakref
from functools import reduce
from itertools import accumulate
from numbers import Number

import flambeau as fl

from . import constraints
from .utils import _sum_rightmost, broadcast_all, lazy_property, tril_matrix_to_vec, vec_to_tril_matrix

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftplusTransform",
    "TanhTransform", "SoftmaxTransform", "StackTransform", "StickBreakingTransform", "Transform", "identity_transform",
]  # fmt: skip

_SHORT = "Too few dimensions on input"


def _need(holds, message):
    if not holds:
        raise ValueError(message)


def _same(a, b):
    equal = a == b
    return bool(equal.all()) if isinstance(equal, fl.Tensor) else equal


class Transform:
    """A map from `domain` to `codomain`; `t.inv` is its inverse, `log_abs_det_jacobian(x, y)` its volume change.

    With `cache_size=1` the last pair (x, y) is kept, so that inverting a value just computed is free and exact.
    """

    bijective = False
    _arguments = None  # attributes that, given to the constructor, make the transform anew
    _compared = None  # attributes in which equal transforms agree; None: equal only to itself

    def __init__(self, cache_size=0):
        _need(cache_size in (0, 1), "cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._cached_x_y = (None, None)
        self._inv = None
        super().__init__()  # of a class that is a module as well

    def __getstate__(self):
        return vars(self) | {"_inv": None}

    @property
    def event_dim(self):
        """How many dimensions make one event, where input and output agree on that."""
        inner, outer = self.domain.event_dim, self.codomain.event_dim
        _need(inner == outer, "Please use either .domain.event_dim or .codomain.event_dim")
        return inner

    @property
    def inv(self):
        """The inverse; `t.inv.inv is t`."""
        inverse = self._inv and self._inv()
        if inverse is None:
            inverse = self._make_inverse()
            self._inv = weakref.ref(inverse)
        return inverse

    def _make_inverse(self):
        return _InverseTransform(self)

    @property
    def sign(self):
        """The sign of the derivative of a monotone transform."""
        raise NotImplementedError

    def with_cache(self, cache_size=1):
        """The same transform with another size of cache."""
        kind = type(self)
        if cache_size == self._cache_size:
            return self
        if self._arguments is None and kind.__init__ is not Transform.__init__:
            raise NotImplementedError(f"{kind}.with_cache is not implemented")
        return kind(*(getattr(self, name) for name in self._arguments or ()), cache_size=cache_size)

    def __eq__(self, other):
        if self._compared is None or not (isinstance(other, type(self)) or isinstance(self, type(other))):
            return self is other
        return all(_same(getattr(self, name), getattr(other, name)) for name in self._compared)

    def __ne__(self, other):
        return not self == other

    __hash__ = None

    def _run(self, side, value):
        """y for an x (side 0), or x for a y (side 1): the partner in the kept pair, or else computed."""
        if self._cache_size and self._cached_x_y[side] is value:
            return self._cached_x_y[1 - side]
        image = self._inverse(value) if side else self._call(value)
        if self._cache_size:
            self._cached_x_y = (image, value) if side else (value, image)
        return image

    def __call__(self, x):
        return self._run(0, x)

    def _inv_call(self, y):
        return self._run(1, y)

    def _call(self, x):
        raise NotImplementedError

    def _inverse(self, y):
        raise NotImplementedError

    def log_abs_det_jacobian(self, x, y):
        """log |dy/dx|, without the event dimensions."""
        raise NotImplementedError

    def __repr__(self):
        return f"{type(self).__name__}()"

    def forward_shape(self, shape):
        """The shape of the output for an input of `shape`."""
        return shape

    def inverse_shape(self, shape):
        """The shape of the input for an output of `shape`."""
        return shape


def _of(holder, name, dependent=False):
    """A property that asks the transform kept as attribute `holder` for its `name`."""

    def ask(self):
        return getattr(getattr(self, holder), name)

    return constraints.dependent_property(ask, is_discrete=False) if dependent else property(ask)


class _InverseTransform(Transform):
    """The transform `_inv`, walked backwards."""

    domain, codomain = _of("_inv", "codomain", True), _of("_inv", "domain", True)
    bijective, sign = _of("_inv", "bijective"), _of("_inv", "sign")
    inv = property(lambda self: self._inv)
    _compared = ("_inv",)

    def __init__(self, transform):
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    def __getstate__(self):
        return dict(vars(self))

    def with_cache(self, cache_size=1):
        return self._inv.with_cache(cache_size).inv

    def __call__(self, x):
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x, y):
        return -self._inv.log_abs_det_jacobian(y, x)

    def __repr__(self):
        return f"{type(self).__name__}({self._inv!r})"

    def forward_shape(self, shape):
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape):
        return self._inv.forward_shape(shape)


def _independent(constraint, extra):
    return constraints.independent(constraint, extra) if extra > 0 else constraint


def _log_jacobian(steps, event_dim):
    """The volume change of steps (transform, x, y) in a row, where the first x has `event_dim` event dimensions."""
    terms = []
    for part, x, y in steps:
        batch_dims = event_dim - part.domain.event_dim
        terms.append(_sum_rightmost(part.log_abs_det_jacobian(x, y), batch_dims))
        event_dim = batch_dims + part.codomain.event_dim
    return terms


class ComposeTransform(Transform):
    """Transforms applied one after the other, the first one first."""

    _compared = ("parts",)

    def __init__(self, parts, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else parts

    def _event_dims(self):
        """How many event dimensions the input, the values between the parts, and the output have.

        Each part adds a fixed number, so all follow from the first: the least that is enough for every part.
        """
        added = list(accumulate((p.codomain.event_dim - p.domain.event_dim for p in self.parts), initial=0))
        first = max(part.domain.event_dim - before for part, before in zip(self.parts, added))
        return [first + before for before in added]

    def _end(self, at, name):
        if not self.parts:
            return constraints.real
        constraint = getattr(self.parts[at], name)
        return _independent(constraint, self._event_dims()[at] - constraint.event_dim)

    domain = constraints.dependent_property(lambda self: self._end(0, "domain"), is_discrete=False)
    codomain = constraints.dependent_property(lambda self: self._end(-1, "codomain"), is_discrete=False)

    @lazy_property
    def bijective(self):
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self):
        return math.prod(part.sign for part in self.parts)

    def _make_inverse(self):
        inverse = ComposeTransform([part.inv for part in self.parts[::-1]])
        inverse._inv = weakref.ref(self)
        return inverse

    def with_cache(self, cache_size=1):
        return self if cache_size == self._cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x):
        return reduce(lambda value, part: part(value), self.parts, x)

    def log_abs_det_jacobian(self, x, y):
        if not self.parts:
            return fl.zeros_like(x)
        between = list(accumulate(self.parts[:-1], lambda value, part: part(value), initial=x))
        steps = zip(self.parts, between, between[1:] + [y])
        first, *others = _log_jacobian(steps, self._event_dims()[0])
        return sum(others, first)

    def forward_shape(self, shape):
        return reduce(lambda before, part: part.forward_shape(before), self.parts, shape)

    def inverse_shape(self, shape):
        return reduce(lambda after, part: part.inverse_shape(after), self.parts[::-1], shape)

    def __repr__(self):
        lines = ",\n    ".join(map(repr, self.parts))
        return f"{type(self).__name__}(\n    {lines}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose `reinterpreted_batch_ndims` rightmost batch dimensions belong to one event."""

    _arguments = ("base_transform", "reinterpreted_batch_ndims")
    bijective, sign = _of("base_transform", "bijective"), _of("base_transform", "sign")

    def __init__(self, base_transform, reinterpreted_batch_ndims, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.base_transform = base_transform.with_cache(cache_size)

    def _end(self, name):
        return constraints.independent(getattr(self.base_transform, name), self.reinterpreted_batch_ndims)

    domain = constraints.dependent_property(lambda self: self._end("domain"), is_discrete=False)
    codomain = constraints.dependent_property(lambda self: self._end("codomain"), is_discrete=False)

    def _call(self, x):
        _need(x.dim() >= self.domain.event_dim, _SHORT)
        return self.base_transform(x)

    def _inverse(self, y):
        _need(y.dim() >= self.codomain.event_dim, _SHORT)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x, y):
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape):
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape):
        return self.base_transform.inverse_shape(shape)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Reshapes the rightmost dimensions from `in_shape` to `out_shape`."""

    bijective = True
    _arguments = ("in_shape", "out_shape")

    def __init__(self, in_shape, out_shape, cache_size=0):
        self.in_shape, self.out_shape = map(fl.Size, (in_shape, out_shape))
        same_size = self.in_shape.numel() == self.out_shape.numel()
        _need(same_size, "in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    domain = constraints.dependent_property(lambda self: constraints.independent(constraints.real, len(self.in_shape)))
    codomain = constraints.dependent_property(
        lambda self: constraints.independent(constraints.real, len(self.out_shape))
    )

    @staticmethod
    def _batch(shape, event):
        return shape[: len(shape) - len(event)]

    def _call(self, x):
        return x.reshape(self._batch(x.shape, self.in_shape) + self.out_shape)

    def _inverse(self, y):
        return y.reshape(self._batch(y.shape, self.out_shape) + self.in_shape)

    def log_abs_det_jacobian(self, x, y):
        return x.new_zeros(self._batch(x.shape, self.in_shape))

    def _swap(self, shape, old, new):
        _need(len(shape) >= len(old), _SHORT)
        batch = self._batch(shape, old)
        _need(shape[len(batch) :] == old, f"Shape mismatch: expected {shape[len(batch) :]} but got {old}")
        return batch + new

    def forward_shape(self, shape):
        return self._swap(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape):
        return self._swap(shape, self.out_shape, self.in_shape)


# ---- element by element


def _pointwise(name, doc, forward, backward, log_slope=None, domain=constraints.real, codomain=constraints.positive):
    """A class of transforms without arguments; increasing and invertible if `log_slope(x)`, log dy/dx, is given."""


    class _Pointwise(Transform):
        def _call(self, x):
            return forward(x)

        def _inverse(self, y):
            return backward(y)

    class _Increasing(_Pointwise):
        bijective, sign = True, 1

        def log_abs_det_jacobian(self, x, y):
            return log_slope(x)

    members = {"__doc__": doc, "__module__": __name__, "domain": domain, "codomain": codomain, "_compared": ()}
    return type(name, (_Increasing if log_slope else _Pointwise,), members)


def _softplus(x):
    return fl.ops.aten.softplus(x)


def _inside(p):
    """Probabilities that are neither 0 nor 1."""
    info = fl.finfo(p.dtype)
    return p.clamp(info.tiny, 1.0 - info.eps)


def _logit(p):
    p = _inside(p)
    return p.log() - (-p).log1p()


def _log_sech_squared(x):
    """log(1 - tanh(x)^2), in the form that does not overflow"""
    return 2.0 * (math.log(2.0) - x - _softplus(-2.0 * x))


ExpTransform = _pointwise("ExpTransform", "y = exp(x)", lambda x: x.exp(), lambda y: y.log(), lambda x: x)
SigmoidTransform = _pointwise(
    "SigmoidTransform", "y = 1 / (1 + exp(-x)), kept inside the open unit interval",
    lambda x: _inside(x.sigmoid()), _logit, lambda x: -_softplus(-x) - _softplus(x), codomain=constraints.unit_interval,
)  # fmt: skip
SoftplusTransform = _pointwise(
    "SoftplusTransform", "y = log(1 + exp(x))", _softplus, lambda y: y + (-(-y).expm1()).log(), lambda x: -_softplus(-x)
)
TanhTransform = _pointwise(
    "TanhTransform", "y = tanh(x)", lambda x: x.tanh(), lambda y: y.atanh(), _log_sech_squared,
    codomain=constraints.interval(-1.0, 1.0),
)  # fmt: skip
AbsTransform = _pointwise("AbsTransform", "y = |x|; its inverse gives the positive branch", abs, lambda y: y)


class _Parametric(Transform):
    """Element by element, with parameters that broadcast with the value."""

    bijective = True

    def forward_shape(self, shape):
        return fl.broadcast_shapes(shape, *(getattr(getattr(self, name), "shape", ()) for name in self._compared))

    def inverse_shape(self, shape):
        return self.forward_shape(shape)


class PowerTransform(_Parametric):
    """y = x ** exponent, for positive x"""

    domain = codomain = constraints.positive
    _arguments = _compared = ("exponent",)

    def __init__(self, exponent, cache_size=0):
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @lazy_property
    def sign(self):
        return self.exponent.sign()

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(self.exponent.reciprocal())

    def log_abs_det_jacobian(self, x, y):
        return (self.exponent * y / x).abs().log()


class AffineTransform(_Parametric):
    """y = loc + scale * x, elementwise"""

    _compared = ("loc", "scale")
    _arguments = ("loc", "scale", "event_dim")

    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    event_dim = property(lambda self: self._event_dim)
    domain, codomain = (
        constraints.dependent_property(lambda self: _independent(constraints.real, self._event_dim), is_discrete=False)
        for _ in range(2)
    )

    @property
    def sign(self):
        if isinstance(self.scale, Number):
            return (self.scale > 0) - (self.scale < 0)
        return self.scale.sign()

    def _call(self, x):
        return self.scale * x + self.loc

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        scale, batch = self.scale, x.shape[: x.dim() - self._event_dim]
        slopes = fl.full_like(x, math.log(abs(scale))) if isinstance(scale, Number) else scale.abs().log()
        return _sum_rightmost(slopes, self._event_dim).expand(batch)


class CumulativeDistributionTransform(Transform):
    """Values to their cumulative probability under `distribution`."""

    bijective = True
    sign = +1
    _arguments = ("distribution",)
    domain, codomain = _of("distribution", "support"), constraints.unit_interval
    _call, _inverse = _of("distribution", "cdf"), _of("distribution", "icdf")

    def __init__(self, distribution, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)


# ---- vectors and matrices


class _Vectors(Transform):
    """Vectors whose length the codomain's differ from by `_longer`."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    _compared = ()
    _longer = 0

    def forward_shape(self, shape):
        _need(len(shape) > 0, _SHORT)
        return shape[:-1] + (shape[-1] + self._longer,)

    def inverse_shape(self, shape):
        _need(len(shape) > 0, _SHORT)
        return shape[:-1] + (shape[-1] - self._longer,)


class SoftmaxTransform(_Vectors):
    """Unconstrained vectors to the simplex by softmax; not bijective (kept for its use in sampling)."""

    def _call(self, x):
        weights = (x - x.amax(-1, keepdim=True)).exp()
        return weights / weights.sum(-1, keepdim=True)

    def _inverse(self, y):
        return y.log()


class StickBreakingTransform(_Vectors):
    """Unconstrained vectors of length K to the simplex of K + 1 parts, by breaking a stick.

    x = 0 is sent to equal parts: the share z_i of what is left is a sigmoid of x_i - log(K + 1 - i).
    """

    bijective = True
    _longer = 1

    @staticmethod
    def _log_left(x):
        """log(K + 1 - i): how many parts are still to come after part i"""
        return fl.arange(x.shape[-1], 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x):
        share = SigmoidTransform()(x - self._log_left(x))
        left = (1 - share).cumprod(-1)
        one = fl.ones_like(left[..., :1])
        return fl.cat([share, one], -1) * fl.cat([one, left], -1)

    def _inverse(self, y):
        parts = y[..., :-1]
        left = (1 - parts.cumsum(-1)).clamp(min=fl.finfo(y.dtype).tiny)
        return parts.log() - left.log() + self._log_left(parts)

    def log_abs_det_jacobian(self, x, y):
        # dy_i/dx_i = y_i (1 - z_i), and the matrix is triangular
        logits = x - self._log_left(x)
        return (fl.ops.aten.log_sigmoid(logits) - logits + y[..., :-1].log()).sum(-1)


def _behind(x, first):
    """x moved right by one along the last dimension, with `first` in front."""
    return fl.cat([fl.full_like(x[..., :1], first), x[..., :-1]], -1)


class CorrCholeskyTransform(Transform):
    """Unconstrained vectors of length D(D-1)/2 to Cholesky factors of DxD correlation matrices: the entries of a row,
    after tanh, are shares of the length that its earlier entries leave."""

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x):
        bound = 1 - fl.finfo(x.dtype).eps
        share = vec_to_tril_matrix(x.tanh().clamp(-bound, bound), -1)
        left = (1 - share * share).sqrt().cumprod(-1)
        unit = fl.eye(share.shape[-1], dtype=share.dtype, device=share.device)
        return (share + unit) * _behind(left, 1)

    def _inverse(self, y):
        left = _behind(1 - (y * y).cumsum(-1), 1)
        share = tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(left, -1).sqrt()
        return 0.5 * (share.log1p() - (-share).log1p())

    def log_abs_det_jacobian(self, x, y, intermediates=None):
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), -2)
        return 0.5 * left.log().sum(-1) + _log_sech_squared(x).sum(-1)

    def forward_shape(self, shape):
        _need(len(shape) > 0, _SHORT)
        side = round(math.sqrt(0.25 + 2 * shape[-1]) + 0.5)
        _need(side * (side - 1) == 2 * shape[-1], "Input is not a flattened lower-diagonal number")
        return shape[:-1] + (side, side)

    def inverse_shape(self, shape):
        _need(len(shape) > 1, _SHORT)
        *batch, rows, columns = shape
        _need(rows == columns, "Input is not square")
        return fl.Size((*batch, rows * (rows - 1) // 2))


class _Matrices(Transform):
    domain = constraints.independent(constraints.real, 2)
    _compared = ()


class LowerCholeskyTransform(_Matrices):
    """Unconstrained matrices to lower triangular ones with a positive diagonal."""

    codomain = constraints.lower_cholesky

    @staticmethod
    def _change(matrix, diagonal):
        return matrix.tril(-1) + diagonal(matrix.diagonal(dim1=-2, dim2=-1)).diag_embed()

    def _call(self, x):
        return self._change(x, fl.exp)

    def _inverse(self, y):
        return self._change(y, fl.log)


class PositiveDefiniteTransform(_Matrices):
    """Unconstrained matrices to positive definite ones."""

    codomain = constraints.positive_definite

    def _call(self, x):
        root = LowerCholeskyTransform()(x)
        return root @ root.mT

    def _inverse(self, y):
        root = fl.linalg.cholesky(y)
        return LowerCholeskyTransform().inv(root)


# ---- side by side


class _SideBySide(Transform):
    """Several transforms along `dim`; subclasses say how a tensor is cut (`_cut`) and put together (`_join`)."""

    def __init__(self, tseq, dim, cache_size):
        super().__init__(cache_size=cache_size)
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    bijective = property(lambda self: all(t.bijective for t in self.transforms))
    domain = constraints.dependent_property(lambda self: self._constraint("domain"))
    codomain = constraints.dependent_property(lambda self: self._constraint("codomain"))

    def _constraint(self, name):
        ends = [getattr(t, name) for t in self.transforms]
        return self._kind(ends, *(getattr(self, argument) for argument in self._arguments[1:]))

    def _pieces(self, **tensors):
        """For each transform, its piece of each of the tensors."""
        for name, value in tensors.items():
            rank, (size, told) = value.dim(), self._extent()
            if not -rank <= self.dim < rank:
                raise AssertionError(f"dim {self.dim} out of range for tensor with {rank} dimensions")
            if value.size(self.dim) != size:
                raise AssertionError(f"{name}.size({self.dim}) = {value.size(self.dim)} must equal {told} {size}")
        return zip(self.transforms, *map(self._cut, tensors.values()))

    def _call(self, x):
        return self._join([t(piece) for t, piece in self._pieces(x=x)], self.dim)

    def _inverse(self, y):
        return self._join([t.inv(piece) for t, piece in self._pieces(y=y)], self.dim)


class CatTransform(_SideBySide):
    """Transform i works on the i-th slice, of length `lengths[i]`, along `dim`."""

    _arguments = ("transforms", "dim", "lengths")
    _kind = constraints.cat
    event_dim = lazy_property(lambda self: max(t.event_dim for t in self.transforms))
    length = lazy_property(lambda self: sum(self.lengths))
    _join = staticmethod(lambda pieces, dim: fl.cat(pieces, dim))

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        super().__init__(tseq, dim, cache_size)
        self.lengths = list(lengths or [1] * len(self.transforms))
        sizes = len(self.lengths), len(self.transforms)
        if sizes[0] != sizes[1]:
            raise AssertionError("lengths ({}) must match transforms ({})".format(*sizes))

    def _extent(self):
        return self.length, "length"

    def _cut(self, value):
        return value.split(self.lengths, self.dim)

    def log_abs_det_jacobian(self, x, y):
        wide = self.event_dim
        terms = [
            _sum_rightmost(t.log_abs_det_jacobian(a, b), wide - t.event_dim) for t, a, b in self._pieces(x=x, y=y)
        ]
        from_right = (self.dim if self.dim < 0 else self.dim - x.dim()) + wide
        return fl.cat(terms, from_right) if from_right < 0 else sum(terms)


class StackTransform(_SideBySide):
    """Transform i works on the i-th element along `dim`."""

    _arguments = ("transforms", "dim")
    _kind = constraints.stack
    _join = staticmethod(lambda pieces, dim: fl.stack(pieces, dim))

    def __init__(self, tseq, dim=0, cache_size=0):
        super().__init__(tseq, dim, cache_size)

    def _extent(self):
        return len(self.transforms), "len(transforms)"

    def _cut(self, value):
        return value.unbind(self.dim)

    def log_abs_det_jacobian(self, x, y):
        terms = [t.log_abs_det_jacobian(a, b) for t, a, b in self._pieces(x=x, y=y)]
        return self._join(terms, self.dim)


def _clipped_sigmoid(x):
    """The sigmoid, kept inside the open unit interval."""
    return _inside(x.sigmoid())
