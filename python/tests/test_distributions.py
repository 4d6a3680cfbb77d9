"""Distributions, divergences and transforms against numbers recorded from PyTorch 2.13; constraints and registries."""
import copy
import json
import math
import pathlib
import pickle

import distribution_cases as cases
import pytest

import flambeau as fl
import flambeau.distributions as D
from flambeau.distributions import biject_to, constraints, transform_to

pytestmark = pytest.mark.filterwarnings("ignore")
RECORDED = json.loads((pathlib.Path(__file__).parent / "data" / "distributions.json").read_text())


# PyTorch's gradient of a gamma number by its parameter is an approximation, ours is not (the test below).
OF_GAMMA_NUMBERS = ("Beta", "Chi2", "FisherSnedecor", "Gamma", "StudentT")


def close(got, want, tolerance=2e-5):
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(close(g, w, tolerance) for g, w in zip(got, want))
    if isinstance(want, float) and isinstance(got, float):
        return got == want or math.isnan(got) and math.isnan(want) or abs(got - want) <= tolerance * max(1.0, abs(want))
    return got == want


def agree(got, want, tolerances={}):
    """Everything recorded is the same; where PyTorch fails on a gradient it need not be."""
    wrong = {
        key: (got[key], v)
        for key, v in want.items()
        if v != "RuntimeError" and not close(got[key], v, tolerances.get(key, 2e-5))
    }
    assert not wrong


@pytest.mark.parametrize("name, text", cases.distributions().items())
def test_distribution(name, text):
    tolerances = {"rsample gradients": 4e-4} if text.startswith(OF_GAMMA_NUMBERS) else {}
    agree(cases.record(text, D, fl), RECORDED["distributions"][name], tolerances)


def test_gradients_of_gamma_numbers():
    """Against `-(dP/da) / p` of the distribution function P and its density p in 30 digits."""
    a = fl.tensor([0.5, 2, 5, 0.01, 50, 1000, 0.1], dtype=fl.float64)
    x = fl.tensor([0.7377498889427951, 4.902294805902515, 3.6355673476955825, 0.001, 47.3, 1010, 3], dtype=fl.float64)
    exact = [1.62796005960497, 1.64430404625979, 0.877715456572152, 0.635413800718582, 0.975747996986834,
             1.00515092967653, 9.4436171440946]  # fmt: skip
    assert fl.allclose(fl._standard_gamma_grad(a, x), fl.tensor(exact, dtype=fl.float64), rtol=1e-13)


@pytest.mark.parametrize("text, shape", list(cases.transforms()))
def test_transform(text, shape):
    agree(cases.record_transform(text, shape, D, fl), RECORDED["transforms"][text])


def test_divergences():
    agree({f"{p} | {q}": cases.record_pair(p, q, D, fl) for p, q in cases.pairs()}, RECORDED["pairs"])


# ---- what is true of every distribution


@pytest.mark.parametrize("text", cases.distributions().values())
def test_expanded_agrees_with_the_original(text):
    fl.manual_seed(0)
    d = cases.Maker(D, fl)(text)
    wide = d.expand((2, *d.batch_shape))
    x = d.sample()
    assert type(wide) is type(d) and wide.event_shape == d.event_shape
    assert fl.allclose(wide.log_prob(x), d.log_prob(x).expand(wide.batch_shape), equal_nan=True, rtol=1e-4)


@pytest.mark.parametrize("text", cases.distributions().values())
def test_samples_lie_in_the_support(text):
    d = cases.Maker(D, fl)(text)
    x = d.sample((5,))
    assert x.shape == (5, *d.batch_shape, *d.event_shape)
    assert d.support.check(x).all() and d.support.event_dim == len(d.event_shape)


@pytest.mark.parametrize("text", ["Beta(2., 3.)", "Gamma(2., 1.5)", "Kumaraswamy(2., 3.)", "ContinuousBernoulli(.3)"])
def test_density_integrates_to_one(text):
    d = cases.Maker(D, fl)(text)
    top = 1.0 if text[0] != "G" else 30.0
    x = (fl.arange(20000, dtype=fl.float64) + 0.5) * (top / 20000)
    density = d.log_prob(x).exp() * (top / 20000)
    assert abs(float(density.sum()) - 1) < 1e-3
    assert abs(float((density * x).sum() - d.mean)) < 1e-3
    assert abs(float((density * (x - d.mean) ** 2).sum() - d.variance)) < 2e-3
    assert abs(float(-(density * d.log_prob(x)).sum() - d.entropy())) < 2e-3


