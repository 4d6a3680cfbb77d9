"""Distributions, pairs for divergences, and transforms, as text; what they say is recorded in data/distributions.json.

`record_all(D, t)` makes the record from a package `t` and its distributions `D`: the same text serves any of them.
"""
import re

DISTRIBUTIONS = """
Bernoulli(T(.2, .5, .9))
Bernoulli(logits=T([.2], [-1.]))
Beta(T(.5, 2., 3.), T(.4, 2., 1.5))
Beta(2., 3.)
Beta(T(.5, .4), T(.3, .9))
Binomial(5, T(.2, .5, .9))
Binomial(T(3., 6.), logits=T(.2, -1.))
Categorical(T([.2, .5, .9], [1., 1., 0.]))
Categorical(logits=T(.2, .5, .9))
Cauchy(T(0., 1.), T(1., 2.))
Chi2(T(1., 3.))
ContinuousBernoulli(T(.2, .5, .9, .4999))
ContinuousBernoulli(logits=T(.2, -.5))
Dirichlet(T([.2, .5, .9], [2., 3., 4.]))
Exponential(T(.5, 2.))
FisherSnedecor(T(1., 3., 6.), T(3., 5., 8.))
Gamma(T(.5, 2., 5.), T(1., 2., .5))
GeneralizedPareto(T(0., 1., 0.), T(1., 2., 1.), T(.3, -.4, 0.))
Geometric(T(.2, .5, .9))
Geometric(logits=T(.2, -1.))
Gumbel(T(0., 1.), T(1., 2.))
Gumbel(0., 1.)
HalfCauchy(T(1., 2.))
HalfNormal(T(1., 2.))
Independent(Normal(zeros(3, 2), T(1., 1.)), 1)
Independent(Bernoulli(T([.3, .4], [.5, .6])), 2)
InverseGamma(T(1.5, 3.), T(1., 2.))
Kumaraswamy(T(.5, 2., 3.), T(2., .5, 4.))
LKJCholesky(3, T(.5, 1., 2.))
LKJCholesky(4)
Laplace(T(0., 1.), T(1., 2.))
LogNormal(T(0., 1.), T(1., .5))
LogisticNormal(zeros(2, 3), T(1., 1., 2.))
LogisticNormal(0., 1.)
LowRankMultivariateNormal(zeros(3, 2), T([1.], [.5]), T(1., 2.))
MixtureSameFamily(Categorical(T(.3, .7)), Normal(T(0., 3.), T(1., 2.)))
MixtureSameFamily(Categorical(ones(3, 2)), Independent(Normal(line(24, (3, 2, 4)), ones(3, 2, 4)), 1))
Multinomial(5, T([.2, .5, .9], [1., 1., 1.]))
MultivariateNormal(zeros(2), T([2., .5], [.5, 1.]))
MultivariateNormal(zeros(3, 2), precision_matrix=T([2., .5], [.5, 1.]))
MultivariateNormal(zeros(2), scale_tril=T([2., 0.], [.5, 1.]).expand(3, 2, 2))
NegativeBinomial(T(3., 5.), T(.2, .6))
NegativeBinomial(3, logits=T(.2, -.6))
Normal(T(0., 1.), T(1., 2.))
Normal(0, 1)
Normal(T(0.).double(), 2.)
OneHotCategorical(T([.2, .5, .9], [1., 1., 0.]))
OneHotCategoricalStraightThrough(T([.2, .5, .9], [1., 1., 0.]))
Pareto(T(1., 2.), T(1.5, 3.))
Poisson(T(.5, 4.))
RelaxedBernoulli(T(.7), T(.2, .5))
RelaxedOneHotCategorical(T(.7), T([.2, .5, .9], [1., 1., .1]))
StudentT(T(.5, 1.5, 4.), T(0., 1., 2.), 2.)
TransformedDistribution(Normal(zeros(2), T(1.)), [ExpTransform(), AffineTransform(1., -2.)])
TransformedDistribution(Normal(zeros(3), T(1.)), [StickBreakingTransform()])
TransformedDistribution(Normal(zeros(6), T(1.)), [ReshapeTransform((6,), (2, 3)), SigmoidTransform()])
TransformedDistribution(Normal(0., 1.), [AffineTransform(zeros(3, 1), T(1., 2.)), TanhTransform()])
Uniform(T(0., 1.), T(1., 3.))
VonMises(T(0., 1.), T(1., 8.))
VonMises(T(0.).double(), 1e-6)
Weibull(T(1., 2.), T(1.5, .5))
Wishart(T(4., 4.), T([2., .5], [.5, 1.]))
Wishart(5, precision_matrix=T([2., .5], [.5, 1.]))
Wishart(T(4., 3.), scale_tril=T([2., 0.], [.5, 1.]))
"""

