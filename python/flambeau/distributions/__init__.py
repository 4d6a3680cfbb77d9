"""Probability distributions: sampling, densities, moments, divergences and transforms."""
import sys as _sys
import types as _types

import flambeau as _fl

from . import constraints, kl, transforms
from .constraint_registry import biject_to, transform_to
from .continuous import (
    Beta, Cauchy, Chi2, Exponential, FisherSnedecor, Gamma, GeneralizedPareto, Laplace, Normal, StudentT, Uniform,
    VonMises,
)  # fmt: skip
from .continuous_transformed import (
    Gumbel, HalfCauchy, HalfNormal, InverseGamma, Kumaraswamy, LogNormal, Pareto, Weibull,
)  # fmt: skip
from .discrete import (
    Bernoulli, Binomial, Categorical, ContinuousBernoulli, ExpRelaxedCategorical, Geometric, LogitRelaxedBernoulli,
    Multinomial, NegativeBinomial, OneHotCategorical, OneHotCategoricalStraightThrough, Poisson, RelaxedBernoulli,
    RelaxedOneHotCategorical,
)  # fmt: skip
from .distribution import Distribution, ExponentialFamily
from .kl import _add_kl_info, kl_divergence, register_kl
from .multivariate import (
    Dirichlet, LKJCholesky, LogisticNormal, LowRankMultivariateNormal, MultivariateNormal, Wishart,
)  # fmt: skip
from .transformed import Independent, MixtureSameFamily, TransformedDistribution
from .transforms import *  # noqa: F403

# Where PyTorch keeps each class: modules of these names exist, and classes say they come from there.
_MODULES = {
    "bernoulli": (Bernoulli,),
    "beta": (Beta,),
    "binomial": (Binomial,),
    "categorical": (Categorical,),
    "cauchy": (Cauchy,),
    "chi2": (Chi2,),
    "continuous_bernoulli": (ContinuousBernoulli,),
    "dirichlet": (Dirichlet,),
    "exp_family": (ExponentialFamily,),
    "exponential": (Exponential,),
    "fishersnedecor": (FisherSnedecor,),
    "gamma": (Gamma,),
    "generalized_pareto": (GeneralizedPareto,),
    "geometric": (Geometric,),
    "gumbel": (Gumbel,),
    "half_cauchy": (HalfCauchy,),
    "half_normal": (HalfNormal,),
    "independent": (Independent,),
    "inverse_gamma": (InverseGamma,),
    "kumaraswamy": (Kumaraswamy,),
    "laplace": (Laplace,),
    "lkj_cholesky": (LKJCholesky,),
    "log_normal": (LogNormal,),
    "logistic_normal": (LogisticNormal,),
    "lowrank_multivariate_normal": (LowRankMultivariateNormal,),
    "mixture_same_family": (MixtureSameFamily,),
    "multinomial": (Multinomial,),
    "multivariate_normal": (MultivariateNormal,),
    "negative_binomial": (NegativeBinomial,),
    "normal": (Normal,),
    "one_hot_categorical": (OneHotCategorical, OneHotCategoricalStraightThrough),
    "pareto": (Pareto,),
    "poisson": (Poisson,),
    "relaxed_bernoulli": (LogitRelaxedBernoulli, RelaxedBernoulli),
    "relaxed_categorical": (ExpRelaxedCategorical, RelaxedOneHotCategorical),
    "studentT": (StudentT,),
    "transformed_distribution": (TransformedDistribution,),
    "uniform": (Uniform,),
    "von_mises": (VonMises,),
    "weibull": (Weibull,),
    "wishart": (Wishart,),
}


def _imported(name):
    """What PyTorch's module of a distribution has besides: helpers, and what it imports from the others."""
    from . import continuous, multivariate, utils

    if name == "_standard_gamma":
        return _fl._standard_gamma
    for module in () if name.startswith("__") else (utils, multivariate, continuous, transforms, _sys.modules[__name__]):
        if name in vars(module):
            return vars(module)[name]
    raise AttributeError(f"module of a distribution has no attribute {name!r}")


for _name, _classes in _MODULES.items():
    _module = _types.ModuleType(f"{__name__}.{_name}", _classes[0].__doc__)
    _module.__all__ = [c.__name__ for c in _classes]
    _module.Distribution, _module.constraints, _module.__getattr__ = Distribution, constraints, _imported
    for _class in _classes:
        setattr(_module, _class.__name__, _class)
        _class.__module__ = _module.__name__
    globals()[_name] = _sys.modules[_module.__name__] = _module

_add_kl_info()

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ContinuousBernoulli", "Dirichlet",
    "Distribution", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric",
    "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace",
    "LogNormal", "LogisticNormal", "LowRankMultivariateNormal", "MixtureSameFamily", "Multinomial",
    "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough",
    "Pareto", "RelaxedBernoulli", "RelaxedOneHotCategorical", "StudentT", "Poisson", "Uniform", "VonMises", "Weibull",
    "Wishart", "TransformedDistribution", "biject_to", "kl_divergence", "register_kl", "transform_to",
    *transforms.__all__,
]  # fmt: skip