def test_divergence_by_sampling():
    fl.manual_seed(0)
    for p, q in [
        (D.Normal(0.0, 1.0), D.Laplace(0.5, 2.0)), (D.Gamma(2.0, 1.0), D.Exponential(0.7)),
        (D.Beta(2.0, 3.0), D.Normal(0.3, 0.5)), (D.Uniform(0.2, 0.7), D.Beta(2.0, 2.0)),
        (D.Gumbel(0.0, 1.0), D.Normal(0.3, 1.5)), (D.Pareto(1.0, 4.0), D.Gamma(2.0, 1.0)),
    ]:  # fmt: skip
        x = p.sample((60000,))
        estimate = (p.log_prob(x) - q.log_prob(x)).mean()
        assert abs(float(estimate - D.kl_divergence(p, q))) < 0.03


# ---- arguments, copies, classes of users


def test_invalid_arguments():
    shown = r"Expected parameter scale \(Tensor of shape \(\)\) of distribution Normal\(loc: 0"
    with pytest.raises(ValueError, match=shown):
        D.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="within the support"):
        D.Exponential(1.0).log_prob(fl.tensor(-1.0))
    with pytest.raises(ValueError, match="not broadcastable with batch_shape"):
        D.Normal(fl.zeros(3), 1.0).log_prob(fl.zeros(2))
    with pytest.raises(ValueError, match="Either `probs` or `logits`"):
        D.Bernoulli()
    with pytest.raises(ValueError, match="Exactly one of covariance_matrix"):
        D.MultivariateNormal(fl.zeros(2))
    with pytest.raises(NotImplementedError, match="No KL.* p type Normal and q type VonMises"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.VonMises(0.0, 1.0))
    assert D.Normal(0.0, -1.0, validate_args=False).scale == -1


def test_bad_degrees_of_freedom_are_an_error_of_the_chi_squared_part():
    with pytest.raises(ValueError, match=r"df \(Tensor of shape \(\)\) of distribution Chi2\(\) to satisfy"):
        D.StudentT(-1)


def test_copies_and_module_names():
    d = pickle.loads(pickle.dumps(D.Normal(0.0, 1.0)))
    assert repr(d) == "Normal(loc: 0.0, scale: 1.0)"
    assert type(copy.deepcopy(D.LogNormal(0.0, 1.0))) is D.LogNormal
    assert repr(pickle.loads(pickle.dumps(constraints.interval(0, 1)))) == "Interval(lower_bound=0, upper_bound=1)"
    from flambeau.distributions.normal import Normal

    assert Normal is D.Normal and Normal.__module__ == "flambeau.distributions.normal"


class Shifted(D.Normal):
    """A user's family with its own constructor and state."""

    def __init__(self, shift, validate_args=None):
        self.shift = shift
        super().__init__(shift + 1.0, 2.0, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Shifted, _instance)
        new.shift = self.shift
        return super().expand(batch_shape, _instance=new)


class Renamed(Shifted):
    def __init__(self):
        super().__init__(0.0)


def test_families_of_users():
    wide = Shifted(3.0).expand((2, 4))
    assert type(wide) is Shifted and wide.shift == 3.0 and wide.sample().shape == (2, 4)
    with pytest.raises(NotImplementedError, match="custom __init__ method must also define a custom .expand"):
        Renamed().expand((2,))
    assert D.kl_divergence(Shifted(0.0), D.Normal(1.0, 2.0)) == 0


def test_registry_takes_the_nearest_classes():
    class Special(D.Normal):
        pass

    D.register_kl(Special, D.Normal)(lambda p, q: "left")
    assert D.kl_divergence(Special(0.0, 1.0), D.Normal(0.0, 1.0)) == "left"
    D.register_kl(D.Normal, Special)(lambda p, q: "right")
    with pytest.warns(RuntimeWarning, match=r"Ambiguous kl_divergence\(Special, Special\)"):
        assert D.kl_divergence(Special(0.0, 1.0), Special(0.0, 1.0)) == "left"


# ---- constraints and transforms


