"""Distributions over vectors and matrices."""
import math
import warnings
from numbers import Number

import flambeau as fl

from . import constraints
from .constraints import corr_cholesky, lower_cholesky, positive, positive_definite, real, real_vector, simplex
from .distribution import Distribution, ExponentialFamily
from .formulas import checked, moment, overall
from .transformed import TransformedDistribution
from .transforms import StickBreakingTransform
from .utils import _kind, _standard_normal, broadcast_all, lazy_property

_LOG_2PI = math.log(2 * math.pi)


# ---- linear algebra


def _batch_mv(matrix, vector):
    """Matrix times vector, both with any batch dimensions."""
    return (matrix @ vector[..., None])[..., 0]


def _solve_lower(tril, right):
    return fl.linalg.solve_triangular(tril, right, upper=False)


def _batch_mahalanobis(tril, x):
    """x^T (L L^T)^-1 x for L of shape B + (n, n) and x of shape S + B + (n,); L is not copied along S."""
    n, inner = x.shape[-1], tril.dim() - 2
    shape = fl.broadcast_shapes(x.shape[:-1], tril.shape[:-2])
    batch = shape[len(shape) - inner :]
    columns = x.expand(shape + (n,)).reshape((-1,) + batch + (n,)).movedim(0, -1)
    whitened = _solve_lower(tril.expand(batch + (n, n)), columns)
    return whitened.square().sum(-2).movedim(-1, 0).reshape(shape)


def _half_log_det(tril):
    """log det(L L^T) / 2"""
    return tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _identity(like):
    return fl.eye(like.shape[-1], **_kind(like))


def _precision_to_scale_tril(precision):
    """The Cholesky factor of the inverse of a matrix, without inverting it: read backwards, a lower factor is upper."""
    backwards = fl.linalg.cholesky(precision.flip((-2, -1)))
    factor = backwards.flip((-2, -1)).mT
    return _solve_lower(factor, _identity(precision))


_TO_TRIL = {
    "covariance_matrix": lambda matrix: fl.linalg.cholesky(matrix),
    "precision_matrix": _precision_to_scale_tril,
    "scale_tril": lambda tril: tril,
}
_MATRICES = {
    "covariance_matrix": positive_definite, "precision_matrix": positive_definite, "scale_tril": lower_cholesky,
}  # fmt: skip


