//! Bessel functions of the first and second kind of `f32`, and modified ones of the second, as [`bessel`](super::super::bessel) has them, without branches.

use super::super::super::double;
use super::super::super::poly::{fma, horner, select};
use super::super::super::{Float, Isa};
use super::super::bessel::{J0, J1, K0, K0_LARGE, K1, K1_LARGE, P0, P1, Q0, Q1, REST_0, REST_1, Y0, Y1};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

/// Whether these functions take it: no argument of a sine that needs many digits of pi. (Those of the second kind need a
/// positive one as well.)
#[inline(always)]
pub fn is_common_bessel(x: f32) -> bool {
    Float::is_common_angle(x as f64)
}

/// The coefficients of the powers of the variable in the first `N` terms of a Chebyshev series: in powers it takes half the
/// operations, and these series lose no digits by it.
const fn powers<const N: usize>(c: &[f64]) -> [f64; N] {
    // The polynomials of this order and the one before: the next is `2 t T[k] - T[k - 1]`.
    let (mut before, mut here, mut sum) = ([0.0; N], [0.0; N], [0.0; N]);
    here[0] = 1.0;
    let mut k = 0;
    while k < N {
        let mut next = [0.0; N];
        let mut i = 0;
        while i < N {
            sum[i] += c[k] * here[i];
            let twice = if k == 0 { 1.0 } else { 2.0 };
            next[i] = (if i == 0 { 0.0 } else { twice * here[i - 1] }) - before[i];
            i += 1;
        }
        (before, here) = (here, next);
        k += 1;
    }
    sum
}

/// A polynomial.
#[inline(always)]
fn series<I: Isa, const N: usize>(c: &[f64; N], t: f64) -> f64 {
    let mut sum = c[N - 1];
    for k in (0..N - 1).rev() {
        sum = fma::<I, _>(sum, t, c[k]);
    }
    sum
}

const J0_POWERS: [f64; 17] = powers(&J0);
const J1_POWERS: [f64; 16] = powers(&J1);
const Y0_POWERS: [f64; 17] = powers(&Y0);
const Y1_POWERS: [f64; 17] = powers(&Y1);
const P0_POWERS: [f64; 9] = powers(&P0);
const Q0_POWERS: [f64; 10] = powers(&Q0);
const P1_POWERS: [f64; 9] = powers(&P1);
const Q1_POWERS: [f64; 10] = powers(&Q1);
const K0_POWERS: [f64; 10] = powers(&K0);
const K1_POWERS: [f64; 11] = powers(&K1);
const K0_LARGE_POWERS: [f64; 14] = powers(&K0_LARGE);
const K1_LARGE_POWERS: [f64; 14] = powers(&K1_LARGE);

/// The sine and cosine of `x` less a quarter or three quarters of pi.
#[inline(always)]
fn shifted<I: Isa>(x: f64, three: bool) -> (f64, f64) {
    let (s, c) = (double::sin_common::<I>(x), double::cos_common::<I>(x));
    let (sum, difference) = ((s + c) * FRAC_1_SQRT_2, (s - c) * FRAC_1_SQRT_2);
    if three { (-sum, difference) } else { (difference, sum) }
}

/// The functions of the first and second kind for large `x` as PyTorch has them, and what it has beyond theirs above 5:
/// down to there the fit of `Q`, made for more than 8, keeps five digits.
#[inline(always)]
fn hankel<I: Isa>(x: f64, p: &[f64; 9], q: &[f64; 10], rest: &[f64; 7], three: bool) -> [(f64, f64); 2] {
    let r = 1.0 / x;
    let z = r * r;
    let t = fma::<I, _>(128.0, z, -1.0);
    let (p, q) = (series::<I, _>(p, t), series::<I, _>(q, t) * r);
    let (s, c) = shifted::<I>(x, three);
    let scale = (FRAC_2_PI * r).sqrt();
    // See Note [Leading terms].
    let w = 25.0 * z;
    let power = w * w * w;
    let below = horner!(I, w; rest[6], rest[5], rest[4], rest[3], rest[2], rest[1], rest[0]);
    let excess = q * (power * power * w) / below;
    let q = q + excess;
    let excess = select(x > 5.0, scale * excess, 0.0);
    [(scale * (p * c - q * s), scale * (p * s + q * c)), (-excess * s, excess * c)]
}