@pytest.mark.parametrize("constraint", [
    constraints.real, constraints.positive, constraints.unit_interval, constraints.less_than(2.0), constraints.simplex,
    constraints.interval(-1.0, 3.0), constraints.greater_than(1.0), constraints.corr_cholesky, constraints.real_vector,
    constraints.independent(constraints.positive, 1),
    constraints.cat([constraints.positive, constraints.unit_interval], -1, [1, 2]),
], ids=repr)  # fmt: skip
def test_biject_to_round_trip(constraint):
    fl.manual_seed(0)
    x = fl.randn(4, 3, dtype=fl.float64)
    t = biject_to(constraint)
    y = t(x)
    assert constraint.check(y).all()
    assert fl.allclose(t.inv(y), x, atol=1e-5)
    jacobian = t.log_abs_det_jacobian(x, y)
    assert jacobian.shape == x.shape[: x.dim() - t.domain.event_dim]


@pytest.mark.parametrize("constraint", [constraints.lower_cholesky, constraints.positive_definite], ids=repr)
def test_transform_to_matrices(constraint):
    x = fl.randn(2, 3, 3)
    assert constraint.check(transform_to(constraint)(x)).all()
    with pytest.raises(NotImplementedError, match="Cannot transform"):
        biject_to(constraint)


def test_matrix_constraints_stop_at_the_first_that_fails():
    wide = fl.zeros(2, 2, 3)
    assert constraints.positive_definite.check(wide).tolist() == [False, False]
    assert constraints.symmetric.check(fl.eye(2)) and not constraints.symmetric.check(fl.ones(2, 2).tril())


@pytest.mark.parametrize("t, cut", [
    (D.StickBreakingTransform(), lambda y: y[..., :-1]), (D.CorrCholeskyTransform(), lambda y: y[[1, 2, 2], [0, 0, 1]]),
    (D.ComposeTransform([D.TanhTransform(), D.AffineTransform(0.0, 3.0), D.StickBreakingTransform()]),
     lambda y: y[:-1]),
])  # fmt: skip
def test_jacobian_by_autograd(t, cut):
    x = fl.tensor([0.3, -0.2, 0.7], dtype=fl.float64)
    jac = fl.autograd.functional.jacobian(lambda v: cut(t(v)), x)
    assert fl.allclose(fl.linalg.slogdet(jac).logabsdet, t.log_abs_det_jacobian(x, t(x)).sum())


def test_cache_keeps_the_input():
    t = D.ExpTransform(cache_size=1)
    x = fl.randn(3)
    assert t.inv(t(x)) is x and t.with_cache(1) is t
    parts = D.ComposeTransform([D.AffineTransform(0.0, 2.0), D.TanhTransform()], cache_size=1)
    assert parts.inv(parts(x)) is x and parts.inv.inv is parts


def test_helpers_that_other_packages_import():
    from flambeau.distributions import lowrank_multivariate_normal as low
    from flambeau.distributions.gamma import _standard_gamma, broadcast_all
    from flambeau.distributions.multivariate_normal import _batch_mahalanobis, _batch_mv, _precision_to_scale_tril
    from flambeau.distributions.von_mises import _log_modified_bessel_fn

    fl.manual_seed(0)
    w, d, x = fl.randn(5, 2, dtype=fl.float64), fl.rand(5, dtype=fl.float64) + 0.5, fl.randn(3, 5, dtype=fl.float64)
    whole = w @ w.mT + d.diag()
    tril = low._batch_capacitance_tril(w, d)
    fl.testing.assert_close(low._batch_lowrank_logdet(w, d, tril), whole.logdet())
    distance = (x @ whole.inverse() * x).sum(-1)
    fl.testing.assert_close(low._batch_lowrank_mahalanobis(w, d, x, tril), distance)
    factor = _precision_to_scale_tril(whole.inverse())
    fl.testing.assert_close(factor @ factor.mT, whole)
    fl.testing.assert_close(_batch_mahalanobis(factor, x), distance)
    fl.testing.assert_close(_batch_mv(whole, x), x @ whole)
    fl.testing.assert_close(_log_modified_bessel_fn(x.abs()), fl.special.i0(x.abs()).log(), rtol=1e-6, atol=1e-6)
    assert _standard_gamma(d).shape == d.shape and len(broadcast_all(d, 1.0)) == 2
    with pytest.raises(ImportError, match="cannot import name 'nonsense'"):
        from flambeau.distributions.normal import nonsense  # noqa: F401