# Every two of a group, in both orders, have a divergence or say that they have none.
GROUPS = """
Beta(.7, 2.); ContinuousBernoulli(.3); Exponential(.7); Gamma(2., 1.5); Gumbel(.2, 1.3); Laplace(.1, .8); \
Normal(.3, 1.2); Pareto(.5, 3.); Pareto(.2, .9); Uniform(.2, .7); Uniform(1., 2.); Cauchy(0., 1.); Chi2(3.); \
HalfNormal(2.); LogNormal(0., 1.)
Bernoulli(.3); Bernoulli(1.); Poisson(2.); Binomial(3, .4); Binomial(2, .7); Geometric(.4)
Categorical(T(.2, .8)); Categorical(T(1., 0.)); OneHotCategorical(T(.4, .6))
Dirichlet(T(.5, 2.)); Dirichlet(T(1., 1.)); MultivariateNormal(zeros(2), T([2., .5], [.5, 1.])); \
MultivariateNormal(T([1., 0.], [0., 2.]), scale_tril=T([2., 0.], [.5, 1.])); \
LowRankMultivariateNormal(T(.5, 0.), T([1.], [.5]), T(1., 2.)); \
LowRankMultivariateNormal(zeros(2), T([.1], [.9]), T(3., 2.))
Independent(Normal(zeros(2), 1.), 1); Independent(Normal(T(1., 2.), 2.), 1); Independent(Normal(zeros(2), 1.), 0)
Wishart(4., T([2., .5], [.5, 1.])); Wishart(5., T([1., .5], [.5, 2.]))
"""

# Transforms with the shape of their input.
TRANSFORMS = """
AbsTransform() (3,)
AffineTransform(1., -2.) (3,)
AffineTransform(T(1., 2., 3.), T(3., -1., 2.), event_dim=1) (2, 3)
CatTransform([ExpTransform(), AffineTransform(1., 2.)], -1, [1, 2]) (2, 3)
CatTransform([TanhTransform(), IndependentTransform(AbsTransform(), 1)], 0, [1, 2]).inv (3, 3)
ComposeTransform([ExpTransform(), AffineTransform(1., 2.)]) (3,)
ComposeTransform([AffineTransform(0., 2.), StickBreakingTransform(), ReshapeTransform((4,), (2, 2))]) (2, 3)
ComposeTransform([]) (3,)
CorrCholeskyTransform() (2, 3)
CumulativeDistributionTransform(Normal(0., 1.)) (3,)
ExpTransform() (3,)
IndependentTransform(SoftplusTransform(), 1) (2, 3)
LowerCholeskyTransform() (2, 2)
PositiveDefiniteTransform() (2, 2)
PowerTransform(T(.5, -1.)).inv (2,)
ReshapeTransform((2, 3), (6,)) (4, 2, 3)
SigmoidTransform() (3,)
SoftmaxTransform() (2, 3)
SoftplusTransform() (3,)
StackTransform([ExpTransform(), TanhTransform()], -1) (3, 2)
StickBreakingTransform() (2, 3)
StickBreakingTransform().inv (2, 3)
TanhTransform() (3,)
"""

ATTRIBUTES = ("mean", "mode", "variance", "stddev")


class Maker:
    """Makes the objects that a text names; tensors written as T(...) are leaves that require gradients."""

    def __init__(self, D, t):
        self.t = t
        self.leaves = []
        self.names = {name: getattr(D, name) for name in dir(D)}
        self.names.update(T=self.leaf, zeros=t.zeros, ones=t.ones, line=self.line)

    def leaf(self, *values):
        self.leaves.append(self.t.tensor(values if len(values) > 1 else values[0]).requires_grad_())
        return self.leaves[-1]

    def line(self, n, shape):
        return self.t.linspace(-1, 1, n).reshape(shape)

    def __call__(self, text):
        self.leaves.clear()
        return eval(text, self.names)