class _Scattered(Distribution):
    """With a covariance, given as one of three matrices; the other two are computed when asked for."""

    def _the_one(self, error, *matrices):
        """The name and the value of the one matrix given."""
        given = [(name, value) for name, value in zip(_TO_TRIL, matrices) if value is not None]
        if len(given) != 1:
            raise error("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        return given[0]

    def _full(self, matrix):
        n = self._event_shape[-1:]
        return matrix.expand(self._batch_shape + n + n)

    @lazy_property
    def scale_tril(self):
        return self._full(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        tril = self._unbroadcasted_scale_tril
        return self._full(tril @ tril.mT)

    @lazy_property
    def precision_matrix(self):
        return self._full(fl.cholesky_inverse(self._unbroadcasted_scale_tril))


# ---- vectors


class _DirichletSample(fl.autograd.Function):
    """Samples that are differentiable by the concentration."""

    @staticmethod
    def forward(ctx, concentration):
        sample = fl._sample_dirichlet(concentration)
        ctx.save_for_backward(concentration, sample)
        return sample

    @staticmethod
    @fl.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        concentration, sample = ctx.saved_tensors
        total = concentration.sum(-1, keepdim=True).expand_as(concentration)
        along = grad_output - (sample * grad_output).sum(-1, keepdim=True)  # the part along the simplex
        return fl._dirichlet_grad(sample, concentration, total) * along


class Dirichlet(ExponentialFamily, params={"concentration": constraints.independent(positive, 1)}):
    """The Dirichlet distribution on the simplex."""

    support = simplex
    has_rsample = True
    mean = moment(lambda concentration, _total: concentration / _total)
    _total = moment(lambda concentration: concentration.sum(-1, keepdim=True))
    _natural_params = moment(lambda concentration: (concentration,))

    def __init__(self, concentration, validate_args=None):
        if concentration.dim() == 0:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @moment
    def mode(concentration):
        above = (concentration - 1).clamp(min=0)
        inner = above / above.sum(-1, keepdim=True)
        # with all below 1 the density is greatest in the corners; the first one stands for them
        corner = fl.ops.aten.one_hot(inner.argmax(-1), inner.shape[-1]).to(inner)
        return fl.where((concentration < 1).all(-1, keepdim=True), corner, inner)

    @moment
    def variance(concentration, _total):
        return concentration * (_total - concentration) / (_total.square() * (_total + 1))

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        return _DirichletSample.apply(self.concentration.expand(shape))

    @checked
    def log_prob(x, concentration):
        powers = fl.xlogy(concentration - 1, x).sum(-1)
        return powers + concentration.sum(-1).lgamma() - concentration.lgamma().sum(-1)

    @overall
    def entropy(concentration, _log_normalizer):
        total = concentration.sum(-1)
        inner = ((concentration - 1) * concentration.digamma()).sum(-1)
        return _log_normalizer(concentration) - (concentration.size(-1) - total) * total.digamma() - inner

    def _log_normalizer(self, x):
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


_PLURAL = "at least two-dimensional, with optional leading batch dimensions"


class _NormalVector(Distribution):
    """What normal distributions over vectors share, given log det(covariance) / 2 and the squared distance."""

    support = real_vector
    has_rsample = True
    mean = mode = moment(lambda loc: loc)

    @checked
    def log_prob(x, loc, _squared_distance, _half_log_det):
        n = loc.shape[-1]
        return -0.5 * (n * _LOG_2PI + _squared_distance(x - loc)) - _half_log_det

    @overall
    def entropy(loc, _batch_shape, _half_log_det):
        return (0.5 * loc.shape[-1] * (1 + _LOG_2PI) + _half_log_det).expand(_batch_shape)

    def _noise(self, shape):
        return _standard_normal(shape, **_kind(self.loc))


class MultivariateNormal(
    _NormalVector, _Scattered, params={"loc": real_vector, **_MATRICES}, kept=("_unbroadcasted_scale_tril",)
):
    """The normal distribution over vectors, with its covariance given in one of three ways."""

    _half_log_det = property(lambda self: _half_log_det(self._unbroadcasted_scale_tril))

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if loc.dim() == 0:
            raise ValueError("loc must be at least one-dimensional.")
        name, value = self._the_one(ValueError, covariance_matrix, precision_matrix, scale_tril)
        if value.dim() < 2:
            what = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(f"{what} must be {_PLURAL}")
        batch = fl.broadcast_shapes(loc.shape[:-1], value.shape[:-2])
        self.loc = loc.expand(batch + loc.shape[-1:])
        vars(self)[name] = value.expand(batch + value.shape[-2:])
        super().__init__(batch, loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = _TO_TRIL[name](value)

    @property
    def variance(self):
        rows = self._unbroadcasted_scale_tril.square().sum(-1)
        return rows.expand_as(self.loc)

    def _squared_distance(self, x):
        return _batch_mahalanobis(self._unbroadcasted_scale_tril, x)

    def rsample(self, sample_shape=fl.Size()):
        noise = self._noise(self._extended_shape(sample_shape))
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)


class _Woodbury:
    """Solving with C = W W^T + diag(d) by way of the small matrix I + W^T D^-1 W."""

    def __init__(self, w, d, tril=None):
        self.d = d
        self.over_d = w.mT / d[..., None, :]  # W^T D^-1
        if tril is None:
            small = self.over_d @ w
            tril = fl.linalg.cholesky(small + _identity(small))
        self.tril = tril

    def half_log_det(self):
        return _half_log_det(self.tril) + 0.5 * self.d.log().sum(-1)

    def squared_distance(self, x):
        """x^T C^-1 x"""
        return (x.square() / self.d).sum(-1) - _batch_mahalanobis(self.tril, _batch_mv(self.over_d, x))

    def subtracted(self):
        """A with C^-1 = D^-1 - A^T A"""
        return _solve_lower(self.tril, self.over_d)


def _batch_capacitance_tril(w, d):
    """The Cholesky factor of I + W^T D^-1 W."""
    return _Woodbury(w, d).tril


def _batch_lowrank_logdet(w, d, capacitance_tril):
    """log det(W W^T + D), given that factor."""
    return 2 * _Woodbury(w, d, capacitance_tril).half_log_det()


def _batch_lowrank_mahalanobis(w, d, x, capacitance_tril):
    """x^T (W W^T + D)^-1 x, given that factor."""
    return _Woodbury(w, d, capacitance_tril).squared_distance(x)


class LowRankMultivariateNormal(
    _NormalVector,
    params={
        "loc": real_vector, "cov_factor": constraints.independent(real, 2),
        "cov_diag": constraints.independent(positive, 1),
    },
    kept=("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril", "_woodbury"),
):  # fmt: skip
    """A normal distribution over vectors with covariance W W^T + diag(D)."""

    _half_log_det = property(lambda self: self._woodbury.half_log_det())

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.dim() == 0:
            raise ValueError("loc must be at least one-dimensional.")
        n = loc.shape[-1:]
        for wrong, message in (
            (cov_factor.dim() < 2, f"cov_factor must be {_PLURAL}"),
            (cov_factor.shape[-2:-1] != n, f"cov_factor must be a batch of matrices with shape {n[0]} x m"),
            (cov_diag.shape[-1:] != n, f"cov_diag must be a batch of vectors with shape {n}"),
        ):
            if wrong:
                raise ValueError(message)
        try:
            batch = fl.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            shapes = f"loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            raise ValueError(f"Incompatible batch shapes: {shapes}") from error
        self.loc, self.cov_diag = (x.expand(batch + n) for x in (loc, cov_diag))
        self.cov_factor = cov_factor.expand(batch + cov_factor.shape[-2:])
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._woodbury = _Woodbury(cov_factor, cov_diag)
        self._capacitance_tril = self._woodbury.tril
        super().__init__(batch, n, validate_args=validate_args)

    def _full(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    def _squared_distance(self, x):
        return self._woodbury.squared_distance(x)

    @lazy_property
    def variance(self):
        diagonal = self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag
        return diagonal.expand_as(self.loc)

    @lazy_property
    def covariance_matrix(self):
        w = self._unbroadcasted_cov_factor
        return self._full(w @ w.mT + self._unbroadcasted_cov_diag.diag_embed())

    @lazy_property
    def scale_tril(self):
        """The factor of D^(1/2) (I + V V^T) D^(1/2), where V = D^(-1/2) W"""
        root = self._unbroadcasted_cov_diag.sqrt()[..., None]
        v = self._unbroadcasted_cov_factor / root
        inner = v @ v.mT
        return self._full(root * fl.linalg.cholesky(inner + _identity(inner)))

    @lazy_property
    def precision_matrix(self):
        a = self._woodbury.subtracted()
        return self._full(self._unbroadcasted_cov_diag.reciprocal().diag_embed() - a.mT @ a)

    def rsample(self, sample_shape=fl.Size()):
        shape = self._extended_shape(sample_shape)
        low, own = (self._noise(shape[:-1] + last) for last in (self.cov_factor.shape[-1:], shape[-1:]))
        spread = self._unbroadcasted_cov_diag.sqrt() * own
        return self.loc + _batch_mv(self._unbroadcasted_cov_factor, low) + spread


class LogisticNormal(TransformedDistribution, params={"loc": real, "scale": positive}):
    """Normal vectors sent onto the simplex by stick breaking."""

    support = simplex
    has_rsample = True
    loc, scale = (
        property(lambda self, name=name: getattr(self.base_dist.base_dist, name)) for name in ("loc", "scale")
    )

    def __init__(self, loc, scale, validate_args=None):
        from .continuous import Normal

        normal = Normal(loc, scale, validate_args=validate_args)
        vectors = normal if normal.batch_shape else normal.expand((1,))
        super().__init__(vectors, StickBreakingTransform(), validate_args=validate_args)


# ---- matrices


class LKJCholesky(Distribution, params={"concentration": positive}, nested=("_beta",), kept=("dim",)):
    """Cholesky factors of dim x dim correlation matrices, with density det(L L^T)^(concentration - 1)."""

    support = corr_cholesky

    def __init__(self, dim, concentration=1.0, validate_args=None):
        from .continuous import Beta

        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        # the onion method: row i's squared length below the diagonal is Beta(i/2, concentration + (dim - 1 - i)/2)
        self.dim, (self.concentration,) = dim, broadcast_all(concentration)
        c = self.concentration[..., None]
        below = (fl.arange(dim, **_kind(c)) - 1).clamp(min=0)
        self._beta = Beta(0.5 + below, (c + 0.5 * (dim - 2)) - 0.5 * below)
        batch = self.concentration.shape
        super().__init__(batch, fl.Size((dim, dim)), validate_args=validate_args)

    def sample(self, sample_shape=fl.Size()):
        length = self._beta.sample(sample_shape)[..., None].sqrt()
        noise = fl.randn(self._extended_shape(sample_shape), **_kind(length)).tril(-1)
        rows = length * (noise / noise.norm(dim=-1, keepdim=True))
        rows[..., 0, :] = 0  # nothing is below the first diagonal element
        left = (1 - rows.square().sum(-1)).clamp(min=fl.finfo(rows.dtype).tiny)
        return rows + left.sqrt().diag_embed()

    @checked
    def log_prob(x, dim, concentration):
        steps = dim - 1
        powers = 2 * (concentration[..., None] - 1) + dim - fl.arange(2, dim + 1, device=concentration.device)
        log_density = (powers * x.diagonal(dim1=-2, dim2=-1)[..., 1:].log()).sum(-1)
        a = concentration + 0.5 * steps
        log_norm = 0.5 * steps * math.log(math.pi) + fl.mvlgamma(a - 0.5, steps) - steps * a.lgamma()
        return log_density - log_norm


def _mvdigamma(x, p):
    """The derivative of the multivariate log gamma function: digammas of x, x - 1/2, ... added."""
    halves = 0.5 * fl.arange(p, **_kind(x))
    return (x[..., None] - halves).digamma().sum(-1)


class Wishart(
    _Scattered, ExponentialFamily,
    params={"df": 0, **dict.fromkeys(_MATRICES, 2)}, nested=("_dist_chi2",), kept=("_unbroadcasted_scale_tril",),
):  # fmt: skip
    """Sums of outer products of `df` normal vectors: random positive definite matrices."""

    support = positive_definite
    has_rsample = True
    _p = property(lambda self: self._event_shape[-1])

    @property
    def arg_constraints(self):
        return {**_MATRICES, "df": constraints.greater_than(self._p - 1)}

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        from .continuous import Chi2

        name, value = self._the_one(AssertionError, covariance_matrix, precision_matrix, scale_tril)
        if value.dim() < 2:
            raise ValueError(f"scale_tril must be {_PLURAL}")
        batch, event = value.shape[:-2], value.shape[-2:]
        if isinstance(df, Number):
            self.df = fl.tensor(df, **_kind(value))
        else:
            batch = fl.broadcast_shapes(batch, df.shape)
            self.df = df.expand(batch)
        p = event[-1]
        if bool((self.df <= p - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {p - 1}.")
        if bool((self.df < p).any()):
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        self._event_shape = event
        vars(self)[name] = value.expand(batch + event)
        super().__init__(batch, event, validate_args=validate_args)
        self._unbroadcasted_scale_tril = _TO_TRIL[name](value)
        degrees = self.df[..., None] - fl.arange(p, **_kind(self.df))
        self._dist_chi2 = Chi2(degrees.expand(batch + (p,)))

    @lazy_property
    def precision_matrix(self):
        tril = self._unbroadcasted_scale_tril
        return self._full(fl.cholesky_solve(_identity(tril), tril))

    def _times(self, factor, matrix):
        """Each matrix of the batch times its number."""
        return factor.view(self._batch_shape + (1, 1)) * matrix

    @property
    def mean(self):
        return self._times(self.df, self.covariance_matrix)

    @property
    def mode(self):
        factor = self.df - self._p - 1
        return self._times(factor.masked_fill(factor <= 0, math.nan), self.covariance_matrix)

    @property
    def variance(self):
        v = self.covariance_matrix
        own = v.diagonal(dim1=-2, dim2=-1)
        return self._times(self.df, v.square() + own[..., :, None] * own[..., None, :])

    def _bartlett_sampling(self, sample_shape=fl.Size()):
        """L A A^T L^T for A with roots of chi-squared numbers on its diagonal and normal numbers below it."""
        p = self._p
        a = self._dist_chi2.rsample(sample_shape).sqrt().diag_embed()
        shape = fl.Size(sample_shape) + self._batch_shape + (p * (p - 1) // 2,)
        below = fl.randn(shape, **_kind(a))
        a[(..., *fl.tril_indices(p, p, -1))] = below
        root = self._unbroadcasted_scale_tril @ a
        return root @ root.mT

    def rsample(self, sample_shape=fl.Size(), max_try_correction=None):
        """Samples; a first draw is made and replaced (PyTorch's stream of numbers has it), and after that what comes
        out singular is drawn again, up to `max_try_correction` times (10)."""
        sample = self._bartlett_sampling(fl.Size(sample_shape))

        def anywhere(flags):
            """Whether a flag is set in a batch."""
            return flags.flatten(-len(self._batch_shape)).any(-1) if self._batch_shape else flags

        redraw = anywhere(self.support.check(sample))
        if not bool(redraw.any()):
            return sample
        warnings.warn("Singular sample detected.", stacklevel=2)
        for _ in range(10 if max_try_correction is None else max_try_correction):
            sample[redraw] = fresh = self._bartlett_sampling((int(redraw.sum()),))
            redraw = redraw.masked_scatter(redraw, anywhere(~self.support.check(fresh)))
            if not bool(redraw.any()):
                break
        return sample

    @checked
    def log_prob(x, df, _p, _unbroadcasted_scale_tril):
        trace = fl.cholesky_solve(x, _unbroadcasted_scale_tril).diagonal(dim1=-2, dim2=-1).sum(-1)
        log_norm = df * (0.5 * _p * math.log(2) + _half_log_det(_unbroadcasted_scale_tril)) + fl.mvlgamma(df / 2, p=_p)
        return 0.5 * (df - _p - 1) * fl.linalg.slogdet(x).logabsdet - 0.5 * trace - log_norm

    @overall
    def entropy(df, _p, _unbroadcasted_scale_tril):
        half = df / 2
        size = (_p + 1) * (0.5 * _p * math.log(2) + _half_log_det(_unbroadcasted_scale_tril))
        return size + fl.mvlgamma(half, p=_p) - 0.5 * (df - _p - 1) * _mvdigamma(half, _p) + half * _p

    _natural_params = moment(lambda precision_matrix, df, _p: (-precision_matrix / 2, (df - _p - 1) / 2))

    def _log_normalizer(self, x, y):
        half = y + (self._p + 1) / 2
        return half * (math.log(2) * self._p - fl.linalg.slogdet(-2 * x).logabsdet) + fl.mvlgamma(half, p=self._p)
