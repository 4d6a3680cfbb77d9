//! Activation functions and their gradients.

use super::unary::{examples, gradient_examples};
use crate::pointwise::{Params, Pointwise, scalar_params};
use crate::promotion::{Promotion, result_type};
use crate::{Body, DType, Error, Op, Operand, Result, Scalar, Tensor, Value, backward, ensure};

/// The gradient of a function: the gradient of its result, and the function's argument or result.
macro_rules! gradient {
    (
        $(#[doc = $doc:expr])*
        fn $name:ident($grad:ident, $of:ident) in ($low:expr, $high:expr);
        { $($strips:tt)* }
        derivative: $derivative:expr;
    ) => {
        op! {
            $(#[doc = $doc])*
            $name: concat!(stringify!($name), "(Tensor ", stringify!($grad), ", Tensor ", stringify!($of), ") -> Tensor"),
                Out OUT: concat!(stringify!($name), ".grad_input(Tensor ", stringify!($grad), ", Tensor ",
                    stringify!($of), ", *, Tensor(a!) grad_input) -> Tensor(a!)");
            Body::Pointwise(&Pointwise {
                arity: 2,
                promotion: Promotion::Common,
                strips: strips! { $($strips)* },
                params: scalar_params,
                text: strip_text! { $($strips)* },
                cpu_name: "",
            });
            derivative: $derivative;
            samples: |m| gradient_examples(&OP, m, $low, $high, &[]);
            fn $name(&self, of: &Tensor) -> Tensor [self, of];
        }
    };
}

// ---- tanh and sigmoid ---------------------------------------------------------------------------

unary! {
    /// The hyperbolic tangent.
    fn tanh, tanh_, tanh_out(x): Promotion::Float;
    { floats |x| x.tanh::<I>();  }
    derivative: backward! { self_(g, result: Tensor) => g.tanh_backward(&result)? };
    samples: |m| super::examples(&OP, m, -2.0, 2.0, &[]);
}
gradient! {
    /// The gradient of [`Tensor::tanh`]: `self * conj(1 - output^2)`.
    fn tanh_backward(grad_output, output) in (-0.9, 0.9);
    {
        floats |g, y| g * (T::ONE - y * y);
        complexes |g, y| g.mul(crate::Complex::new(R::ONE, R::ZERO).sub(y.square()).conj());
    }
    derivative: backward! {
        grad_output(g, output: Tensor) => g.tanh_backward(&output.conj()?)?,
        output(g, grad_output: Tensor, output: Tensor) => {
            g.conj()?.mul(&grad_output)?.mul(-2)?.mul(&output.conj()?)?
        },
    };
}
unary! {
    /// `1 / (1 + exp(-self))`.
    fn sigmoid, sigmoid_, sigmoid_out(x): Promotion::Float;
    { floats |x| x.sigmoid::<I>();  }
    derivative: backward! { self_(g, result: Tensor) => g.sigmoid_backward(&result)? };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
}
gradient! {
    /// The gradient of [`Tensor::sigmoid`]: `self * conj(output * (1 - output))`.
    fn sigmoid_backward(grad_output, output) in (0.1, 0.9);
    {
        floats |g, y| g * (y * (T::ONE - y));
        complexes |g, y| g.mul(y.mul(crate::Complex::new(R::ONE, R::ZERO).sub(y)).conj());
    }
    derivative: backward! {
        grad_output(g, output: Tensor) => g.sigmoid_backward(&output.conj()?)?,
        output(g, grad_output: Tensor, output: Tensor) => {
            g.conj()?.mul(&grad_output)?.mul(&output.conj()?.mul(-2)?.add(1)?)?
        },
    };
}

// ---- rectifiers ---------------------------------------------------------------------------------

fn relu_dtype(operands: &[Operand<'_>]) -> Result<DType> {
    let dtype = result_type(operands);
    ensure!(dtype != DType::Bool, "Boolean inputs not supported for relu");
    Ok(dtype)
}
unary! {
    /// The element where it is positive, zero elsewhere.
    fn relu, relu_, relu_out(x): Promotion::Custom(relu_dtype);
    { ints |x| x.maximum(T::ZERO); floats |x| if x < T::ZERO { T::ZERO } else { x }; }
    derivative: backward! { self_(g, result: Tensor) => g.threshold_backward(&result, 0)? };
    samples: |m| super::examples(&OP, m, 0.5, 3.0, &[]);
}
op! {
    /// The gradient of a threshold: `self` where `x` is above it, zero elsewhere.
    threshold_backward: "threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
        Out OUT: "threshold_backward.grad_input(Tensor grad_output, Tensor self, Scalar threshold, *, Tensor(a!) grad_input) -> Tensor(a!)";
    Body::Pointwise(&Pointwise {
        arity: 2,
        promotion: Promotion::Common,
        strips: strips! {
            ints |g, x; p| if x <= p[0] { T::ZERO } else { g };
            floats |g, x; p| if x <= p[0] { T::ZERO } else { g };
        },
        params: scalar_params,
        text: strip_text! { numbers |g, x; p| if x <= p[0] { 0 } else { g }; },
        cpu_name: "threshold_cpu",
    });
    derivative: backward! {
        grad_output(g, self_: Tensor, threshold: Scalar) => g.threshold_backward(&self_, threshold)?,
        self_(g) => g.zeros_like()?,
    };
    samples: |m| gradient_examples(&OP, m, 0.5, 3.0, &[1.into()]);
    fn threshold_backward(&self, x: &Tensor, threshold: impl Into<Scalar>) -> Tensor [self, x, threshold.into()];
}

// ---- gelu ---------------------------------------------------------------------------------------

/// The form of gelu as a parameter: 0 for the error function, 1 for the hyperbolic tangent.
fn gelu_params(args: &[Value<'_>]) -> Result<Params> {
    let mut params = crate::pointwise::NO_PARAMS;
    params[0] = Scalar::Int(match args.first() {
        None | Some(Value::None | Value::Str("none")) => 0,
        Some(Value::Str("tanh")) => 1,
        Some(Value::Str(s)) => {
            return Err(Error::runtime(format!("approximate argument must be either none or tanh, not {s}.")));
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
        strips: strips! { floats |x; p| if p[0] == T::ZERO {
            // The complement keeps the digits of the left tail.
            T::HALF * x * (x * T::from_f64(-std::f64::consts::FRAC_1_SQRT_2)).erfc::<I>()
        } else {
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
        strips: strips! { floats |g, x; p| if p[0] == T::ZERO {
            let below = T::HALF * (x * T::from_f64(-std::f64::consts::FRAC_1_SQRT_2)).erfc::<I>();
            g * (below + x * (T::from_f64(DENSITY) * (-T::HALF * x * x).exp::<I>()))
        } else {
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

// ---- silu ---------------------------------------------------------------------------------------

unary! {
    /// `self * sigmoid(self)`.
    fn silu, silu_, silu_out(x): Promotion::Common;
    { floats |x| x * x.sigmoid::<I>();  }
    derivative: backward! { self_(g, self_: Tensor) => g.silu_backward(&self_)? };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
}
gradient! {
    /// The gradient of [`Tensor::silu`] at `x`, times `self`.
    fn silu_backward(grad_output, self) in (-3.0, 3.0);
    {
        floats |g, x| {
            let s = x.sigmoid::<I>();
            g * (s * (T::ONE + x * (T::ONE - s)))
        };
    }
    derivative: backward! {
        grad_output(g, self_: Tensor) => g.silu_backward(&self_.conj()?)?,
        self_(g, grad_output: Tensor, self_: Tensor) => {
            let s = self_.sigmoid()?.conj()?;
            let bend = s.mul(-2)?.add(1)?.mul(&self_.conj()?)?.add(2)?;
            g.conj()?.mul(&grad_output)?.mul(&s.mul(&s.neg()?.add(1)?)?)?.mul(&bend)?
        },
    };
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    gelu::ALL,
    gelu_backward::ALL,
    relu::ALL,
    sigmoid::ALL,
    sigmoid_backward::ALL,
    silu::ALL,
    silu_backward::ALL,
    tanh::ALL,
    tanh_backward::ALL,
    threshold_backward::ALL,
];
