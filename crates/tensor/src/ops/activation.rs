//! Activation functions and their gradients.

use super::unary::{examples, gradient_examples};
use crate::pointwise::{Params, Pointwise, compute_params, scalar_params};
use crate::promotion::{Promotion, result_type};
use crate::{Body, DType, Op, Operand, Result, Scalar, Tensor, Value, backward, ensure, sample};
use flambeau_cpu::math::complex;

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

/// Numbers from the arguments after the operands; absent ones have the given values.
pub(super) fn defaults<const N: usize>(args: &[Value<'_>], dtype: DType, values: [f64; N]) -> Result<Params> {
    let mut params = scalar_params(args, dtype)?;
    for (i, value) in values.into_iter().enumerate() {
        if matches!(args.get(i), None | Some(Value::None)) {
            params[i] = Scalar::Float(value);
        }
    }
    Ok(params)
}

/// A function with parameters: the schema's text of them, the method's signature and arguments, the expression.
macro_rules! activation {
    (
        $(#[doc = $doc:expr])*
        fn $name:ident $(, $inplace:ident)?; $out:ident: $text:literal, $cpu_name:literal;
        $sig:tt $args:tt
        $promotion:expr, |$values:ident, $dtype:ident| $params:expr;
        { $($strips:tt)* }
        derivative: $derivative:expr;
        samples: $samples:expr;
        $(out_rule: $rule:expr;)?
    ) => {
        op! {
            $(#[doc = $doc])*
            $name: concat!(stringify!($name), "(Tensor self, ", $text, ") -> Tensor")
                $(, InPlace INPLACE: concat!(stringify!($inplace), "(Tensor(a!) self, ", $text, ") -> Tensor(a!)"))?
                , Out OUT: concat!(stringify!($name), ".out(Tensor self, ", $text, ", *, Tensor(a!) out) -> Tensor(a!)");
            Body::Pointwise(&Pointwise {
                arity: 1,
                promotion: $promotion,
                strips: strips! { $($strips)* },
                params: |$values, $dtype| $params,
                text: strip_text! { $($strips)* },
                cpu_name: $cpu_name,
            });
            derivative: $derivative;
            samples: $samples;
            out_rule: [$($rule,)? crate::OutRule::UNCAST][0];
            fn $name $sig -> Tensor $args;
            $(fn $inplace $sig -> Tensor $args in INPLACE;)?
            out fn $out $sig $args in OUT;
        }
    };
}

/// The gradient of a function with parameters.
macro_rules! gradient_with {
    (
        $(#[doc = $doc:expr])*
        fn $name:ident: $grad:literal, $text:literal, $cpu_name:literal;
        $sig:tt $args:tt
        |$values:ident, $dtype:ident| $params:expr;
        { $($strips:tt)* }
        derivative: $derivative:expr;
        samples: $samples:expr;
    ) => {
        op! {
            $(#[doc = $doc])*
            $name: concat!(stringify!($name), "(Tensor ", $grad, ", Tensor self, ", $text, ") -> Tensor"),
                Out OUT: concat!(stringify!($name), ".grad_input(Tensor ", $grad, ", Tensor self, ", $text,
                    ", *, Tensor(a!) grad_input) -> Tensor(a!)");
            Body::Pointwise(&Pointwise {
                arity: 2,
                promotion: Promotion::Common,
                strips: strips! { $($strips)* },
                params: |$values, $dtype| $params,
                text: strip_text! { $($strips)* },
                cpu_name: $cpu_name,
            });
            derivative: $derivative;
            samples: $samples;
            fn $name $sig -> Tensor $args;
        }
    };
}

pub(super) use {activation, gradient_with};

// ---- tanh and sigmoid ---------------------------------------------------------------------------

unary! {
    /// The hyperbolic tangent.
    fn tanh, tanh_, tanh_out(x): Promotion::Float;
    { floats |x| x.tanh::<I>(); complexes scalar |x| complex::tanh::<I, R>(x); }
    derivative: backward! { self_(g, result: Tensor) => g.tanh_backward(&result)? };
    samples: |m| super::examples(&OP, m, -2.0, 2.0, &[]);
}
gradient! {
    /// The gradient of [`Tensor::tanh`]: `self * conj(1 - output^2)`.
    fn tanh_backward(grad_output, output) in (-0.9, 0.9);
    {
        floats light tensors |g, y| g * (T::ONE - y * y);
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
    { floats |x| x.sigmoid::<I>(); complexes scalar |x| complex::sigmoid::<I, R>(x); }
    derivative: backward! { self_(g, result: Tensor) => g.sigmoid_backward(&result)? };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
}
gradient! {
    /// The gradient of [`Tensor::sigmoid`]: `self * conj(output * (1 - output))`.
    fn sigmoid_backward(grad_output, output) in (0.1, 0.9);
    {
        floats light tensors |g, y| g * (y * (T::ONE - y));
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
    { ints |x| x.maximum(T::ZERO); floats light |x| if x < T::ZERO { T::ZERO } else { x }; }
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
            ints tensors |g, x; p| if x <= p[0] { T::ZERO } else { g };
            floats light tensors |g, x; p| if x <= p[0] { T::ZERO } else { g };
        },
        params: compute_params,
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

// ---- silu ---------------------------------------------------------------------------------------

unary! {
    /// `self * sigmoid(self)`.
    fn silu, silu_, silu_out(x): Promotion::Common;
    { floats |x| x * x.sigmoid::<I>(); complexes |x| x.mul(complex::sigmoid::<I, R>(x)); }
    derivative: backward! { self_(g, self_: Tensor) => g.silu_backward(&self_)? };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
    out_rule: crate::OutRule::UNCAST;
}
gradient! {
    /// The gradient of [`Tensor::silu`] at `x`, times `self`.
    fn silu_backward(grad_output, self) in (-3.0, 3.0);
    {
        floats costly |g, x| {
            let s = x.sigmoid::<I>();
            g * (s * (T::ONE + x * (T::ONE - s)))
        };
        complexes |g, x| {
            let (s, one) = (complex::sigmoid::<I, R>(x), crate::Complex::new(R::ONE, R::ZERO));
            g.mul(s.mul(one.add(x.mul(one.sub(s)))).conj())
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

// ---- functions of pieces ------------------------------------------------------------------------

activation! {
    /// The element where it is above `threshold`, `value` elsewhere.
    fn threshold, threshold_; threshold_out: "Scalar threshold, Scalar value", "threshold_cpu";
    (&self, threshold: impl Into<Scalar>, value: impl Into<Scalar>) [self, threshold.into(), value.into()]
    Promotion::Common, |args, dtype| {
        // What is compared with may be as large as the dtype computed in, what is written may not.
        let params = compute_params(args, dtype)?;
        params[1].fit(dtype)?;
        Ok(params)
    };
    { ints |x; p| if x <= p[0] { p[1] } else { x }; floats light |x; p| if x <= p[0] { p[1] } else { x }; }
    derivative: backward! { self_(g, self_: Tensor, threshold: Scalar) => g.threshold_backward(&self_, threshold)? };
    samples: |m| examples(&OP, m, 0.5, 3.0, &[1.into(), 2.into()]);
    out_rule: crate::OutRule::CASTABLE;
}
activation! {
    /// The element, times `negative_slope` where it is negative.
    fn leaky_relu, leaky_relu_; leaky_relu_out: "Scalar negative_slope=0.01", "leaky_relu_cpu";
    (&self, negative_slope: impl Into<Scalar>) [self, negative_slope.into()]
    Promotion::Common, |args, dtype| defaults(args, dtype.compute(), [0.01]);
    { floats |x; p| if x > T::ZERO { x } else { x * p[0] }; }
    derivative: backward! {
        self_(g, self_: Tensor, negative_slope: Scalar) => g.leaky_relu_backward(&self_, negative_slope, false)?
    };
    samples: |m| examples(&OP, m, 0.5, 3.0, &[0.1.into()]);
}
gradient_with! {
    /// The gradient of [`Tensor::leaky_relu`] at `x` (its argument, or its result if the slope is not negative), times
    /// `self`.
    fn leaky_relu_backward: "grad_output", "Scalar negative_slope, bool self_is_result", "leaky_relu_backward_cpu";
    (&self, x: &Tensor, negative_slope: impl Into<Scalar>, is_result: bool) [self, x, negative_slope.into(), is_result]
    |args, dtype| {
        let params = compute_params(args, dtype)?;
        ensure!(
            !params[1].to_bool() || params[0].to_f64() >= 0.0,
            "In-place leakyReLu backward calculation is triggered with a negative slope which is not supported. This is \
             caused by calling in-place forward function with a negative slope, please call out-of-place version instead."
        );
        Ok(params)
    };
    { floats light tensors |g, x; p| if x > T::ZERO { g } else { g * p[0] }; }
    derivative: backward! {
        grad_output(g, self_: Tensor, negative_slope: Scalar) => g.leaky_relu_backward(&self_, negative_slope, false)?,
        self_(g) => g.zeros_like()?,
    };
    samples: |m| gradient_examples(&OP, m, 0.5, 3.0, &[0.1.into(), false.into()]);
}

/// Hardtanh takes no booleans.
fn hardtanh_dtype(operands: &[Operand<'_>]) -> Result<DType> {
    let dtype = result_type(operands);
    ensure!(dtype != DType::Bool, "Bool inputs not supported for hardtanh");
    Ok(dtype)
}
activation! {
    /// The element clamped to `[min_val, max_val]`.
    fn hardtanh, hardtanh_; hardtanh_out: "Scalar min_val=-1, Scalar max_val=1", "clamp_scalar_cpu";
    (&self, min_val: impl Into<Scalar>, max_val: impl Into<Scalar>) [self, min_val.into(), max_val.into()]
    Promotion::Custom(hardtanh_dtype), |args, dtype| {
        let mut params = defaults(args, DType::F64, [-1.0, 1.0])?;
        if dtype.is_integral(false) {
            params = params.map(|p| Scalar::Int(p.to_i64()));
            ensure!(
                dtype.is_signed() || params.iter().all(|p| p.to_i64() >= 0),
                "cannot do hardtanh on an unsigned type with negative limits"
            );
        }
        for p in params {
            p.fit(dtype)?;
        }
        Ok(params)
    };
    {
        ints |x; p| x.maximum(p[0]).minimum(p[1]);
        floats light |x; p| {
            let raised = if x < p[0] { p[0] } else { x };
            if raised > p[1] { p[1] } else { raised }
        };
    }
    derivative: backward! {
        self_(g, self_: Tensor, min_val: Scalar, max_val: Scalar) => g.hardtanh_backward(&self_, min_val, max_val)?
    };
    samples: |m| {
        let least = if m.dtype.is_differentiable() || m.dtype.is_signed() { -1 } else { 0 };
        examples(&OP, m, 0.1, 0.9, &[least.into(), 1.into()])
    };
}
gradient_with! {
    /// The gradient of [`Tensor::hardtanh`] at `x`, times `self`: zero at the limits and beyond.
    fn hardtanh_backward: "grad_output", "Scalar min_val, Scalar max_val", "hardtanh_backward_cpu";
    (&self, x: &Tensor, min_val: impl Into<Scalar>, max_val: impl Into<Scalar>) [self, x, min_val.into(), max_val.into()]
    |args, dtype| compute_params(args, dtype);
    { floats light tensors |g, x; p| if (x <= p[0]) | (x >= p[1]) { T::ZERO } else { g }; }
    derivative: backward! {
        grad_output(g, self_: Tensor, min_val: Scalar, max_val: Scalar) => g.hardtanh_backward(&self_, min_val, max_val)?,
        self_(g) => g.zeros_like()?,
    };
    samples: |m| gradient_examples(&OP, m, 0.1, 0.9, &[(-1).into(), 1.into()]);
}
unary! {
    /// A sigmoid of three straight pieces: `self / 6 + 1/2` clamped to `[0, 1]`.
    fn hardsigmoid, hardsigmoid_, hardsigmoid_out(x): Promotion::Common;
    { floats light |x| ramp(x) / T::from_f64(6.0); }
    derivative: backward! { self_(g, self_: Tensor) => g.hardsigmoid_backward(&self_)? };
    samples: |m| super::examples(&OP, m, -2.0, 2.0, &[]);
    out_rule: crate::OutRule::UNCAST;
}

/// `x + 3` clamped to `[0, 6]`.
#[inline(always)]
fn ramp<T: flambeau_cpu::math::Float>(x: T) -> T {
    let (raised, six) = (x + T::from_f64(3.0), T::from_f64(6.0));
    let raised = if raised < T::ZERO { T::ZERO } else { raised };
    if raised > six { six } else { raised }
}
gradient! {
    /// The gradient of [`Tensor::hardsigmoid`] at `of`, times `self`.
    fn hardsigmoid_backward(grad_output, self) in (-2.0, 2.0);
    { floats light tensors |g, x| {
        let three = T::from_f64(3.0);
        if (x > -three) & (x < three) { g / T::from_f64(6.0) } else { T::ZERO }
    }; }
    derivative: backward! {
        grad_output(g, self_: Tensor) => g.hardsigmoid_backward(&self_)?,
        self_(g) => g.zeros_like()?,
    };
}
unary! {
    /// `self * hardsigmoid(self)`.
    fn hardswish, hardswish_, hardswish_out(x): Promotion::Common;
    { floats light |x| x * ramp(x) / T::from_f64(6.0); }
    derivative: backward! { self_(g, self_: Tensor) => g.hardswish_backward(&self_)? };
    samples: |m| super::examples(&OP, m, -2.0, 2.0, &[]);
    out_rule: crate::OutRule::UNCAST;
}
gradient! {
    /// The gradient of [`Tensor::hardswish`] at `of`, times `self`.
    fn hardswish_backward(grad_output, self) in (-2.0, 2.0);
    { floats light tensors |g, x| {
        let three = T::from_f64(3.0);
        // The sum is exact where it is small.
        let middle = if x < three { g * ((x + T::from_f64(1.5)) / three) } else { g };
        if x <= -three { T::ZERO } else { middle }
    }; }
    derivative: backward! {
        grad_output(g, self_: Tensor) => g.hardswish_backward(&self_)?,
        self_(g, grad_output: Tensor, self_: Tensor) => g.mul(&grad_output)?.hardsigmoid_backward(&self_)?.mul(2)?,
    };
}

// ---- exponential pieces -------------------------------------------------------------------------

activation! {
    /// `scale` times the element where it is positive, `scale * alpha * (exp(input_scale * self) - 1)` elsewhere.
    fn elu, elu_; elu_out: "Scalar alpha=1, Scalar scale=1, Scalar input_scale=1", "elu_cpu";
    (&self, alpha: impl Into<Scalar>, scale: impl Into<Scalar>, input_scale: impl Into<Scalar>)
    [self, alpha.into(), scale.into(), input_scale.into()]
    Promotion::Common, |args, dtype| defaults(args, dtype.compute(), [1.0, 1.0, 1.0]);
    { floats |x; p| {
        let below = (x * p[2]).expm1::<I>() * (p[0] * p[1]);
        if x < T::ZERO { below } else { x * p[1] }
    }; }
    derivative: backward! {
        self_(g, self_: Tensor, alpha: Scalar, scale: Scalar, input_scale: Scalar) => {
            g.elu_gradient(&self_, alpha, scale, input_scale, false)?
        }
    };
    samples: |m| [
        examples(&OP, m, 0.5, 3.0, &[1.into(), 1.into(), 1.into()]),
        examples(&OP, m, -3.0, -0.5, &[1.5.into(), 2.into(), 0.5.into()]),
    ].concat();
}
gradient_with! {
    /// The gradient of [`Tensor::elu`] at `x` (its argument, or its result if `alpha` is not negative), times `self`.
    fn elu_gradient: "grad_output", "Scalar alpha, Scalar scale, Scalar input_scale, bool is_result", "elu_backward_cpu";
    (&self, x: &Tensor, alpha: impl Into<Scalar>, scale: impl Into<Scalar>, input_scale: impl Into<Scalar>, is_result: bool)
    [self, x, alpha.into(), scale.into(), input_scale.into(), is_result]
    |args, dtype| {
        let params = compute_params(args, dtype)?;
        ensure!(
            !params[3].to_bool() || params[0].to_f64() >= 0.0,
            "In-place elu backward calculation is triggered with a negative slope which is not supported. This is caused \
             by calling in-place forward function with a negative slope, please call out-of-place version instead."
        );
        Ok(params)
    };
    { floats costly |g, x; p| {
        let factor = p[0] * p[1];
        let below = if p[3] != T::ZERO { x + factor } else { factor * (x * p[2]).exp::<I>() };
        g * (if x <= T::ZERO { p[2] * below } else { p[1] })
    }; }
    derivative: backward! {
        grad_output(g, self_: Tensor, alpha: Scalar, scale: Scalar, input_scale: Scalar, is_result: bool) => {
            g.elu_gradient(&self_, alpha, scale, input_scale, is_result)?
        },
        self_(g, grad_output: Tensor, self_: Tensor, alpha: Scalar, scale: Scalar, input_scale: Scalar, is_result: bool) => {
            let both = g.mul(&grad_output)?.mul(&self_.le(0)?)?;
            match is_result {
                true => both.mul(input_scale)?,
                false => both.elu_gradient(&self_, alpha, scale, input_scale, false)?.mul(input_scale)?,
            }
        },
    };
    samples: |m| gradient_examples(&OP, m, 0.5, 3.0, &[1.into(), 1.into(), 1.into(), false.into()]);
}

fn elu_backward_any(
    g: &Tensor,
    alpha: Scalar,
    scale: Scalar,
    input_scale: Scalar,
    is_result: bool,
    of: &Tensor,
) -> Result<Tensor> {
    g.elu_gradient(of, alpha, scale, input_scale, is_result)
}
op! {
    /// The gradient of [`Tensor::elu`], times `grad_output`: [`Tensor::elu_gradient`] in PyTorch's order of arguments.
    elu_backward: "elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor self_or_result) -> Tensor",
        Out OUT: "elu_backward.grad_input(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor self_or_result, *, Tensor(a!) grad_input) -> Tensor(a!)";
    Body::Composite(kernel!(elu_backward_any; g, alpha, scale, input_scale, is_result, of));
    samples: |m| if m.dtype.is_floating_point() { vec![sample![m.any(&[2, 3]), Scalar::Float(0.8), Scalar::Float(1.1), Scalar::Float(0.9), false, m.uniform(&[2, 3], -2.0, -0.2)], sample![m.any(&[2, 3]), Scalar::Float(0.8), Scalar::Float(1.1), Scalar::Float(0.9), true, m.uniform(&[2, 3], 0.2, 2.0)]] } else { vec![] };
}

fn celu_scale(alpha: Scalar) -> Result<Scalar> {
    ensure!(alpha.to_f64() != 0.0, "ZeroDivisionError: alpha cannot be 0 for CELU");
    Ok(Scalar::Float(1.0 / alpha.to_f64()))
}
fn celu_any(x: &Tensor, alpha: Scalar) -> Result<Tensor> {
    x.elu(alpha, 1, celu_scale(alpha)?)
}
fn celu_in_place(x: &Tensor, alpha: Scalar) -> Result<Tensor> {
    x.elu_(alpha, 1, celu_scale(alpha)?)
}
op! {
    /// `self` where it is positive, `alpha * (exp(self / alpha) - 1)` elsewhere.
    celu: "celu(Tensor self, Scalar alpha=1.) -> Tensor",
        Out OUT: "celu.out(Tensor self, Scalar alpha=1., *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(celu_any; x, alpha));
    derivative: backward! {
        self_(g, self_: Tensor, alpha: Scalar) => g.elu_gradient(&self_, alpha, 1, celu_scale(alpha)?, false)?
    };
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.uniform(&[2, 3], 0.5, 3.0), 1.5], sample![m.uniform(&[2, 3], -3.0, -0.5), 1.5]],
        false => vec![],
    };
    out_rule: crate::OutRule::EXACT;
    fn celu(&self, alpha: impl Into<Scalar>) -> Tensor [self, alpha.into()];
}
op! {
    /// [`Tensor::celu`] in place.
    celu_: "celu_(Tensor(a!) self, Scalar alpha=1.) -> Tensor(a!)";
    Body::Composite(kernel!(celu_in_place; x, alpha));
    fn celu_(&self, alpha: impl Into<Scalar>) -> Tensor [self, alpha.into()];
}
fn relu6_any(x: &Tensor) -> Result<Tensor> {
    x.hardtanh(0, 6)
}
fn relu6_in_place(x: &Tensor) -> Result<Tensor> {
    x.hardtanh_(0, 6)
}
op! {
    /// The element clamped to `[0, 6]`.
    relu6: "relu6(Tensor self) -> Tensor";
    Body::Composite(kernel!(relu6_any; x));
    samples: |m| match m.dtype.is_complex() || m.dtype == DType::Bool {
        true => vec![],
        false => vec![sample![m.uniform(&[2, 3], 1.0, 5.0)]],
    };
    fn relu6(&self) -> Tensor [self];
}
op! {
    /// [`Tensor::relu6`] in place.
    relu6_: "relu6_(Tensor(a!) self) -> Tensor(a!)";
    Body::Composite(kernel!(relu6_in_place; x));
    fn relu6_(&self) -> Tensor [self];
}

/// The constants of selu (Klambauer et al., arXiv:1706.02515).
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;
fn selu_any(x: &Tensor) -> Result<Tensor> {
    x.elu(SELU_ALPHA, SELU_SCALE, 1)
}
fn selu_in_place(x: &Tensor) -> Result<Tensor> {
    x.elu_(SELU_ALPHA, SELU_SCALE, 1)
}
op! {
    /// [`Tensor::elu`] with the constants that keep mean and variance.
    selu: "selu(Tensor self) -> Tensor";
    Body::Composite(kernel!(selu_any; x));
    samples: |m| match m.dtype.is_floating_point() {
        true => vec![sample![m.uniform(&[2, 3], 0.5, 3.0)]],
        false => vec![],
    };
    fn selu(&self) -> Tensor [self];
}
op! {
    /// [`Tensor::selu`] in place.
    selu_: "selu_(Tensor(a!) self) -> Tensor(a!)";
    Body::Composite(kernel!(selu_in_place; x));
    fn selu_(&self) -> Tensor [self];
}

activation! {
    /// `log(1 + exp(beta * self)) / beta`, and the element itself where `beta * self` is above `threshold`.
    fn softplus; softplus_out: "Scalar beta=1, Scalar threshold=20", "softplus_cpu";
    (&self, beta: impl Into<Scalar>, threshold: impl Into<Scalar>) [self, beta.into(), threshold.into()]
    Promotion::Common, |args, dtype| defaults(args, dtype.compute(), [1.0, 20.0]);
    { floats |x; p| {
        let scaled = x * p[0];
        let bent = scaled.exp::<I>().log1p::<I>() / p[0];
        if scaled > p[1] { x } else { bent }
    }; }
    derivative: backward! {
        self_(g, self_: Tensor, beta: Scalar, threshold: Scalar) => g.softplus_backward(&self_, beta, threshold)?
    };
    samples: |m| examples(&OP, m, -3.0, 3.0, &[1.5.into(), 20.into()]);
}
gradient_with! {
    /// The gradient of [`Tensor::softplus`] at `x`, times `self`.
    fn softplus_backward: "grad_output", "Scalar beta, Scalar threshold", "softplus_backward_cpu";
    (&self, x: &Tensor, beta: impl Into<Scalar>, threshold: impl Into<Scalar>) [self, x, beta.into(), threshold.into()]
    |args, dtype| compute_params(args, dtype);
    { floats costly |g, x; p| {
        let scaled = x * p[0];
        let bent = g * scaled.sigmoid::<I>();
        if scaled > p[1] { g } else { bent }
    }; }
    derivative: backward! {
        grad_output(g, self_: Tensor, beta: Scalar, threshold: Scalar) => g.softplus_backward(&self_, beta, threshold)?,
        self_(g, grad_output: Tensor, self_: Tensor, beta: Scalar, threshold: Scalar) => {
            let scaled = self_.mul(beta)?;
            let both = g.mul(&grad_output)?.mul(&scaled.le(threshold)?)?;
            both.sigmoid_backward(&scaled.sigmoid()?)?.mul(beta)?
        },
    };
    samples: |m| gradient_examples(&OP, m, -3.0, 3.0, &[1.5.into(), 20.into()]);
}
unary! {
    /// [`Tensor::log_sigmoid`] in the layout of the input.
    fn log_sigmoid_values, log_sigmoid_values_, log_sigmoid_values_out(x): Promotion::Common;
    { floats |x| (if x < T::ZERO { x } else { T::ZERO }) - (-x.abs::<I>()).exp::<I>().log1p::<I>(); }
    derivative: backward! { self_(g, self_: Tensor) => g.log_sigmoid_gradient(&self_)? };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
}
fn log_sigmoid_any(x: &Tensor) -> Result<Tensor> {
    if !x.dtype().is_floating_point() {
        return Err(super::reduce::not_for("log_sigmoid_cpu", x.dtype()));
    }
    x.contiguous()?.log_sigmoid_values()
}
op! {
    /// `log(sigmoid(self))`, in row-major order.
    log_sigmoid: "log_sigmoid(Tensor self) -> Tensor", Out OUT: "log_sigmoid.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)";
    Body::Explicit(kernel!(log_sigmoid_any; x));
    derivative: backward! { self_(g, self_: Tensor) => g.log_sigmoid_gradient(&self_)? };
    samples: |m| crate::samples::of(&log_sigmoid_values::OP, m);
    out_rule: crate::OutRule::dtype(crate::ops::norm::accessed);
    fn log_sigmoid(&self) -> Tensor [self];
}
gradient! {
    /// The gradient of [`Tensor::log_sigmoid`] at `of`, times `self`.
    fn log_sigmoid_gradient(grad_output, self) in (-3.0, 3.0);
    { floats costly |g, x| g * (-x).sigmoid::<I>(); }
    derivative: backward! {
        grad_output(g, self_: Tensor) => g.log_sigmoid_gradient(&self_)?,
        self_(g, grad_output: Tensor, self_: Tensor) => {
            g.mul(&grad_output)?.neg()?.sigmoid_backward(&self_.sigmoid()?)?
        },
    };
}
fn log_sigmoid_forward_any(x: &Tensor) -> Result<(Tensor, Tensor)> {
    Ok((x.log_sigmoid()?, Tensor::empty(&[0], (x.dtype(), x.device()))?))
}
fn log_sigmoid_backward_any(g: &Tensor, x: &Tensor, _buffer: &Tensor) -> Result<Tensor> {
    g.log_sigmoid_gradient(x)
}
op! {
    /// [`Tensor::log_sigmoid`], and an empty buffer: nothing needs to be kept for the gradient.
    log_sigmoid_forward: "log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)";
    Body::Composite(kernel!(log_sigmoid_forward_any; x));
    samples: |m| vec![sample![m.any(&[2, 3])]];
}
op! {
    /// The gradient of [`Tensor::log_sigmoid`]; the buffer is not read.
    log_sigmoid_backward: "log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor",
        Out OUT: "log_sigmoid_backward.grad_input(Tensor grad_output, Tensor self, Tensor buffer, *, Tensor(a!) grad_input) -> Tensor(a!)";
    Body::Composite(kernel!(log_sigmoid_backward_any; g, x, buffer));
    samples: |m| vec![sample![m.any(&[2, 3]), m.any(&[2, 3]), m.any(&[0])]];
}

/// `exp(x)` with `x` bounded so that products of results stay finite where the functions below are flat.
#[inline(always)]
fn bounded_exp<I: flambeau_cpu::math::Isa, T: flambeau_cpu::math::Float>(x: T) -> T {
    let bound = T::from_f64(40.0);
    (if x > bound { bound } else { x }).exp::<I>()
}
unary! {
    /// `self * tanh(softplus(self))` (Misra, arXiv:1908.08681).
    fn mish, mish_, mish_out(x): Promotion::Common;
    // tanh(log(1 + e)) = n / (n + 2) with n = e (e + 2).
    { floats |x| {
        let e = bounded_exp::<I, T>(x);
        let n = e * (e + T::TWO);
        x * (n / (n + T::TWO))
    }; }
    derivative: backward! { self_(g, self_: Tensor) => g.mish_backward(&self_)? };
    samples: |m| super::examples(&OP, m, -3.0, 3.0, &[]);
    out_rule: crate::OutRule::UNCAST;
}
gradient! {
    /// The gradient of [`Tensor::mish`] at `of`, times `self`.
    fn mish_backward(grad_output, self) in (-3.0, 3.0);
    { floats costly |g, x| {
        let e = bounded_exp::<I, T>(x);
        let n = e * (e + T::TWO);
        let rest = T::TWO / (n + T::TWO);
        // 1 - tanh^2, times the sigmoid.
        let slope = rest * (T::TWO - rest) * (e / (T::ONE + e));
        // Beyond the bound of the exponential the slope is nothing.
        let slope = if x > T::from_f64(40.0) { T::ZERO } else { slope };
        g * (n / (n + T::TWO) + x * slope)
    }; }
    derivative: backward! {
        grad_output(g, self_: Tensor) => g.mish_backward(&self_)?,
        self_(g, grad_output: Tensor, self_: Tensor) => {
            let (s, t) = (self_.sigmoid()?, self_.softplus(1, 20)?.tanh()?);
            // s (1 - t^2) (2 + x (1 - s - 2 s t))
            let bend = s.mul(&t.mul(2)?.add(1)?)?.neg()?.add(1)?.mul(&self_)?.add(2)?;
            g.mul(&grad_output)?.mul(&s.tanh_backward(&t)?)?.mul(&bend)?
        },
    };
}

/// All entries of this file.
pub static OPS: &[&[&Op]] = &[
    celu::ALL,
    celu_::ALL,
    elu::ALL,
    elu_backward::ALL,
    elu_gradient::ALL,
    hardsigmoid::ALL,
    hardsigmoid_backward::ALL,
    hardswish::ALL,
    hardswish_backward::ALL,
    hardtanh::ALL,
    hardtanh_backward::ALL,
    leaky_relu::ALL,
    leaky_relu_backward::ALL,
    log_sigmoid::ALL,
    log_sigmoid_backward::ALL,
    log_sigmoid_forward::ALL,
    log_sigmoid_gradient::ALL,
    log_sigmoid_values::ALL,
    mish::ALL,
    mish_backward::ALL,
    relu6::ALL,
    relu6_::ALL,
    relu::ALL,
    selu::ALL,
    selu_::ALL,
    sigmoid::ALL,
    sigmoid_backward::ALL,
    silu::ALL,
    silu_backward::ALL,
    softplus::ALL,
    softplus_backward::ALL,
    tanh::ALL,
    tanh_backward::ALL,
    threshold::ALL,
    threshold_backward::ALL,
];
