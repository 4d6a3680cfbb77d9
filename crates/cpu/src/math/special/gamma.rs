//! The incomplete gamma functions, and how gamma and beta numbers move with their shapes.

use super::super::double;
use super::{I, digamma, exp, lgamma, log, log1p};

/// From this shape on a series would need too many terms.
const LARGE: f64 = 200.0;

/// The regularised lower incomplete gamma function, PyTorch's value at the ends of its domain.
pub fn igamma(a: f64, x: f64) -> f64 {
    if x < 0.0 || a < 0.0 {
        f64::NAN
    } else if a == 0.0 {
        if x > 0.0 { 1.0 } else { f64::NAN }
    } else if x == 0.0 {
        0.0
    } else if a.is_infinite() {
        if x.is_infinite() { f64::NAN } else { 0.0 }
    } else if x.is_infinite() {
        1.0
    } else if a.is_nan() || x.is_nan() {
        f64::NAN
    } else if lower_side(a, x) {
        lower(a, x)
    } else {
        1.0 - upper(a, x)
    }
}

/// The regularised upper incomplete gamma function, PyTorch's value at the ends of its domain.
pub fn igammac(a: f64, x: f64) -> f64 {
    if x < 0.0 || a < 0.0 {
        f64::NAN
    } else if a == 0.0 {
        if x > 0.0 { 0.0 } else { f64::NAN }
    } else if x == 0.0 {
        1.0
    } else if a.is_infinite() {
        if x.is_infinite() { f64::NAN } else { 1.0 }
    } else if x.is_infinite() {
        0.0
    } else if a.is_nan() || x.is_nan() {
        f64::NAN
    } else if lower_side(a, x) && !(x < 1.1 && a < 1.1) {
        1.0 - lower(a, x)
    } else {
        upper(a, x)
    }
}

/// Where the lower function is the smaller one, or cheaper.
fn lower_side(a: f64, x: f64) -> bool {
    x <= 1.0 || x < a
}

/// `x^a exp(-x) / gamma(a + 1)`.
fn front(a: f64, x: f64) -> f64 {
    if a < 10.0 {
        return exp(a * log(x) - x - lgamma(a + 1.0));
    }
    // With Stirling's series, and the difference of large numbers `x - a - a log(x / a)` as one.
    let r = 1.0 / a;
    let z = r * r;
    let stirling = r * (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z * (1.0 / 1680.0 - z * (1.0 / 1188.0)))));
    let u = (x - a) / a;
    exp(-a * beyond_log(u) - stirling) / (2.0 * std::f64::consts::PI * a).sqrt()
}

/// `u - log(1 + u)`, accurate near zero.
fn beyond_log(u: f64) -> f64 {
    if !(-0.3..0.5).contains(&u) {
        return u - log1p(u);
    }
    // With s = u / (2 + u): log(1 + u) = 2 (s + s^3 / 3 + ...) and u = 2 s + s u.
    let s = u / (2.0 + u);
    let z = s * s;
    let mut sum = 0.0;
    for k in (1..14).rev() {
        sum = (sum + 1.0 / f64::from(2 * k + 1)) * z;
    }
    s * (u - 2.0 * sum)
}

fn lower(a: f64, x: f64) -> f64 {
    let front = front(a, x);
    if a > LARGE {
        return front * (a * half_line(-1.0, a, x, |_| 1.0));
    }
    // Abramowitz and Stegun 6.5.29.
    let (mut term, mut sum, mut k) = (1.0, 1.0, a);
    while term > sum * (f64::EPSILON / 4.0) {
        k += 1.0;
        term *= x / k;
        sum += term;
    }
    front * sum
}

