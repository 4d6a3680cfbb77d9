//! Functions that the standard library lacks, by their textbook formulas.

use flambeau::Complex64;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};

/// To the nearest integer, the even one of two.
pub(crate) fn round_even(x: f64) -> f64 {
    x.round_ties_even()
}

/// `1 / (1 + exp(-x))`.
pub(crate) fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The logarithm of [`logistic`].
pub(crate) fn log_logistic(x: f64) -> f64 {
    x.min(0.0) - (-x.abs()).exp().ln_1p()
}

/// NaN if either is.
pub(crate) fn larger(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    if x > y { x } else { y }
}

/// The normal distribution function.
pub(crate) fn ndtr(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// The argument of the logistic function in gelu's close form, and its derivative.
fn gelu_argument(x: f64) -> (f64, f64) {
    let scale = 2.0 * (2.0 / PI).sqrt();
    (scale * (x + 0.044715 * x * x * x), scale * (1.0 + 3.0 * 0.044715 * x * x))
}

/// `x` times the normal distribution function of it, or the close form.
pub(crate) fn gelu(x: f64, close: bool) -> f64 {
    if close { x * logistic(gelu_argument(x).0) } else { x * ndtr(x) }
}

/// The derivative of [`gelu`].
pub(crate) fn gelu_slope(x: f64, close: bool) -> f64 {
    if close {
        let (u, slope) = gelu_argument(x);
        return logistic(u) + x * logistic(u) * logistic(-u) * slope;
    }
    let density = 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * (-0.5 * x * x).exp();
    ndtr(x) + x * density
}

/// `sin(pi x) / (pi x)`; zero at whole numbers but 0.
pub(crate) fn sinc(x: f64) -> f64 {
    match x {
        0.0 => 1.0,
        x if x == x.trunc() => 0.0,
        x => (PI * x).sin() / (PI * x),
    }
}

/// A complex power of a complex number.
pub(crate) fn power(x: Complex64, y: Complex64) -> Complex64 {
    let zero = Complex64::new(0.0, 0.0);
    match (x == zero, y == zero) {
        (_, true) => Complex64::new(1.0, 0.0),
        (true, _) => zero,
        _ => (y * x.ln()).exp(),
    }
}