#[inline(always)]
fn of_order_0<I: Isa>(x: f64) -> [(f64, f64); 2] {
    hankel::<I>(x, &P0_POWERS, &Q0_POWERS, &REST_0, false)
}

#[inline(always)]
fn of_order_1<I: Isa>(x: f64) -> [(f64, f64); 2] {
    hankel::<I>(x, &P1_POWERS, &Q1_POWERS, &REST_1, true)
}

/// The Bessel function of the first kind, order 0.
#[inline(always)]
pub fn j0<I: Isa>(x: f32) -> f32 {
    let x = (x as f64).abs();
    let [far, beyond] = of_order_0::<I>(x);
    let near = series::<I, _>(&J0_POWERS, fma::<I, _>(x, x / 32.0, -1.0)) + beyond.0;
    select(x <= 8.0, near, far.0) as f32
}

/// The Bessel function of the first kind, order 1.
#[inline(always)]
pub fn j1<I: Isa>(x: f32) -> f32 {
    let a = (x as f64).abs();
    let [far, beyond] = of_order_1::<I>(a);
    let near = a * series::<I, _>(&J1_POWERS, fma::<I, _>(a, a / 32.0, -1.0)) + beyond.0;
    let y = select(a <= 8.0, near, far.0) as f32;
    select(x.is_sign_negative(), -y, y)
}

/// The Bessel function of the second kind, order 0.
#[inline(always)]
pub fn y0<I: Isa>(x: f32) -> f32 {
    let x = x as f64;
    let [far, beyond] = of_order_0::<I>(x);
    let t = fma::<I, _>(x, x / 32.0, -1.0);
    let near =
        FRAC_2_PI * double::log::<I>(x) * series::<I, _>(&J0_POWERS, t) + series::<I, _>(&Y0_POWERS, t) + beyond.1;
    select(x <= 8.0, near, far.1) as f32
}

/// The Bessel function of the second kind, order 1.
#[inline(always)]
pub fn y1<I: Isa>(x: f32) -> f32 {
    let x = x as f64;
    let [far, beyond] = of_order_1::<I>(x);
    let t = fma::<I, _>(x, x / 32.0, -1.0);
    let first = double::log::<I>(x) * x * series::<I, _>(&J1_POWERS, t) - 1.0 / x;
    let near = FRAC_2_PI * first + x * series::<I, _>(&Y1_POWERS, t) + beyond.1;
    select(x <= 8.0, near, far.1) as f32
}

/// Whether `k` takes it.
#[inline(always)]
pub fn is_common_modified(x: f32) -> bool {
    (x > 0.0) & (x < 1e30)
}

/// The modified Bessel function of the second kind of order 0 or 1, times `exp(x)` if asked for.
#[inline(always)]
pub fn k<I: Isa>(x: f32, order_1: bool, scaled: bool) -> f32 {
    let x = x as f64;
    let (w, t, log) = (0.25 * x * x, fma::<I, _>(x, 0.5 * x, -1.0), double::log::<I>(0.5 * x));
    // Up to 2, with the first kind's power series (Abramowitz and Stegun 9.6.10).
    let small = if order_1 {
        let i1 = 0.5
            * x
            * horner!(I, w; 1.0, 1.0 / 2.0, 1.0 / 12.0, 1.0 / 144.0, 1.0 / 2880.0, 1.0 / 86400.0, 1.0 / 3628800.0, 1.0 / 203212800.0, 1.0 / 14631321600.0);
        series::<I, _>(&K1_POWERS, t) / x + log * i1
    } else {
        let i0 = horner!(I, w; 1.0, 1.0, 1.0 / 4.0, 1.0 / 36.0, 1.0 / 576.0, 1.0 / 14400.0, 1.0 / 518400.0, 1.0 / 25401600.0, 1.0 / 1625702400.0, 1.0 / 131681894400.0);
        series::<I, _>(&K0_POWERS, t) - log * i0
    };
    let large = series::<I, _>(if order_1 { &K1_LARGE_POWERS } else { &K0_LARGE_POWERS }, 4.0 / x - 1.0) / x.sqrt();
    let near = x <= 2.0;
    let factor = double::exp::<I>(select(near == scaled, x.copysign(if scaled { 1.0 } else { -1.0 }), 0.0));
    (select(near, small, large) * factor) as f32
}
