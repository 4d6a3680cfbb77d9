//! Functions of one element of each operand: tables of names and formulas.
//!
//! A formula is given one element of each operand and the numbers that follow them in the schema, all as the same sort of
//! number: `f64` for real dtypes, `i128` for integers and booleans (so that none overflows), `Complex64` for complex ones.
//! Operands are converted to the common dtype first. Truth is one or zero.

use crate::array::{Array, Kind, outline, write};
use crate::functions::{gelu, gelu_slope, larger, log_logistic, logistic, ndtr, power, round_even, sinc};
use crate::{Kernel, losses, special};
use flambeau::schema::Default;
use flambeau::value::take;
use flambeau::{Complex64, DType, Key, KeySet, Op, Operand, Outputs, Result, Scalar, Tensor, Value, promotion};
use std::cmp::Ordering;

pub(crate) type Real = (&'static str, usize, fn(&[f64]) -> f64);
type Integer = (&'static str, usize, fn(&[i128]) -> i128);
type Complex = (&'static str, usize, fn(&[Complex64]) -> Complex64);

const REAL: &[Real] = &[
    // One operand.
    ("neg", 1, |a| -a[0]),
    ("abs", 1, |a| a[0].abs()),
    ("square", 1, |a| a[0] * a[0]),
    ("sign", 1, |a| sign(a[0])),
    ("sgn", 1, |a| sign(a[0])),
    ("relu", 1, |a| if a[0] < 0.0 { 0.0 } else { a[0] }),
    ("floor", 1, |a| a[0].floor()),
    ("ceil", 1, |a| a[0].ceil()),
    ("trunc", 1, |a| a[0].trunc()),
    ("round", 1, |a| round_even(a[0])),
    ("frac", 1, |a| a[0] - a[0].trunc()),
    ("reciprocal", 1, |a| 1.0 / a[0]),
    ("sqrt", 1, |a| a[0].sqrt()),
    ("rsqrt", 1, |a| 1.0 / a[0].sqrt()),
    ("exp", 1, |a| a[0].exp()),
    ("exp2", 1, |a| a[0].exp2()),
    ("expm1", 1, |a| a[0].exp_m1()),
    ("log", 1, |a| a[0].ln()),
    ("log2", 1, |a| a[0].log2()),
    ("log10", 1, |a| a[0].log10()),
    ("log1p", 1, |a| a[0].ln_1p()),
    ("sin", 1, |a| a[0].sin()),
    ("cos", 1, |a| a[0].cos()),
    ("tan", 1, |a| a[0].tan()),
    ("asin", 1, |a| a[0].asin()),
    ("acos", 1, |a| a[0].acos()),
    ("atan", 1, |a| a[0].atan()),
    ("sinh", 1, |a| a[0].sinh()),
    ("cosh", 1, |a| a[0].cosh()),
    ("tanh", 1, |a| a[0].tanh()),
    ("asinh", 1, |a| libm::asinh(a[0])),
    ("acosh", 1, |a| libm::acosh(a[0])),
    ("atanh", 1, |a| libm::atanh(a[0])),
    ("deg2rad", 1, |a| a[0].to_radians()),
    ("rad2deg", 1, |a| a[0].to_degrees()),
    ("erf", 1, |a| libm::erf(a[0])),
    ("erfc", 1, |a| libm::erfc(a[0])),
    ("lgamma", 1, |a| libm::lgamma(a[0])),
    ("special_ndtr", 1, |a| ndtr(a[0])),
    ("special_entr", 1, |a| if a[0] == 0.0 { 0.0 } else { -a[0] * a[0].ln() }),
    ("sinc", 1, |a| sinc(a[0])),
    ("sigmoid", 1, |a| logistic(a[0])),
    ("silu", 1, |a| a[0] * logistic(a[0])),
    ("mish", 1, |a| a[0] * a[0].exp().ln_1p().tanh()),
    ("log_sigmoid_values", 1, |a| log_logistic(a[0])),
    ("hardsigmoid", 1, |a| (a[0] + 3.0).clamp(0.0, 6.0) / 6.0),
    ("hardswish", 1, |a| a[0] * (a[0] + 3.0).clamp(0.0, 6.0) / 6.0),
    ("isnan", 1, |a| truth(a[0].is_nan())),
    ("isinf", 1, |a| truth(a[0].is_infinite())),
    ("isfinite", 1, |a| truth(a[0].is_finite())),
    ("isposinf", 1, |a| truth(a[0] == f64::INFINITY)),
    ("isneginf", 1, |a| truth(a[0] == f64::NEG_INFINITY)),
    ("signbit", 1, |a| truth(a[0].is_sign_negative())),
    ("_angle", 1, |a| if a[0] < 0.0 { std::f64::consts::PI } else { a[0].abs() * 0.0 }),
    ("logical_not", 1, |a| truth(a[0] == 0.0)),
    // One operand and numbers.
    ("round.decimals", 1, |a| {
        let scale = 10f64.powf(a[1].abs());
        if a[1] < 0.0 { round_even(a[0] / scale) * scale } else { round_even(a[0] * scale) / scale }
    }),
    ("leaky_relu", 1, |a| if a[0] > 0.0 { a[0] } else { a[0] * a[1] }),
    ("threshold", 1, |a| if a[0] <= a[1] { a[2] } else { a[0] }),
    ("hardtanh", 1, |a| a[0].clamp(a[1], a[2])),
    ("hardshrink", 1, |a| if a[0].abs() <= a[1] { 0.0 } else { a[0] }),
    ("softshrink", 1, |a| if a[0].abs() <= a[1] { 0.0 } else { a[0] - a[1].copysign(a[0]) }),
    ("softplus", 1, |a| if a[0] * a[1] > a[2] { a[0] } else { (a[0] * a[1]).exp().ln_1p() / a[1] }),
    ("elu", 1, |a| if a[0] > 0.0 { a[2] * a[0] } else { a[2] * a[1] * (a[3] * a[0]).exp_m1() }),
    ("logit", 1, |a| {
        let x = if a[1].is_nan() { a[0] } else { a[0].clamp(a[1], 1.0 - a[1]) };
        (x / (1.0 - x)).ln()
    }),
    ("gelu", 1, |a| gelu(a[0], a[1] != 0.0)),
    ("_nan_to_num", 1, |a| match a[0] {
        x if x.is_nan() => a[1],
        f64::INFINITY => a[2],
        f64::NEG_INFINITY => a[3],
        x => x,
    }),
    // Two operands.
    ("mul.Tensor", 2, |a| a[0] * a[1]),
    ("div.Tensor", 2, |a| a[0] / a[1]),
    ("add.Tensor", 2, |a| a[0] + a[2] * a[1]),
    ("sub.Tensor", 2, |a| a[0] - a[2] * a[1]),
    ("rsub.Tensor", 2, |a| a[1] - a[2] * a[0]),
    ("div_trunc.Tensor", 2, |a| (a[0] / a[1]).trunc()),
    ("floor_divide", 2, |a| (a[0] / a[1]).floor()),
    ("fmod.Tensor", 2, |a| a[0] % a[1]),
    ("remainder.Tensor", 2, |a| a[0] - a[1] * (a[0] / a[1]).floor()),
    ("maximum", 2, |a| larger(a[0], a[1])),
    ("minimum", 2, |a| -larger(-a[0], -a[1])),
    ("clamp_min", 2, |a| larger(a[0], a[1])),
    ("clamp_max", 2, |a| -larger(-a[0], -a[1])),
    ("fmax", 2, |a| a[0].max(a[1])),
    ("fmin", 2, |a| a[0].min(a[1])),
    ("atan2", 2, |a| a[0].atan2(a[1])),
    ("hypot", 2, |a| a[0].hypot(a[1])),
    ("copysign.Tensor", 2, |a| a[0].copysign(a[1])),
    ("heaviside", 2, |a| if a[0] == 0.0 { a[1] } else { truth(a[0] > 0.0) }),
    ("pow.Tensor_Tensor", 2, |a| a[0].powf(a[1])),
    ("logaddexp", 2, |a| a[0].max(a[1]) + (-(a[0] - a[1]).abs()).exp().ln_1p()),
    ("logaddexp2", 2, |a| a[0].max(a[1]) + (1.0 + (-(a[0] - a[1]).abs()).exp2()).log2()),
    ("xlogy.Tensor", 2, |a| if a[0] == 0.0 { 0.0 } else { a[0] * a[1].ln() }),
    ("special_xlog1py", 2, |a| if a[0] == 0.0 { 0.0 } else { a[0] * a[1].ln_1p() }),
    ("eq.Tensor", 2, |a| truth(a[0] == a[1])),
    ("ne.Tensor", 2, |a| truth(a[0] != a[1])),
    ("lt.Tensor", 2, |a| truth(a[0] < a[1])),
    ("le.Tensor", 2, |a| truth(a[0] <= a[1])),
    ("gt.Tensor", 2, |a| truth(a[0] > a[1])),
    ("ge.Tensor", 2, |a| truth(a[0] >= a[1])),
    ("logical_and", 2, |a| truth(a[0] != 0.0 && a[1] != 0.0)),
    ("logical_or", 2, |a| truth(a[0] != 0.0 || a[1] != 0.0)),
    ("logical_xor", 2, |a| truth((a[0] != 0.0) != (a[1] != 0.0))),
    ("masked_fill.Scalar", 2, |a| if a[1] != 0.0 { a[2] } else { a[0] }),
    ("_prelu_kernel", 2, |a| if a[0] > 0.0 { a[0] } else { a[0] * a[1] }),
    ("_glu", 2, |a| a[0] * logistic(a[1])),
    // Gradients: that of the result, then the argument or result.
    ("tanh_backward", 2, |a| a[0] * (1.0 - a[1] * a[1])),
    ("sigmoid_backward", 2, |a| a[0] * a[1] * (1.0 - a[1])),
    ("silu_backward", 2, |a| a[0] * logistic(a[1]) * (1.0 + a[1] * (1.0 - logistic(a[1])))),
    ("threshold_backward", 2, |a| if a[1] <= a[2] { 0.0 } else { a[0] }),
    ("leaky_relu_backward", 2, |a| if a[1] > 0.0 { a[0] } else { a[0] * a[2] }),
    ("hardtanh_backward", 2, |a| if a[1] > a[2] && a[1] < a[3] { a[0] } else { 0.0 }),
    ("hardshrink_backward", 2, |a| if a[1].abs() <= a[2] { 0.0 } else { a[0] }),
    ("softshrink_backward", 2, |a| if a[1].abs() <= a[2] { 0.0 } else { a[0] }),
    ("hardsigmoid_backward", 2, |a| if a[1].abs() < 3.0 { a[0] / 6.0 } else { 0.0 }),
    ("hardswish_backward", 2, |a| a[0] * ((a[1] + 1.5) / 3.0 * truth(a[1] > -3.0 && a[1] < 3.0) + truth(a[1] >= 3.0))),
    ("log_sigmoid_gradient", 2, |a| a[0] * logistic(-a[1])),
    ("gelu_backward", 2, |a| a[0] * gelu_slope(a[1], a[2] != 0.0)),
    ("softplus_backward", 2, |a| if a[1] * a[2] > a[3] { a[0] } else { a[0] * logistic(a[1] * a[2]) }),
    ("logit_backward", 2, |a| {
        let low = if a[2].is_nan() { 0.0 } else { a[2] };
        if a[1] >= low && a[1] <= 1.0 - low { a[0] / (a[1] * (1.0 - a[1])) } else { 0.0 }
    }),
    ("elu_gradient", 2, |a| match (a[1] > 0.0, a[5] != 0.0) {
        (true, _) => a[0] * a[3],
        (false, false) => a[0] * a[4] * a[2] * a[3] * (a[1] * a[4]).exp(),
        (false, true) => a[0] * a[4] * (a[1] + a[2] * a[3]),
    }),
    ("mish_backward", 2, |a| {
        let (s, t) = (logistic(a[1]), a[1].exp().ln_1p().tanh());
        a[0] * (t + a[1] * s * (1.0 - t * t))
    }),
    // Three operands.
    ("where.self", 3, |a| if a[0] != 0.0 { a[1] } else { a[2] }),
    ("clamp_between", 3, |a| -larger(-larger(a[0], a[1]), -a[2])),
    ("lerp.Tensor", 3, |a| a[0] + a[2] * (a[1] - a[0])),
    ("addcmul", 3, |a| a[0] + a[3] * a[1] * a[2]),
    ("addcdiv", 3, |a| a[0] + a[3] * (a[1] / a[2])),
    ("_prelu_gradient", 3, |a| if a[1] > 0.0 { a[0] } else { a[0] * a[2] }),
];

const INTEGER: &[Integer] = &[
    ("neg", 1, |a| -a[0]),
    ("abs", 1, |a| a[0].abs()),
    ("square", 1, |a| a[0].wrapping_mul(a[0])),
    ("sign", 1, |a| a[0].signum()),
    ("sgn", 1, |a| a[0].signum()),
    ("relu", 1, |a| a[0].max(0)),
    ("floor", 1, |a| a[0]),
    ("ceil", 1, |a| a[0]),
    ("trunc", 1, |a| a[0]),
    ("round", 1, |a| a[0]),
    ("bitwise_not", 1, |a| !a[0]),
    ("logical_not", 1, |a| (a[0] == 0).into()),
    ("isnan", 1, |_| 0),
    ("isinf", 1, |_| 0),
    ("isfinite", 1, |_| 1),
    ("isposinf", 1, |_| 0),
    ("isneginf", 1, |_| 0),
    ("signbit", 1, |a| (a[0] < 0).into()),
    ("threshold", 1, |a| if a[0] <= a[1] { a[2] } else { a[0] }),
    ("hardtanh", 1, |a| a[0].max(a[1]).min(a[2])),
    ("mul.Tensor", 2, |a| a[0].wrapping_mul(a[1])),
    ("add.Tensor", 2, |a| a[0] + a[2] * a[1]),
    ("sub.Tensor", 2, |a| a[0] - a[2] * a[1]),
    ("rsub.Tensor", 2, |a| a[1] - a[2] * a[0]),
    ("maximum", 2, |a| a[0].max(a[1])),
    ("minimum", 2, |a| a[0].min(a[1])),
    ("clamp_min", 2, |a| a[0].max(a[1])),
    ("clamp_max", 2, |a| a[0].min(a[1])),
    ("fmax", 2, |a| a[0].max(a[1])),
    ("fmin", 2, |a| a[0].min(a[1])),
    ("gcd", 2, |a| gcd(a[0], a[1])),
    ("lcm", 2, |a| if a[0] * a[1] == 0 { 0 } else { (a[0] * a[1]).abs() / gcd(a[0], a[1]) }),
    ("heaviside", 2, |a| if a[0] == 0 { a[1] } else { (a[0] > 0).into() }),
    ("bitwise_and.Tensor", 2, |a| a[0] & a[1]),
    ("bitwise_or.Tensor", 2, |a| a[0] | a[1]),
    ("bitwise_xor.Tensor", 2, |a| a[0] ^ a[1]),
    // The bits beyond those of the dtype are dropped; a count of bits that there are not shifts all of them out.
    ("bitwise_left_shift.Tensor", 2, |a| if (0..64).contains(&a[1]) { a[0] << a[1] } else { 0 }),
    ("bitwise_right_shift.Tensor", 2, |a| a[0] >> if (0..64).contains(&a[1]) { a[1] } else { 64 }),
    ("logical_and", 2, |a| (a[0] != 0 && a[1] != 0).into()),
    ("logical_or", 2, |a| (a[0] != 0 || a[1] != 0).into()),
    ("logical_xor", 2, |a| ((a[0] != 0) != (a[1] != 0)).into()),
    ("eq.Tensor", 2, |a| (a[0] == a[1]).into()),
    ("ne.Tensor", 2, |a| (a[0] != a[1]).into()),
    ("lt.Tensor", 2, |a| (a[0].cmp(&a[1]) == Ordering::Less).into()),
    ("le.Tensor", 2, |a| (a[0] <= a[1]).into()),
    ("gt.Tensor", 2, |a| (a[0] > a[1]).into()),
    ("ge.Tensor", 2, |a| (a[0] >= a[1]).into()),
    ("masked_fill.Scalar", 2, |a| if a[1] != 0 { a[2] } else { a[0] }),
    ("threshold_backward", 2, |a| if a[1] <= a[2] { 0 } else { a[0] }),
    ("where.self", 3, |a| if a[0] != 0 { a[1] } else { a[2] }),
    ("clamp_between", 3, |a| a[0].max(a[1]).min(a[2])),
    ("addcmul", 3, |a| a[0].wrapping_add(a[3].wrapping_mul(a[1]).wrapping_mul(a[2]))),
];

const COMPLEX: &[Complex] = &[
    ("neg", 1, |a| -a[0]),
    ("abs", 1, |a| a[0].norm().into()),
    ("_angle", 1, |a| a[0].arg().into()),
    ("_conj_physical", 1, |a| a[0].conj()),
    ("square", 1, |a| a[0] * a[0]),
    ("sgn", 1, |a| if a[0].norm() == 0.0 { a[0] * 0.0 } else { a[0] / a[0].norm() }),
    ("sqrt", 1, |a| a[0].sqrt()),
    ("exp", 1, |a| a[0].exp()),
    ("sin", 1, |a| a[0].sin()),
    ("cos", 1, |a| a[0].cos()),
    ("tan", 1, |a| a[0].tan()),
    ("sinh", 1, |a| a[0].sinh()),
    ("cosh", 1, |a| a[0].cosh()),
    ("tanh", 1, |a| a[0].tanh()),
    ("log", 1, |a| a[0].ln()),
    ("reciprocal", 1, |a| a[0].inv()),
    ("sigmoid", 1, |a| one() / (one() + (-a[0]).exp())),
    ("silu", 1, |a| a[0] / (one() + (-a[0]).exp())),
    ("isnan", 1, |a| truth(a[0].is_nan()).into()),
    ("isinf", 1, |a| truth(a[0].is_infinite()).into()),
    ("isfinite", 1, |a| truth(a[0].is_finite()).into()),
    ("logical_not", 1, |a| truth(a[0] == 0.0.into()).into()),
    ("mul.Tensor", 2, |a| a[0] * a[1]),
    ("div.Tensor", 2, |a| a[0] / a[1]),
    ("add.Tensor", 2, |a| a[0] + a[2] * a[1]),
    ("sub.Tensor", 2, |a| a[0] - a[2] * a[1]),
    ("rsub.Tensor", 2, |a| a[1] - a[2] * a[0]),
    ("pow.Tensor_Tensor", 2, |a| power(a[0], a[1])),
    ("eq.Tensor", 2, |a| truth(a[0] == a[1]).into()),
    ("ne.Tensor", 2, |a| truth(a[0] != a[1]).into()),
    ("logical_and", 2, |a| truth(a[0].norm() != 0.0 && a[1].norm() != 0.0).into()),
    ("logical_or", 2, |a| truth(a[0].norm() != 0.0 || a[1].norm() != 0.0).into()),
    ("logical_xor", 2, |a| truth((a[0].norm() != 0.0) != (a[1].norm() != 0.0)).into()),
    ("masked_fill.Scalar", 2, |a| if a[1].re != 0.0 { a[2] } else { a[0] }),
    ("tanh_backward", 2, |a| a[0] * (one() - a[1] * a[1]).conj()),
    ("sigmoid_backward", 2, |a| a[0] * (a[1] * (one() - a[1])).conj()),
    ("where.self", 3, |a| if a[0].re != 0.0 { a[1] } else { a[2] }),
    ("lerp.Tensor", 3, |a| a[0] + a[2] * (a[1] - a[0])),
    ("addcmul", 3, |a| a[0] + a[3] * a[1] * a[2]),
    ("addcdiv", 3, |a| a[0] + a[3] * (a[1] / a[2])),
];

fn one() -> Complex64 {
    Complex64::new(1.0, 0.0)
}

fn truth(b: bool) -> f64 {
    b.into()
}

fn sign(x: f64) -> f64 {
    match x {
        x if x > 0.0 => 1.0,
        x if x < 0.0 => -1.0,
        x => x * 0.0,
    }
}

fn gcd(x: i128, y: i128) -> i128 {
    if y == 0 { x.abs() } else { gcd(y, x % y) }
}

/// The formulas of real numbers in all files.
fn reals() -> impl Iterator<Item = &'static Real> {
    REAL.iter().chain(losses::REAL).chain(special::REAL)
}

/// The operators that have kernels here.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let integers = INTEGER.iter().map(|f| f.0).filter(|n| !reals().any(|f| f.0 == *n));
    let complexes = COMPLEX.iter().map(|f| f.0).filter(|n| !reals().any(|f| f.0 == *n));
    reals().map(|f| f.0).chain(integers).chain(complexes)
}

/// What has two results, or hangs on the dtype.
pub(crate) const KERNELS: &[(&str, Kernel)] = &[("frexp.Tensor", frexp), ("nextafter_wide", nextafter)];

/// Mantissas in `[1/2, 1)` and exponents of two.
fn frexp(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let outs = outline(op, args)?;
    let (mantissas, exponents): (Vec<f64>, Vec<i64>) = Array::<f64>::read(take(op, args, 0)?)?
        .data
        .into_iter()
        .map(|x| {
            let (mantissa, exponent) = libm::frexp(x);
            (mantissa, i64::from(exponent))
        })
        .unzip();
    Ok(vec![write(&outs[0], &mantissas)?, write(&outs[1], &exponents)?].into())
}

/// The next number of the dtype in a direction.
fn nextafter(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let out = outline(op, args)?.remove(0);
    let (x, y): (&Tensor, &Tensor) = (take(op, args, 0)?, take(op, args, 1)?);
    let operands = [x.to_dtype(out.dtype())?, y.to_dtype(out.dtype())?];
    let next = |e: Vec<f64>| match out.dtype() {
        DType::F32 => libm::nextafterf(e[0] as f32, e[1] as f32).into(),
        _ => libm::nextafter(e[0], e[1]),
    };
    write(&out, &elements::<f64>(&operands, &out)?.into_iter().map(next).collect::<Vec<_>>()).map(Outputs::from)
}

/// The kernel of them all.
pub(crate) fn kernel(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    let out = outline(op, args)?.remove(0);
    let name = match op.functional().full_name() {
        "bitwise_not" if out.dtype() == DType::Bool => "logical_not",
        name => name,
    };
    let arity = reals().map(|f| (f.0, f.1)).chain(INTEGER.iter().map(|f| (f.0, f.1)));
    let arity = arity.chain(COMPLEX.iter().map(|f| (f.0, f.1))).find(|f| f.0 == name).map_or(1, |f| f.1);
    let operands = (0..arity).map(|i| take(op, args, i)).collect::<Result<Vec<Operand>>>()?;
    // A condition has no say in the dtype.
    let common = promotion::result_type(&operands[usize::from(name == "where.self")..]);
    let common =
        if Kind::of(common) == Kind::Integer && Kind::of(out.dtype()) != Kind::Integer { out.dtype() } else { common };
    let numbers: Vec<Scalar> = (arity..op.schema().params.len())
        .filter(|i| !op.schema().params[*i].alias.as_ref().is_some_and(|a| a.write))
        .map(|i| number(op, args, i))
        .collect();
    let operands = operands.iter().map(|x| operand(x, common)).collect::<Result<Vec<_>>>()?;
    match Kind::of(common) {
        Kind::Integer => {
            let Some((.., f)) = INTEGER.iter().find(|f| f.0 == name) else { return on_cpu(op, args) };
            let unsigned = common == DType::U64;
            let wide = |x: i64| if unsigned { (x as u64).into() } else { x.into() };
            let numbers: Vec<i128> = numbers.iter().map(|n| n.to_i64().into()).collect();
            let elements = elements::<i64>(&operands, &out)?;
            let results =
                elements.iter().map(|e| f(&[&e.iter().map(|x| wide(*x)).collect::<Vec<_>>()[..], &numbers].concat()));
            write(&out, &results.map(|x| x as i64).collect::<Vec<_>>())
        }
        Kind::Real => {
            let Some((.., f)) = reals().find(|f| f.0 == name) else { return on_cpu(op, args) };
            let numbers: Vec<f64> = numbers.iter().map(|n| n.to_f64()).collect();
            let results = elements::<f64>(&operands, &out)?.into_iter().map(|e| f(&[&e[..], &numbers].concat()));
            write(&out, &results.collect::<Vec<_>>())
        }
        Kind::Complex => {
            let Some((.., f)) = COMPLEX.iter().find(|f| f.0 == name) else { return on_cpu(op, args) };
            let numbers: Vec<Complex64> =
                numbers.iter().map(|n| <Complex64 as flambeau::Element>::from_scalar(*n)).collect();
            let results = elements::<Complex64>(&operands, &out)?.into_iter().map(|e| f(&[&e[..], &numbers].concat()));
            write(&out, &results.collect::<Vec<_>>())
        }
    }
    .map(Outputs::from)
}

fn on_cpu(op: &'static Op, args: &[Value<'_>]) -> Result<Outputs> {
    op.redispatch(KeySet::of(Key::CPU), args)
}