def distributions():
    """Names (the class and a number) and texts."""
    seen = {}
    for text in DISTRIBUTIONS.strip().splitlines():
        family = text.split("(")[0]
        seen.setdefault(family, []).append(text)
    return {f"{family}{i}": text for family, texts in seen.items() for i, text in enumerate(texts)}


def pairs():
    for group in GROUPS.strip().splitlines():
        members = [text.strip() for text in group.split(";")]
        yield from ((p, q) for p in members for q in members)


def transforms():
    for line in TRANSFORMS.strip().splitlines():
        yield re.fullmatch(r"(.*) (\(.*?\))", line).groups()


def _numbers(x):
    return float(f"{x:.7g}")


def plain(x):
    """A tensor as its shape and numbers; other values as they are."""
    if hasattr(x, "detach"):
        return [list(x.shape), [_numbers(v) for v in x.detach().double().flatten().tolist()]]
    return [plain(v) for v in x] if isinstance(x, (list, tuple)) else x


class Notes(dict):
    """Results by name, or the names of their exceptions; each from the same seed."""

    def __init__(self, t):
        self.t = t

    def __call__(self, name, fn):
        self.t.manual_seed(3)
        try:
            self[name] = plain(fn())
        except (NotImplementedError, AttributeError, ValueError, RuntimeError) as e:
            self[name] = type(e).__name__


def record(text, D, t):
    """Everything a distribution says."""
    make = Maker(D, t)
    d, notes = make(text), Notes(t)
    leaves = list(make.leaves)

    def gradients(y):
        if not y.requires_grad:
            return []
        weights = t.linspace(0.5, 1.5, y.numel()).reshape(y.shape)
        grads = t.autograd.grad((y * weights).sum(), leaves, allow_unused=True, retain_graph=True)
        return [g for g in grads if g is not None]

    notes["repr"] = repr(d)
    t.manual_seed(3)
    s = d.sample((2,))
    for name in ATTRIBUTES:
        notes(name, lambda: getattr(d, name))
    for name, fn in {
        "sample": lambda: d.sample((2,)),
        "rsample": lambda: d.rsample((2,)),
        "rsample gradients": lambda: gradients(d.rsample((2,))),
        "expand": lambda: d.expand((2,) + tuple(d.batch_shape)).sample(),
        "log_prob": lambda: d.log_prob(s),
        "log_prob gradients": lambda: gradients(d.log_prob(s)),
        "cdf": lambda: d.cdf(s),
        "icdf": lambda: d.icdf(t.rand(s.shape)),
        "entropy": lambda: d.entropy(),
        "support": lambda: d.enumerate_support(),
    }.items():
        notes(name, fn)
    return dict(notes)


def record_pair(p, q, D, t):
    notes, make = Notes(t), Maker(D, t)
    notes("kl", lambda: D.kl_divergence(make(p), make(q)))
    return notes["kl"]


def record_transform(text, shape, D, t):
    notes, transform = Notes(t), Maker(D, t)(text)
    t.manual_seed(5)
    x = t.rand(eval(shape))
    x = x / x.sum(-1, keepdim=True)  # a point of every domain
    y = transform(x)
    notes["repr"] = repr(transform)
    notes["values"] = plain(y)
    notes["shapes"] = [list(transform.forward_shape(x.shape)), list(transform.inverse_shape(y.shape))]
    notes["ends"] = [repr(transform.domain), repr(transform.codomain), transform.bijective]
    notes("inverse", lambda: transform.inv(y))
    notes("jacobian", lambda: transform.log_abs_det_jacobian(x, y))
    notes("sign", lambda: transform.sign)
    return dict(notes)


def record_all(D, t):
    return {
        "distributions": {name: record(text, D, t) for name, text in distributions().items()},
        "pairs": {f"{p} | {q}": record_pair(p, q, D, t) for p, q in pairs()},
        "transforms": {text: record_transform(text, shape, D, t) for text, shape in transforms()},
    }