fn upper(a: f64, x: f64) -> f64 {
    if a > LARGE {
        return front(a, x) * (a * half_line(1.0, a, x, |_| 1.0));
    }
    if x < 1.1 {
        // One minus 6.5.29 in an alternating form, with 1 - x^a / gamma(a + 1) as one.
        let (mut term, mut sum, mut k) = (1.0, 0.0, 1.0);
        loop {
            term *= -x / k;
            let next = term / (a + k);
            sum += next;
            if next.abs() <= f64::EPSILON / 4.0 * f64::abs(sum) {
                break;
            }
            k += 1.0;
        }
        let log_front = a * log(x) - lgamma(a + 1.0);
        return -double::expm1::<I>(log_front) - exp(log_front) * a * sum;
    }
    // The continued fraction 6.5.31 in its even form, by Lentz's method (Thompson and Barnett, 1986).
    let mut b = x + 1.0 - a;
    let mut c = 1e300;
    let mut d = 1.0 / b;
    let mut value = d;
    for k in 1..100_000 {
        let k = f64::from(k);
        let step = -k * (k - a);
        b += 2.0;
        d = 1.0 / (step * d + b);
        c = b + step / c;
        let factor = c * d;
        value *= factor;
        if (factor - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    front(a, x) * a * value
}

/// The integral over `y` from 0 of `exp(s a y - x expm1(s y)) f(y)`: the gamma density of shape `a` above `x` (`s` 1) or
/// below (`s` -1), by the logarithm `y` of its variable over `x`, and as a multiple of what it is at `x`.
fn half_line(s: f64, a: f64, x: f64, f: impl Fn(f64) -> f64) -> f64 {
    let slope = (a - x).abs().max(a.min(x).sqrt());
    one_sided(slope, |y| exp(s * a * y - x * double::expm1::<I>(s * y)) * f(y))
}

/// The integral from 0 to infinity of a function that decays at about the given rate: the trapezoidal rule after the
/// substitution `y = exp(t - exp(-t))` (Takahasi and Mori, "Double exponential formulas", 1974).
fn one_sided(rate: f64, f: impl Fn(f64) -> f64) -> f64 {
    const STEP: f64 = 1.0 / 16.0;
    let scale = 1.0 / rate;
    let mut sum = 0.0;
    for k in -58..=104 {
        let t = f64::from(k) * STEP;
        let e = exp(-t);
        let y = scale * exp(t - e);
        let term = f(y) * y * (1.0 + e);
        // Far out the function may be zero times infinity.
        if term.is_finite() {
            sum += term;
        }
    }
    sum * STEP
}

/// `u' + lean u`, where `u` is the incomplete function from `x` on over `x^a exp(-x)` and `u'` its derivative by `a`: by
/// the continued fraction of `upper` and the derivative of that, from the innermost step that counts.
fn upper_slope(a: f64, x: f64, lean: f64) -> f64 {
    // Found by trial, for all shapes up to LARGE.
    let steps = 16.0 + 100.0 / x + 4.0 * a.sqrt();
    let mut k = steps.floor();
    let (mut value, mut slope) = (x + 1.0 - a + 2.0 * k, -1.0);
    while k > 0.0 {
        let step = -k * (k - a);
        slope = (k - step * slope / value) / value - 1.0;
        k -= 1.0;
        value = x + 1.0 - a + 2.0 * k + step / value;
    }
    (lean - slope / value) / value
}

/// The slope of a gamma number `x` in its shape `a` where its place in the distribution stays:
/// `-(d/da P(a, x)) / (d/dx P(a, x))`.
///
/// The derivative by `a` is an integral over the smaller side of the density times `log(t) - digamma(a)`, whose sign does
/// not change there.
pub fn gamma_slope(a: f64, x: f64) -> f64 {
    if a.is_nan() || x.is_nan() || a <= 0.0 || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 || x.is_infinite() || a.is_infinite() {
        return 0.0;
    }
    let (psi, log_x) = (digamma(a), log(x));
    if log_x >= psi && x > 1.0 && a <= LARGE {
        return x * upper_slope(a, x, log_x - psi);
    }
    // Abramowitz and Stegun 6.5.29, term by term: above the middle its first terms have the other sign, and cancel
    // about all but `exp(-x)` of the rest.
    if x <= 1.0 || (log_x < psi && a <= LARGE) {
        let (mut term, mut k, mut psi) = (x / a, a, psi + 1.0 / a);
        let mut sum = term * (psi - log_x);
        loop {
            k += 1.0;
            let r = 1.0 / k;
            term *= x * r;
            psi += r;
            let step = term * (psi - log_x);
            sum += step;
            // Before the terms fall they may pass through zero.
            if (k > x && step.abs() <= sum.abs() * (f64::EPSILON / 4.0)) || term == 0.0 {
                return sum;
            }
        }
    }
    if log_x < psi {
        return x * half_line(-1.0, a, x, |y| psi - log_x + y);
    }
    x * half_line(1.0, a, x, |y| log_x + y - psi)
}

/// The slope of a beta number `x` in its first shape `a`, the other being `total - a`, where its place in the
/// distribution stays, divided by `1 - x`. As [`gamma_slope`], with `digamma(a) - digamma(total)`.
pub fn beta_slope(x: f64, a: f64, total: f64) -> f64 {
    let b = total - a;
    if x.is_nan() || !(a > 0.0 && b > 0.0) {
        return f64::NAN;
    }
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (center, log_x) = (digamma(a) - digamma(total), log(x));
    let rest = 1.0 - x;
    // The density's logarithm falls off at this rate from `x`, at first or by its curvature.
    let tilt = (a * rest - b * x).abs();
    let curvature = (a.min(total) * rest * x * total).sqrt().min(total);
    if log_x < center {
        let rate = tilt.max(curvature).max(a.min(1.0));
        return x / rest
            * one_sided(rate, |y| {
                // (1 - t) / (1 - x) for t = x exp(-y).
                let grown = log1p(-x * double::expm1::<I>(-y) / rest);
                exp(-a * y + (b - 1.0) * grown) * (center - log_x + y)
            });
    }
    let rate = (tilt / x).max(curvature / x).max(b.min(1.0)).min(1e300);
    one_sided(rate, |y| {
        // log(t / x) for 1 - t = (1 - x) exp(-y).
        let grown = log1p(-rest * double::expm1::<I>(-y) / x);
        exp(-b * y + (a - 1.0) * grown) * (log_x + grown - center)
    })
}
