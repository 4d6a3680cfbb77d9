# Made by scripts/stubs.

from . import (
    constraint_registry as constraint_registry, constraints as constraints, continuous as continuous,
    continuous_transformed as continuous_transformed, discrete as discrete, distribution as distribution,
    formulas as formulas, kl as kl, multivariate as multivariate, transformed as transformed, transforms as transforms,
    utils as utils,
)
from .constraint_registry import biject_to as biject_to, transform_to as transform_to
from .continuous import (
    Beta as Beta, Cauchy as Cauchy, Chi2 as Chi2, Exponential as Exponential, FisherSnedecor as FisherSnedecor,
    Gamma as Gamma, GeneralizedPareto as GeneralizedPareto, Laplace as Laplace, Normal as Normal, StudentT as StudentT,
    Uniform as Uniform, VonMises as VonMises,
)
from .continuous_transformed import (
    Gumbel as Gumbel, HalfCauchy as HalfCauchy, HalfNormal as HalfNormal, InverseGamma as InverseGamma,
    Kumaraswamy as Kumaraswamy, LogNormal as LogNormal, Pareto as Pareto, Weibull as Weibull,
)
from .discrete import (
    Bernoulli as Bernoulli, Binomial as Binomial, Categorical as Categorical,
    ContinuousBernoulli as ContinuousBernoulli, ExpRelaxedCategorical as ExpRelaxedCategorical, Geometric as Geometric,
    LogitRelaxedBernoulli as LogitRelaxedBernoulli, Multinomial as Multinomial, NegativeBinomial as NegativeBinomial,
    OneHotCategorical as OneHotCategorical, OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough,
    Poisson as Poisson, RelaxedBernoulli as RelaxedBernoulli, RelaxedOneHotCategorical as RelaxedOneHotCategorical,
)
from .distribution import Distribution as Distribution, ExponentialFamily as ExponentialFamily
from .kl import kl_divergence as kl_divergence, register_kl as register_kl
from .multivariate import (
    Dirichlet as Dirichlet, LKJCholesky as LKJCholesky, LogisticNormal as LogisticNormal,
    LowRankMultivariateNormal as LowRankMultivariateNormal, MultivariateNormal as MultivariateNormal,
    Wishart as Wishart,
)
from .transformed import (
    Independent as Independent, MixtureSameFamily as MixtureSameFamily,
    TransformedDistribution as TransformedDistribution,
)
from .transforms import (
    AbsTransform as AbsTransform, AffineTransform as AffineTransform, CatTransform as CatTransform,
    ComposeTransform as ComposeTransform, CorrCholeskyTransform as CorrCholeskyTransform,
    CumulativeDistributionTransform as CumulativeDistributionTransform, ExpTransform as ExpTransform,
    IndependentTransform as IndependentTransform, LowerCholeskyTransform as LowerCholeskyTransform,
    PositiveDefiniteTransform as PositiveDefiniteTransform, PowerTransform as PowerTransform,
    ReshapeTransform as ReshapeTransform, SigmoidTransform as SigmoidTransform, SoftmaxTransform as SoftmaxTransform,
    SoftplusTransform as SoftplusTransform, StackTransform as StackTransform,
    StickBreakingTransform as StickBreakingTransform, TanhTransform as TanhTransform, Transform as Transform,
    identity_transform as identity_transform,
)