/// One element of each operand, broadcast, for each element of the result.
fn elements<T: flambeau::Element>(operands: &[Tensor], out: &Tensor) -> Result<Vec<Vec<T>>> {
    let operands = operands.iter().map(|x| Array::<T>::read_as(x, out.sizes())).collect::<Result<Vec<_>>>()?;
    Ok((0..out.numel() as usize).map(|i| operands.iter().map(|x| x.data[i]).collect()).collect())
}

fn operand(x: &Operand, dtype: DType) -> Result<Tensor> {
    match x {
        Operand::Tensor(t) => t.to_dtype(dtype),
        Operand::Scalar(s) => Tensor::full(&[], *s, dtype),
    }
}

/// Argument `i` as a number: NaN if it is none, whether a text names another form.
fn number(op: &'static Op, args: &[Value<'_>], i: usize) -> Scalar {
    match (args.get(i), &op.schema().params[i].default) {
        (Some(Value::Scalar(s)), _) => *s,
        (Some(Value::Int(i)), _) => Scalar::Int(*i),
        (Some(Value::Float(x)), _) => Scalar::Float(*x),
        (Some(Value::Bool(b)), _) => Scalar::Bool(*b),
        (Some(Value::Str(s)), _) => Scalar::Bool(*s != "none"),
        (None, Some(Default::Scalar(s))) => *s,
        (None, Some(Default::Str(s))) => Scalar::Bool(s != "none"),
        _ => Scalar::Float(f64::NAN),
    }
}
