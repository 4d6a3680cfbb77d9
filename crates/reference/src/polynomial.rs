//! Orthogonal polynomials by the recurrences between neighbouring orders (DLMF 18.9), Chebyshev's between -1 and 1 by
//! their trigonometric form (DLMF 18.5.1 to 18.5.4).
//!
//! An order is taken towards zero. As in PyTorch a negative one, or one that is no number, gives 0, and Hermite's
//! polynomials end at the order 512; other recurrences end at a million steps, with NaN.

use crate::wide::{ONE, Wide, wide};

/// Chebyshev's four kinds.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    First,
    Second,
    Third,
    Fourth,
}

/// The order as a whole number, -1 if it is none that 64 bits hold.
fn order(n: f64) -> f64 {
    if n.abs() < 2f64.powi(63) { n.trunc() } else { -1.0 }
}

/// Follows `next(k, p[k], p[k - 1]) = p[k + 1]` from `p[0] = 1` and `p[1] = first`.
fn recurrence(n: f64, most: f64, first: Wide, next: impl Fn(f64, Wide, Wide) -> Wide) -> f64 {
    match order(n) {
        n if n < 0.0 => return 0.0,
        0.0 => return 1.0,
        n if n > most => return f64::NAN,
        _ => {}
    }
    let (mut before, mut here) = (ONE, first);
    for k in 1..n as u32 {
        (before, here) = (here, next(f64::from(k), here, before));
    }
    here.rounded()
}

const MOST: f64 = 1e6;
const MOST_OF_HERMITE: f64 = 512.0;

/// The angle with this cosine, between 0 and pi.
fn angle(x: Wide) -> Wide {
    // A step of Newton's method doubles the digits.
    let start = wide(x.rounded().acos());
    let (s, c) = start.sin_cos();
    start + (c - x) / s
}

/// Chebyshev's polynomial of a kind, at `x` or, shifted, at `2 x - 1`.
pub(crate) fn chebyshev(kind: Kind, shifted: bool, x: f64, n: f64) -> f64 {
    let x = if shifted { wide(x) + x - ONE } else { wide(x) };
    let order = order(n);
    if order >= 0.0 && x.abs() == ONE {
        let (odd, one) = (order % 2.0 != 0.0, x == ONE);
        let size = match kind {
            Kind::First => 1.0,
            Kind::Second => order + 1.0,
            Kind::Third => {
                if one {
                    1.0
                } else {
                    2.0 * order + 1.0
                }
            }
            Kind::Fourth => {
                if one {
                    2.0 * order + 1.0
                } else {
                    1.0
                }
            }
        };
        return if odd && !one { -size } else { size };
    }
    if order > 0.0 && x.abs().rounded() < 1.0 {
        let t = angle(x);
        let (sin, cos) = (|t: Wide| t.sin_cos().0, |t: Wide| t.sin_cos().1);
        let value = match kind {
            Kind::First => cos(t * order),
            Kind::Second => sin(t * (wide(order) + ONE)) / sin(t),
            Kind::Third => cos(t * (wide(order) + 0.5)) / cos(t * 0.5),
            Kind::Fourth => sin(t * (wide(order) + 0.5)) / sin(t * 0.5),
        };
        return value.rounded();
    }
    let first = match kind {
        Kind::First => x,
        Kind::Second => x + x,
        Kind::Third => x + x - ONE,
        Kind::Fourth => x + x + ONE,
    };
    recurrence(n, MOST, first, |_, here, before| (x + x) * here - before)
}

/// Hermite's polynomial of the physicists.
pub(crate) fn hermite_h(x: f64, n: f64) -> f64 {
    let x = wide(x) * 2.0;
    recurrence(n, MOST_OF_HERMITE, x, |k, here, before| x * here - before * (2.0 * k))
}

/// Hermite's polynomial of the probabilists.
pub(crate) fn hermite_he(x: f64, n: f64) -> f64 {
    let x = wide(x);
    recurrence(n, MOST_OF_HERMITE, x, |k, here, before| x * here - before * k)
}

/// Laguerre's polynomial.
pub(crate) fn laguerre(x: f64, n: f64) -> f64 {
    if x == 0.0 && order(n) >= 0.0 {
        return 1.0;
    }
    let x = wide(x);
    recurrence(n, MOST, ONE - x, |k, here, before| ((wide(2.0 * k + 1.0) - x) * here - before * k) / (k + 1.0))
}

/// Legendre's polynomial.
pub(crate) fn legendre(x: f64, n: f64) -> f64 {
    let order = order(n);
    if order >= 0.0 && x.abs() == 1.0 {
        return if x < 0.0 && order % 2.0 != 0.0 { -1.0 } else { 1.0 };
    }
    let x = wide(x);
    recurrence(n, MOST, x, |k, here, before| (x * here * (2.0 * k + 1.0) - before * k) / (k + 1.0))
}
