//! Orthogonal polynomials of an order that is an argument.
//!
//! By their three-term recurrences (Abramowitz and Stegun 22.7), in the type asked for so that they overflow where that
//! type does; Chebyshev's of higher orders inside (-1, 1) by their trigonometric form (22.3.15, 22.3.16). An order is
//! taken towards zero; a negative one, or one that is not a number, gives 0.

use super::super::poly::select;
use super::super::{Float, Isa, double};
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

/// Chebyshev's four kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first.
    T,
    /// The second.
    U,
    /// The third.
    V,
    /// The fourth.
    W,
}

impl Kind {
    /// The polynomial of order 1.
    #[inline(always)]
    fn first<T: Float>(self, x: T) -> T {
        match self {
            Kind::T => x,
            Kind::U => x + x,
            Kind::V => x + x - T::ONE,
            Kind::W => x + x + T::ONE,
        }
    }

    /// The magnitude of the value at 1 (`one`) and at -1.
    fn at_ends(self, n: f64, one: bool) -> f64 {
        match self {
            Kind::T => 1.0,
            Kind::U => n + 1.0,
            Kind::V => {
                if one {
                    1.0
                } else {
                    n + n + 1.0
                }
            }
            Kind::W => {
                if one {
                    n + n + 1.0
                } else {
                    1.0
                }
            }
        }
    }

    /// The value at the cosine of `t`.
    fn of_angle(self, t: f64, n: f64) -> f64 {
        let (sin, cos) = (double::sin::<I>, double::cos::<I>);
        match self {
            Kind::T => cos(n * t),
            Kind::U => sin((n + 1.0) * t) / sin(t),
            Kind::V => cos((n + 0.5) * t) / cos(0.5 * t),
            Kind::W => sin((n + 0.5) * t) / sin(0.5 * t),
        }
    }
}

/// Chebyshev's polynomial.
#[inline(always)]
pub fn chebyshev<T: Float>(kind: Kind, x: T, n: T) -> T {
    let n = order(n);
    if n < 0 {
        return T::ZERO;
    }
    if x == T::ONE || x == -T::ONE {
        let sign = if x > T::ZERO || n % 2 == 0 { 1.0 } else { -1.0 };
        return T::from_f64(kind.at_ends(n as f64, x > T::ZERO) * sign);
    }
    if n > 8 && x > -T::ONE && x < T::ONE {
        return T::from_f64(kind.of_angle(double::acos::<I>(x.to_f64()), n as f64));
    }
    recurrence(n, kind.first(x), |_, here, before| (x + x) * here - before)
}

/// Whether the forms for low orders take the order.
#[inline(always)]
pub fn is_low<T: Float>(n: T) -> bool {
    (n > -T::ONE) & (n < T::from_f64(9.0))
}

/// [`recurrence`] where [`is_low`] holds: as far as any of these orders needs it, so that loops over it vectorise.
#[inline(always)]
fn low_recurrence<L: Isa, T: Float>(n: T, first: T, next: impl Fn(T, T, T) -> T) -> T {
    let n = n.trunc::<L>();
    let (mut before, mut here, mut k) = (T::ONE, first, T::ONE);
    let mut value = select(n == T::ZERO, before, here);
    for _ in 1..8 {
        (before, here) = (here, next(k, here, before));
        k += T::ONE;
        value = select(n == k, here, value);
    }
    value
}

/// [`chebyshev`] where [`is_low`] holds.
#[inline(always)]
pub fn chebyshev_low<L: Isa, T: Float>(kind: Kind, x: T, n: T) -> T {
    low_recurrence::<L, T>(n, kind.first(x), |_, here, before| (x + x) * here - before)
}

/// The point of [-1, 1] that a point of [0, 1] is moved to for the shifted polynomials.
pub fn shifted<T: Float>(x: T) -> T {
    x + x - T::ONE
}

/// Hermite's polynomial of the physicists; NaN for orders at which any argument overflows (PyTorch's limits).
pub fn hermite_h<T: Float>(x: T, n: T) -> T {
    hermite(x + x, n, T::TWO)
}

/// [`hermite_h`] where [`is_low`] holds.
#[inline(always)]
pub fn hermite_h_low<L: Isa, T: Float>(x: T, n: T) -> T {
    low_recurrence::<L, T>(n, x + x, hermite_step(x + x, T::TWO))
}

/// Hermite's polynomial of the probabilists.
pub fn hermite_he<T: Float>(x: T, n: T) -> T {
    hermite(x, n, T::ONE)
}

/// [`hermite_he`] where [`is_low`] holds.
#[inline(always)]
pub fn hermite_he_low<L: Isa, T: Float>(x: T, n: T) -> T {
    low_recurrence::<L, T>(n, x, hermite_step(x, T::ONE))
}

#[inline(always)]
fn hermite_step<T: Float>(x: T, scale: T) -> impl Fn(T, T, T) -> T {
    move |k, here, before| x * here - scale * k * before
}

fn hermite<T: Float>(x: T, n: T, scale: T) -> T {
    let n = order(n);
    if n < 0 {
        return T::ZERO;
    }
    if n > if T::DTYPE == flambeau_base::DType::F64 { 512 } else { 128 } {
        return T::NAN;
    }
    recurrence(n, x, hermite_step(x, scale))
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
    recurrence(n, T::ONE - x, laguerre_step(x))
}

/// [`laguerre`] where [`is_low`] holds.
#[inline(always)]
pub fn laguerre_low<L: Isa, T: Float>(x: T, n: T) -> T {
    low_recurrence::<L, T>(n, T::ONE - x, laguerre_step(x))
}

#[inline(always)]
fn laguerre_step<T: Float>(x: T) -> impl Fn(T, T, T) -> T {
    let first = T::ONE - x;
    move |k, here, before| ((k + k + first) * here - k * before) / (k + T::ONE)
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
    recurrence(n, x, legendre_step(x))
}

/// [`legendre`] where [`is_low`] holds.
#[inline(always)]
pub fn legendre_low<L: Isa, T: Float>(x: T, n: T) -> T {
    low_recurrence::<L, T>(n, x, legendre_step(x))
}

#[inline(always)]
fn legendre_step<T: Float>(x: T) -> impl Fn(T, T, T) -> T {
    move |k, here, before| ((k + k + T::ONE) * x * here - k * before) / (k + T::ONE)
}
