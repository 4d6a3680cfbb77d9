//! The incomplete gamma functions, Hurwitz's zeta, the multivariate gamma function, and the names that `torch.special`
//! has for functions of other families.

use super::{activation, elementary, power, reduce, softmax, unary};
use crate::pointwise::scalar_params;
use crate::promotion::Promotion;
use crate::samples::{Maker, Sample};
use crate::value::OwnedOperand;
use crate::{Body, DType, Error, IntoOperand, Op, Result, Scalar, Tensor, backward, default_dtype, ensure, sample};

fn positive_pairs(m: &mut Maker) -> Vec<Sample> {
    match m.dtype.is_floating_point() {
        true => vec![sample![m.uniform(&[2, 3], 0.5, 4.0), m.uniform(&[3], 0.5, 6.0)]],
        false => vec![],
    }
}

/// The gamma density of shape `a` at `x`, times the gradient: how the incomplete functions change with `x`.
fn density(g: &Tensor, a: &Tensor, x: &Tensor) -> Result<Tensor> {
    g.mul(&a.sub(1)?.mul(&x.log()?)?.sub(x)?.sub(&a.lgamma()?)?.exp()?)
}

/// Both incomplete gamma functions.
macro_rules! incomplete {
    ($(
        $(#[doc = $doc:expr])*
        $name:ident, $inplace:ident, $out:ident, $cpu_name:literal = $function:ident, $common:ident;
        $g:ident, $a:ident, $x:ident => $by_shape:expr, $by_value:expr;
    )*) => { $(
        op! {
            $(#[doc = $doc])*
            $name: concat!(stringify!($name), "(Tensor self, Tensor other) -> Tensor"),
                InPlace INPLACE: concat!(stringify!($inplace), "(Tensor(a!) self, Tensor other) -> Tensor(a!)"),
                Out OUT: concat!(stringify!($name), ".out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)");
            pointwise!(2, Promotion::Common, scalar_params, $cpu_name;
                floats rare |a, x| => a.$common::<I>(x), if a.is_common_incomplete(x), else a.$function(x);
            );
            derivative: backward! {
                self_($g, self_: Tensor, other: Tensor) => {
                    let ($a, $x) = (&self_, &other);
                    $by_shape
                },
                other($g, self_: Tensor, other: Tensor) => {
                    let ($a, $x) = (&self_, &other);
                    $by_value
                },
            };
            samples: positive_pairs;
            ulp: 16.0;
            fn $name(&self, other: &Tensor) -> Tensor [self, other];
            fn $inplace(&self, other: &Tensor) -> Tensor [self, other] in INPLACE;
            out fn $out(&self, other: &Tensor) [self, other] in OUT;
        }
    )* };
}

incomplete! {
    /// The regularised lower incomplete gamma function of shape `self` at `other`.
    igamma, igamma_, igamma_out, "igamma_cpu" = igamma, igamma_common;
    g, a, x => density(g, a, x)?.mul(&a._standard_gamma_grad(x)?)?.neg()?, density(g, a, x)?;
    /// The regularised upper incomplete gamma function of shape `self` at `other`.
    igammac, igammac_, igammac_out, "igammac_cpu" = igammac, igammac_common;
    g, a, x => density(g, a, x)?.mul(&a._standard_gamma_grad(x)?)?, density(g, a, x)?.neg()?;
}

op! {
    /// Hurwitz's zeta function, the sum of `(k + other)^-self`.
    special_zeta: "special_zeta(Tensor self, Tensor other) -> Tensor",
        Out OUT: "special_zeta.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload SELF_SCALAR: "special_zeta.self_scalar(Scalar self, Tensor other) -> Tensor",
        Out SELF_SCALAR_OUT: "special_zeta.self_scalar_out(Scalar self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
        Overload OTHER_SCALAR: "special_zeta.other_scalar(Tensor self, Scalar other) -> Tensor",
        Out OTHER_SCALAR_OUT: "special_zeta.other_scalar_out(Tensor self, Scalar other, *, Tensor(a!) out) -> Tensor(a!)";
    pointwise!(2, Promotion::Float, scalar_params, "zeta_cpu"; 
        floats rare |x, q| => x.zeta_common::<I>(q), if x.is_common_zeta(q), else x.zeta::<I>(q);
    );
    derivative: backward! {
        self_([grads]) => {
            grads.gradient()?;
            // As in PyTorch: its derivative by the exponent has no function of its own.
            Err::<Tensor, _>(Error::not_implemented("the derivative for 'zeta' is not implemented."))?
        },
        other(g, self_: OwnedOperand, other: Tensor) => {
            let x = self_.to_tensor(g)?;
            g.mul(&x.add(1)?.special_zeta(&other)?.mul(&x)?.neg()?)?
        },
    };
    samples: |m| match m.dtype.is_floating_point() {
        // Whole exponents: there is no derivative by them.
        true => vec![sample![m.uniform_of(DType::I64, &[2, 3], 2.0, 5.0), m.uniform(&[3], 0.5, 6.0)]],
        false => vec![],
    };
    ulp: 16.0;
    fn special_zeta(&self, other: impl IntoOperand) -> Tensor [self, other.operand()];
    out fn special_zeta_out(&self, other: impl IntoOperand) [self, other.operand()] in OUT;
}

fn mvlgamma_any(x: &Tensor, p: i64) -> Result<Tensor> {
    ensure!(p >= 1, "p has to be greater than or equal to 1");
    let dtype = if x.dtype().is_integral(true) { default_dtype() } else { x.dtype() };
    // lgamma at x, x - 1/2, ..., x - (p - 1) / 2; few of them one after the other, without a tensor of all.
    // In row-major order, whatever the input's.
    let x = x.to_dtype(dtype)?.contiguous()?;
    let sum = match p {
        1..=16 => {
            (1..p).try_fold(x.lgamma()?, |sum, j| sum.add(&x.sub(0.5 * j as f64)?.lgamma()?))?
        }
        _ => {
            let steps = Tensor::arange_step(0.5 - p as f64 / 2.0, 0.5, 0.5, (dtype, x.device()))?;
            x.unsqueeze(-1)?.add(&steps)?.lgamma()?.sum_dim(&[-1], false)?
        }
    };
    let pairs = p as f64 * (p as f64 - 1.0);
    sum.add(Scalar::Float(pairs * std::f64::consts::PI.ln() / 4.0))
}

op! {
    /// The logarithm of the multivariate gamma function of dimension `p`.
    mvlgamma: "mvlgamma(Tensor self, int p) -> Tensor",
        InPlace INPLACE: "mvlgamma_(Tensor(a!) self, int p) -> Tensor(a!)",
        Out OUT: "mvlgamma.out(Tensor self, int p, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(mvlgamma_any; x, p));
    samples: |m| if m.dtype.is_complex() { vec![] } else { vec![sample![m.uniform(&[2, 3], 3.0, 6.0), 3]] };
    ulp: 16.0;
    fn mvlgamma(&self, p: i64) -> Tensor [self, p];
    fn mvlgamma_(&self, p: i64) -> Tensor [self, p] in INPLACE;
    out fn mvlgamma_out(&self, p: i64) [self, p] in OUT;
}

// Names of functions of one tensor, plain and with `out=`.
alias! {
    function special_digamma => unary::digamma;
    function special_erf => unary::erf;
    function special_erfc => unary::erfc;
    function special_erfinv => unary::erfinv;
    function special_exp2 => elementary::exp2;
    function special_expit => activation::sigmoid;
    function special_expm1 => elementary::expm1;
    function special_gammaln => unary::lgamma;
    function special_i0 => unary::i0;
    function special_log1p => elementary::log1p;
    function special_psi => unary::digamma;
    function special_sinc => elementary::sinc;
}

alias! {
    special_gammainc: "special_gammainc(Tensor self, Tensor other) -> Tensor" => igamma::OP;
    special_gammainc_out: "special_gammainc.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)" => igamma::OUT;
    special_gammaincc: "special_gammaincc(Tensor self, Tensor other) -> Tensor" => igammac::OP;
    special_gammaincc_out: "special_gammaincc.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)" => igammac::OUT;
    special_log_softmax: "special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor" => softmax::log_softmax::OP;
    special_logit: "special_logit(Tensor self, float? eps=None) -> Tensor" => unary::logit::OP;
    special_logit_out: "special_logit.out(Tensor self, float? eps=None, *, Tensor(a!) out) -> Tensor(a!)" => unary::logit::OUT;
    special_logsumexp: "special_logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor" => reduce::logsumexp::OP;
    special_logsumexp_out: "special_logsumexp.out(Tensor self, int[1] dim, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)" => reduce::logsumexp::OUT;
    special_multigammaln: "special_multigammaln(Tensor self, int p) -> Tensor" => mvlgamma::OP;
    special_multigammaln_out: "special_multigammaln.out(Tensor self, int p, *, Tensor(a!) out) -> Tensor(a!)" => mvlgamma::OUT;
    special_polygamma: "special_polygamma(int n, Tensor self) -> Tensor" => unary::polygamma::OP;
    special_polygamma_out: "special_polygamma.out(int n, Tensor self, *, Tensor(a!) out) -> Tensor(a!)" => unary::polygamma::OUT;
    special_softmax: "special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor" => softmax::softmax::OP;
    special_xlogy: "special_xlogy(Tensor self, Tensor other) -> Tensor" => power::xlogy::OP;
    special_xlogy_out: "special_xlogy.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)" => power::xlogy::OUT;
    special_xlogy_self: "special_xlogy.self_scalar(Scalar self, Tensor other) -> Tensor" => power::xlogy::SCALAR_SELF;
    special_xlogy_self_out: "special_xlogy.self_scalar_out(Scalar self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)" => power::xlogy::SCALAR_SELF_OUT;
    special_xlogy_other: "special_xlogy.other_scalar(Tensor self, Scalar other) -> Tensor" => power::xlogy::SCALAR_OTHER;
    special_xlogy_other_out: "special_xlogy.other_scalar_out(Tensor self, Scalar other, *, Tensor(a!) out) -> Tensor(a!)" => power::xlogy::SCALAR_OTHER_OUT;
}

fn special_round_any(x: &Tensor, decimals: i64) -> Result<Tensor> {
    x.round_decimals(decimals)
}

op! {
    /// The nearest number with that many decimals; see [`Tensor::round_decimals`].
    special_round: "special_round(Tensor self, *, int decimals=0) -> Tensor",
        Out OUT: "special_round.out(Tensor self, *, int decimals=0, Tensor(a!) out) -> Tensor(a!)";
    Body::Composite(kernel!(special_round_any; x, decimals));
    samples: |m| crate::samples::of(&unary::round_decimals::OP, m);
    ulp: unary::round_decimals::OP.accuracy();
    out_rule: crate::OutRule::UNCAST;
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    igamma::ALL,
    igammac::ALL,
    mvlgamma::ALL,
    special_digamma::ALL,
    special_erf::ALL,
    special_erfc::ALL,
    special_erfinv::ALL,
    special_exp2::ALL,
    special_expit::ALL,
    special_expm1::ALL,
    special_gammainc::ALL,
    special_gammainc_out::ALL,
    special_gammaincc::ALL,
    special_gammaincc_out::ALL,
    special_gammaln::ALL,
    special_i0::ALL,
    special_log1p::ALL,
    special_log_softmax::ALL,
    special_logit::ALL,
    special_logit_out::ALL,
    special_logsumexp::ALL,
    special_logsumexp_out::ALL,
    special_multigammaln::ALL,
    special_multigammaln_out::ALL,
    special_polygamma::ALL,
    special_polygamma_out::ALL,
    special_psi::ALL,
    special_round::ALL,
    special_sinc::ALL,
    special_softmax::ALL,
    special_xlogy::ALL,
    special_xlogy_other::ALL,
    special_xlogy_other_out::ALL,
    special_xlogy_out::ALL,
    special_xlogy_self::ALL,
    special_xlogy_self_out::ALL,
    special_zeta::ALL,
];
