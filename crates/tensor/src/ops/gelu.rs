//! Gaussian error linear units.

use super::unary::{examples, gradient_examples};
use crate::pointwise::{Params, Pointwise};
use crate::promotion::Promotion;
use crate::{Body, DType, Error, Op, Result, Scalar, Tensor, Value, backward};

/// The form of gelu as a parameter: 0 for the error function, 1 for the hyperbolic tangent.
fn gelu_params(args: &[Value<'_>], _dtype: DType) -> Result<Params> {
    let mut params = crate::pointwise::NO_PARAMS;
    params[0] = Scalar::Int(match args.first() {
        None | Some(Value::None | Value::Str("none")) => 0,
        Some(Value::Str("tanh")) => 1,
        Some(Value::Str(_)) => {
            return Err(Error::runtime("approximate argument must be either none or tanh."));
        }
        Some(v) => return Err(Error::type_(format!("approximate argument must be a str, not {}", v.kind_name()))),
    });
    Ok(params)
}

/// Twice the square root of 2 / pi, and the cubic coefficient of the tanh form (Hendrycks & Gimpel, arXiv:1606.08415).
const GELU_SCALE: f64 = 1.595_769_121_605_730_7;
const GELU_CUBIC: f64 = 0.044_715;
/// The density of the normal distribution at zero.
const DENSITY: f64 = 0.398_942_280_401_432_7;

op! {
    /// `self` times the normal distribution function of it, or (`approximate = "tanh"`) a close function by `tanh`.
    gelu: "gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
        InPlace INPLACE: "gelu_(Tensor(a!) self, *, str approximate=\"none\") -> Tensor(a!)",
        Out OUT: "gelu.out(Tensor self, *, str approximate=\"none\", Tensor(a!) out) -> Tensor(a!)";
    Body::Pointwise(&Pointwise {
        arity: 1,
        promotion: Promotion::Common,
        strips: strips! { floats |x; p| => {
            x.gelu::<I>()
        }, if p[0] == T::ZERO, halves {
            x * x.normal_of_half::<I>().0
        }, vectors {
            if p[0] == T::ZERO { T::gelu_vectors::<I, C>(x) } else { None }
        }, else {
            x * (T::from_f64(GELU_SCALE) * x * (T::ONE + T::from_f64(GELU_CUBIC) * x * x)).sigmoid::<I>()
        }; },
        params: gelu_params,
        text: &[("floats", "p[0] == 0 ? 0.5 * x * erfc(-x * M_SQRT1_2) : x * sigmoid(GELU_SCALE * x * (1 + 0.044715 * x * x))")],
        cpu_name: "GeluKernelImpl",
    });
    derivative: backward! {
        self_(g, self_: Tensor, approximate: String) => g.gelu_backward(&self_, &approximate)?,
    };
    samples: |m| [examples(&OP, m, -3.0, 3.0, &[]), examples(&OP, m, -3.0, 3.0, &["tanh".into()])].concat();
    // An error of an exponent counts as often as the exponent is large.
    ulp: 8.0;
    out_rule: crate::OutRule::UNCAST;
    fn gelu(&self, approximate: &str) -> Tensor [self, approximate];
    fn gelu_(&self, approximate: &str) -> Tensor [self, approximate] in INPLACE;
    out fn gelu_out(&self, approximate: &str) [self, approximate] in OUT;
}
op! {
    /// The gradient of [`Tensor::gelu`] at `x`, times `self`.
    gelu_backward: "gelu_backward(Tensor grad_output, Tensor self, *, str approximate=\"none\") -> Tensor",
        Out OUT: "gelu_backward.grad_input(Tensor grad_output, Tensor self, *, str approximate=\"none\", Tensor(a!) grad_input) -> Tensor(a!)";
    Body::Pointwise(&Pointwise {
        arity: 2,
        promotion: Promotion::Common,
        strips: strips! { floats |g, x; p| => {
            let (function, exponential) = x.normal::<I>();
            g * (function + x * (T::from_f64(DENSITY) * exponential))
        }, if p[0] == T::ZERO, halves {
            let (function, exponential) = x.normal_of_half::<I>();
            g * (function + x * (T::from_f64(DENSITY) * exponential))
        }, else {
            let (scale, cubic) = (T::from_f64(GELU_SCALE), T::from_f64(GELU_CUBIC) * x * x);
            let s = (scale * x * (T::ONE + cubic)).sigmoid::<I>();
            g * (s + x * (s * (T::ONE - s)) * (scale * (T::ONE + (T::TWO + T::ONE) * cubic)))
        }; },
        params: gelu_params,
        text: &[],
        cpu_name: "GeluBackwardKernelImpl",
    });
    derivative: backward! {
        grad_output(g, self_: Tensor, approximate: String) => g.gelu_backward(&self_, &approximate)?,
        self_(g, grad_output: Tensor, self_: Tensor, approximate: String) => {
            g.mul(&grad_output)?.mul(&gelu_curvature(&self_, &approximate)?)?
        },
    };
    samples: |m| [gradient_examples(&OP, m, -3.0, 3.0, &[]), gradient_examples(&OP, m, -3.0, 3.0, &["tanh".into()])].concat();
    // As [`gelu`]; around its zero at -0.75 terms cancel.
    ulp: 8.0;
    fn gelu_backward(&self, x: &Tensor, approximate: &str) -> Tensor [self, x, approximate];
}

/// The second derivative of gelu.
fn gelu_curvature(x: &Tensor, approximate: &str) -> Result<Tensor> {
    let square = x.mul(x)?;
    if approximate != "tanh" {
        return square.mul(-0.5)?.exp()?.mul(DENSITY)?.mul(&square.neg()?.add(2)?);
    }
    // With u the sigmoid's argument: s' (2 u' + x (u'^2 (1 - 2 s) + u'')).
    let u = square.mul(GELU_CUBIC)?.add(1)?.mul(x)?.mul(GELU_SCALE)?;
    let first = square.mul(3.0 * GELU_CUBIC)?.add(1)?.mul(GELU_SCALE)?;
    let second = x.mul(6.0 * GELU_CUBIC * GELU_SCALE)?;
    let s = u.sigmoid()?;
    let bend = first.mul(&first)?.mul(&s.mul(-2)?.add(1)?)?.add(&second)?.mul(x)?;
    s.mul(&s.neg()?.add(1)?)?.mul(&first.mul(2)?.add(&bend)?)
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[gelu::ALL, gelu_backward::ALL];
