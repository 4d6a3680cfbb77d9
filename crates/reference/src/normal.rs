//! The error function, the normal distribution function, and their inverses.

use crate::wide::{ONE, PI, Wide, ZERO, wide};

/// From here on the complement comes from a fraction; below, its difference from 1 keeps 20 digits.
const FAR: f64 = 5.0;

/// The error function by a series without cancellation (DLMF 7.6.2).
fn erf(x: Wide) -> Wide {
    let square = x * x;
    let (mut term, mut total) = (x, x);
    for k in 1.. {
        term = term * square * 2.0 / f64::from(2 * k + 1);
        total = total + term;
        if term.is_lost_in(total) {
            break;
        }
    }
    total * 2.0 / PI.sqrt() * (-square).exp()
}

/// `exp(x^2) erfc(x)` where `x` is not negative: by the error function, or by a continued fraction (DLMF 7.9.1).
fn scaled_tail(x: Wide) -> Wide {
    if x.rounded() < FAR {
        return (ONE - erf(x)) * (x * x).exp();
    }
    let fraction = (1..=100).rev().fold(x, |below, k| x + wide(0.5 * f64::from(k)) / below);
    (fraction * PI.sqrt()).recip()
}

/// `erfc(x)`.
fn tail(x: Wide) -> Wide {
    if x.is_negative() { ONE + erf(-x) } else { scaled_tail(x) * (-(x * x)).exp() }
}

/// `exp(x^2) erfc(x)`.
pub(crate) fn erfcx(x: f64) -> f64 {
    let x = wide(x);
    if x.is_negative() {
        return ((x * x).exp() * 2.0 - scaled_tail(-x)).rounded();
    }
    scaled_tail(x).rounded()
}

/// The logarithm of the normal distribution function.
pub(crate) fn log_ndtr(x: f64) -> f64 {
    let t = wide(x) / wide(2.0).sqrt();
    if x < -1.0 {
        return ((scaled_tail(-t) * 0.5).ln() - t * t).rounded();
    }
    (-(tail(t) * 0.5)).ln_1p().rounded()
}

/// Steps of Newton's method from `x` until they no longer show in a double.
fn newton(mut x: Wide, step: impl Fn(Wide) -> Wide) -> Wide {
    for _ in 0..100 {
        let next = x - step(x);
        if next.rounded() == x.rounded() {
            return next;
        }
        x = next;
    }
    x
}

/// The inverse of the error function where it is at most 0.9.
fn inverse_middle(y: Wide) -> Wide {
    newton(y, |x| (erf(x) - y) * (x * x).exp() * PI.sqrt() * 0.5)
}

/// The inverse of its complement for less than 0.5. The logarithm of the complement is concave, so that Newton's method
/// on it converges from everywhere.
fn inverse_tail(y: Wide) -> Wide {
    let target = y.ln();
    let slope = |scaled: Wide| wide(-2.0) / (scaled * PI.sqrt());
    newton(ZERO, |x| {
        let scaled = scaled_tail(x);
        (scaled.ln() - x * x - target) / slope(scaled)
    })
}

/// The inverse of the error function.
pub(crate) fn erfinv(y: f64) -> f64 {
    match y.abs() {
        1.0 => f64::INFINITY.copysign(y),
        a if a < 0.9 => inverse_middle(wide(a)).rounded().copysign(y),
        a if a < 1.0 => inverse_tail(ONE - a).rounded().copysign(y),
        _ => f64::NAN,
    }
}

/// The inverse of the normal distribution function.
pub(crate) fn ndtri(p: f64) -> f64 {
    let root = wide(2.0).sqrt();
    match p {
        0.0 => f64::NEG_INFINITY,
        1.0 => f64::INFINITY,
        p if !(p > 0.0 && p < 1.0) => f64::NAN,
        p if p < 0.05 => (-(root * inverse_tail(wide(2.0 * p)))).rounded(),
        p if p > 0.95 => (root * inverse_tail((ONE - p) * 2.0)).rounded(),
        p if p < 0.5 => (-(root * inverse_middle(ONE - 2.0 * p))).rounded(),
        p => (root * inverse_middle(wide(2.0 * p) - ONE)).rounded(),
    }
}
