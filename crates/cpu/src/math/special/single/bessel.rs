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

/// The first `N` terms of a Chebyshev series.
#[inline(always)]
fn series<I: Isa, const N: usize>(c: &[f64], t: f64) -> f64 {
    let (mut b1, mut b2) = (0.0, 0.0);
    let twice = t + t;
    for k in (1..N).rev() {
        (b1, b2) = (fma::<I, _>(twice, b1, c[k] - b2), b1);
    }
    fma::<I, _>(t, b1, c[0] - b2)
}

/// The sine and cosine of `x` less a quarter or three quarters of pi.
#[inline(always)]
fn shifted<I: Isa>(x: f64, three: bool) -> (f64, f64) {
    let (s, c) = (double::sin_common::<I>(x), double::cos_common::<I>(x));
    let (sum, difference) = ((s + c) * FRAC_1_SQRT_2, (s - c) * FRAC_1_SQRT_2);
    if three { (-sum, difference) } else { (difference, sum) }
}

/// The functions of the first and second kind for large `x`, and what PyTorch's have beyond theirs between 5 and 8.
#[inline(always)]
fn hankel<I: Isa>(x: f64, p: &[f64], q: &[f64], first: [f64; 2], rest: &[f64; 7], three: bool) -> [(f64, f64); 2] {
    let r = 1.0 / x;
    let z = r * r;
    let t = fma::<I, _>(128.0, z, -1.0);
    let (p, q) = (series::<I, 9>(p, t), series::<I, 10>(q, t) * r);
    let (s, c) = shifted::<I>(x, three);
    let scale = (FRAC_2_PI * r).sqrt();
    // See Note [Leading terms].
    let w = 25.0 * z;
    let power = w * w * w;
    let below = horner!(I, w; rest[6], rest[5], rest[4], rest[3], rest[2], rest[1], rest[0]);
    let excess = fma::<I, _>(first[1], z, first[0]) * r * (power * power * w) / below * scale;
    let excess = select(x > 5.0, excess, 0.0);
    [(scale * (p * c - q * s), scale * (p * s + q * c)), (-excess * s, excess * c)]
}

#[inline(always)]
fn of_order_0<I: Isa>(x: f64) -> [(f64, f64); 2] {
    hankel::<I>(x, &P0, &Q0, [-1.0 / 8.0, 75.0 / 1024.0], &REST_0, false)
}

#[inline(always)]
fn of_order_1<I: Isa>(x: f64) -> [(f64, f64); 2] {
    hankel::<I>(x, &P1, &Q1, [3.0 / 8.0, -105.0 / 1024.0], &REST_1, true)
}

/// The Bessel function of the first kind, order 0.
#[inline(always)]
pub fn j0<I: Isa>(x: f32) -> f32 {
    let x = (x as f64).abs();
    let [far, beyond] = of_order_0::<I>(x);
    let near = series::<I, 17>(&J0, fma::<I, _>(x, x / 32.0, -1.0)) + beyond.0;
    select(x <= 8.0, near, far.0) as f32
}

/// The Bessel function of the first kind, order 1.
#[inline(always)]
pub fn j1<I: Isa>(x: f32) -> f32 {
    let a = (x as f64).abs();
    let [far, beyond] = of_order_1::<I>(a);
    let near = a * series::<I, 16>(&J1, fma::<I, _>(a, a / 32.0, -1.0)) + beyond.0;
    let y = select(a <= 8.0, near, far.0) as f32;
    select(x.is_sign_negative(), -y, y)
}

/// The Bessel function of the second kind, order 0.
#[inline(always)]
pub fn y0<I: Isa>(x: f32) -> f32 {
    let x = x as f64;
    let [far, beyond] = of_order_0::<I>(x);
    let t = fma::<I, _>(x, x / 32.0, -1.0);
    let near = FRAC_2_PI * double::log::<I>(x) * series::<I, 17>(&J0, t) + series::<I, 17>(&Y0, t) + beyond.1;
    select(x <= 8.0, near, far.1) as f32
}

/// The Bessel function of the second kind, order 1.
#[inline(always)]
pub fn y1<I: Isa>(x: f32) -> f32 {
    let x = x as f64;
    let [far, beyond] = of_order_1::<I>(x);
    let t = fma::<I, _>(x, x / 32.0, -1.0);
    let first = double::log::<I>(x) * x * series::<I, 16>(&J1, t) - 1.0 / x;
    let near = FRAC_2_PI * first + x * series::<I, 17>(&Y1, t) + beyond.1;
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
        series::<I, 11>(&K1, t) / x + log * i1
    } else {
        let i0 = horner!(I, w; 1.0, 1.0, 1.0 / 4.0, 1.0 / 36.0, 1.0 / 576.0, 1.0 / 14400.0, 1.0 / 518400.0, 1.0 / 25401600.0, 1.0 / 1625702400.0, 1.0 / 131681894400.0);
        series::<I, 10>(&K0, t) - log * i0
    };
    let large = series::<I, 14>(if order_1 { &K1_LARGE } else { &K0_LARGE }, 4.0 / x - 1.0) / x.sqrt();
    let near = x <= 2.0;
    let factor = double::exp::<I>(select(near == scaled, x.copysign(if scaled { 1.0 } else { -1.0 }), 0.0));
    (select(near, small, large) * factor) as f32
}
