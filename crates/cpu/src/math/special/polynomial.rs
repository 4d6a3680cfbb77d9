//! Orthogonal polynomials of an order that is an argument.
//!
//! By their three-term recurrences (Abramowitz and Stegun 22.7), in the type asked for so that they overflow where that
//! type does; Chebyshev's of higher orders inside (-1, 1) by their trigonometric form (22.3.15, 22.3.16). An order is
//! taken towards zero; a negative one, or one that is not a number, gives 0.

use super::super::{Float, double};
use super::I;

/// The largest order that a recurrence is followed to: beyond it the result is NaN.
const MOST: i64 = 1_000_000;

fn order<T: Float>(n: T) -> i64 {
    let n = n.to_f64();
    if n.abs() < 9.2e18 { n as i64 } else { -1 }
}

/// Follows `next(k, p[k], p[k - 1]) = p[k + 1]` from `p[0] = 1` and `p[1] = first` to `p[n]`, or to a NaN.
#[inline(always)]
fn recurrence<T: Float>(n: i64, first: T, next: impl Fn(T, T, T) -> T) -> T {
    if n == 0 {
        return T::ONE;
    }
    if n > MOST {
        return T::NAN;
    }
    let (mut before, mut here) = (T::ONE, first);
    let mut k = T::ONE;
    for _ in 1..n {
        (before, here) = (here, next(k, here, before));
        if here.is_nan() {
            break;
        }
        k += T::ONE;
    }
    here
}

/// What two of Chebyshev's kinds have in common: the value at 1 and -1, the trigonometric form of the angle `t` with
/// `cos t = x`, and the polynomial of order 1.
#[inline(always)]
fn chebyshev<T: Float>(
    x: T,
    n: T,
    at_ends: impl Fn(f64, bool) -> f64,
    of_angle: impl Fn(f64, f64) -> f64,
    first: T,
) -> T {
    let n = order(n);
    if n < 0 {
        return T::ZERO;
    }
    if x == T::ONE || x == -T::ONE {
        return T::from_f64(at_ends(n as f64, x > T::ZERO) * if x > T::ZERO || n % 2 == 0 { 1.0 } else { -1.0 });
    }
    if n > 8 && x > -T::ONE && x < T::ONE {
        return T::from_f64(of_angle(double::acos::<I>(x.to_f64()), n as f64));
    }
    recurrence(n, first, |_, here, before| (x + x) * here - before)
}

fn sin(x: f64) -> f64 {
    double::sin::<I>(x)
}
fn cos(x: f64) -> f64 {
    double::cos::<I>(x)
}

/// Chebyshev's polynomial of the first kind.
pub fn chebyshev_t<T: Float>(x: T, n: T) -> T {
    chebyshev(x, n, |_, _| 1.0, |t, n| cos(n * t), x)
}

/// Chebyshev's polynomial of the second kind.
pub fn chebyshev_u<T: Float>(x: T, n: T) -> T {
    chebyshev(x, n, |n, _| n + 1.0, |t, n| sin((n + 1.0) * t) / sin(t), x + x)
}

/// Chebyshev's polynomial of the third kind.
pub fn chebyshev_v<T: Float>(x: T, n: T) -> T {
    let at_ends = |n: f64, one: bool| if one { 1.0 } else { n + n + 1.0 };
    chebyshev(x, n, at_ends, |t, n| cos((n + 0.5) * t) / cos(0.5 * t), x + x - T::ONE)
}

/// Chebyshev's polynomial of the fourth kind.
pub fn chebyshev_w<T: Float>(x: T, n: T) -> T {
    let at_ends = |n: f64, one: bool| if one { n + n + 1.0 } else { 1.0 };
    chebyshev(x, n, at_ends, |t, n| sin((n + 0.5) * t) / sin(0.5 * t), x + x + T::ONE)
}

/// The point of [-1, 1] that a point of [0, 1] is moved to for the shifted polynomials.
pub fn shifted<T: Float>(x: T) -> T {
    x + x - T::ONE
}

/// Hermite's polynomial of the physicists; NaN for orders at which any argument overflows (PyTorch's limits).
pub fn hermite_h<T: Float>(x: T, n: T) -> T {
    hermite(x + x, n, T::TWO)
}

/// Hermite's polynomial of the probabilists.
pub fn hermite_he<T: Float>(x: T, n: T) -> T {
    hermite(x, n, T::ONE)
}

fn hermite<T: Float>(x: T, n: T, scale: T) -> T {
    let n = order(n);
    if n < 0 {
        return T::ZERO;
    }
    if n > if T::DTYPE == flambeau_base::DType::F64 { 512 } else { 128 } {
        return T::NAN;
    }
    recurrence(n, x, |k, here, before| x * here - scale * k * before)
}

/// Laguerre's polynomial.
pub fn laguerre<T: Float>(x: T, n: T) -> T {
    let n = order(n);
    if n < 0 {
        return T::ZERO;
    }
    if x == T::ZERO {
        return T::ONE;
    }
    let first = T::ONE - x;
    recurrence(n, first, |k, here, before| ((k + k + first) * here - k * before) / (k + T::ONE))
}

/// Legendre's polynomial.
pub fn legendre<T: Float>(x: T, n: T) -> T {
    let n = order(n);
    if n < 0 {
        return T::ZERO;
    }
    if x == T::ONE || x == -T::ONE {
        return if x > T::ZERO || n % 2 == 0 { T::ONE } else { -T::ONE };
    }
    recurrence(n, x, |k, here, before| ((k + k + T::ONE) * x * here - k * before) / (k + T::ONE))
}
