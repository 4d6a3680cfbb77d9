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

/// The modified Bessel function of order `n`, by its power series (Abramowitz & Stegun 9.6.10).
fn bessel(n: i32, x: f64) -> f64 {
    if x.abs() > 720.0 {
        return f64::INFINITY.copysign(if n % 2 == 1 { x } else { 1.0 });
    }
    let mut term = (0..n).fold(1.0, |t, k| t * (0.5 * x) / f64::from(k + 1));
    let mut terms = vec![];
    for k in 1.. {
        terms.push(term);
        term *= 0.25 * x * x / (f64::from(k) * f64::from(k + n));
        // The terms fall once k is past x / 2.
        if !(f64::from(k) < x.abs() || term.abs() > 1e-20 * terms.iter().sum::<f64>().abs()) {
            break;
        }
    }
    terms.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    terms.iter().sum()
}
/// Of order 0.
pub(crate) fn i0(x: f64) -> f64 {
    bessel(0, x)
}
/// Of order 1.
pub(crate) fn i1(x: f64) -> f64 {
    bessel(1, x)
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
