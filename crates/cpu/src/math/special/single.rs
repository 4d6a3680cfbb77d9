//! Special functions of `f32`, computed in `f64` without branches: what is no more exact than an `f32` result needs
//! vectorises. Where only common arguments can be had so, a predicate says which.

pub mod bessel;

use super::super::Isa;
use super::super::double::{self, erfcx_positive};
use super::super::poly::{fma, horner, select};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI, SQRT_2};

const HALF_LOG_TWO_PI: f64 = 0.918_938_533_204_672_8;

/// The number whose error function is `x`, given `w = -log(1 - x^2)`; to 2^-28. Fits of the result over `x` in `w` up to 6,
/// and of the result in the root of `w` from there to 108.
#[inline(always)]
fn erf_inverse<I: Isa>(x: f64, w: f64) -> f64 {
    let far = horner!(I, w.sqrt() - 6.42; 6.283861312324651, 1.0091908612551515, -0.0005075830164657866, -1.4684600856125283e-05, 1.277132758032318e-05, -3.2135742606262375e-06, 6.525561858823115e-07, -1.1482683377726946e-07, 1.5992555839915578e-08, -3.5198531042260473e-09, 1.3099074012044323e-09, -6.735825457379676e-11, -8.320211427849854e-11, 1.6796898957177662e-12, 6.526560574520647e-12, -5.705725707958444e-13, -1.7356863763100007e-13, 2.299458503448447e-14);
    select(w < 6.0, erf_inverse_near::<I>(x, w), far.copysign(x))
}

/// [`erf_inverse`] for `w` up to 6.
#[inline(always)]
fn erf_inverse_near<I: Isa>(x: f64, w: f64) -> f64 {
    x * horner!(I, w - 3.0; 1.6235420065379758, 0.24163040414304734, -0.005738136016107892, -0.0008361815249746705, 0.00019506272533632716, -1.2716873090583234e-05, -1.7489187809627485e-06, 4.502891203278818e-07, -2.3407992568788055e-08, -5.5654659371024445e-09, 1.0684025387667025e-09, -1.48666180578682e-11, -1.4563269630773788e-11, 1.2732868700624292e-12)
}

/// `exp(x^2) erfc(x)`.
#[inline(always)]
pub fn erfcx<I: Isa>(x: f32) -> f32 {
    let a = x.abs() as f64;
    // The asymptotic series (Abramowitz and Stegun 7.1.23).
    let z = 0.5 / (a * a);
    let far = horner!(I, z; 1.0, -1.0, 3.0) * (0.5 * FRAC_2_SQRT_PI) / a;
    let y = select(a > 28.0, far, erfcx_positive::<I>(a));
    // As PyTorch has it: the square is rounded, which the exponential magnifies.
    let square = (x * x) as f64;
    let e = double::exp_lite::<I>(select(square > 100.0, 100.0, square));
    select(x < 0.0, 2.0 * e - y, y) as f32
}

/// Whether `erfinv_common` takes it: the logarithm of `1 - x^2` is above -6.
#[inline(always)]
pub fn is_common_erfinv(x: f32) -> bool {
    x.abs() < 0.998
}

/// The inverse of the error function of a number not too close to 1.
#[inline(always)]
pub fn erfinv_common<I: Isa>(x: f32) -> f32 {
    let x = x as f64;
    // The factors are exact.
    erf_inverse_near::<I>(x, -double::log_lite::<I>((1.0 - x) * (1.0 + x))) as f32
}

/// The inverse of the error function.
#[inline(always)]
pub fn erfinv<I: Isa>(x: f32) -> f32 {
    let x = x as f64;
    let y = erf_inverse::<I>(x, -double::log_lite::<I>((1.0 - x) * (1.0 + x)));
    let y = select(x.abs() == 1.0, f64::INFINITY.copysign(x), y);
    select(x.abs() <= 1.0, y, f64::NAN) as f32
}

/// The inverse of the normal distribution function.
#[inline(always)]
pub fn ndtri<I: Isa>(p: f32) -> f32 {
    let p = p as f64;
    let y = SQRT_2 * erf_inverse::<I>(2.0 * p - 1.0, -double::log::<I>(4.0 * p * (1.0 - p)));
    let y = select(p == 0.0, f64::NEG_INFINITY, y);
    select(p == 1.0, f64::INFINITY, y) as f32
}

/// Whether `lgamma_common` and `trigamma_common` take it. Beside its roots, 1 and 2, the former has too few digits (but for
/// the roots themselves, which many a whole number is).
#[inline(always)]
pub fn is_common_gamma(x: f32) -> bool {
    let (one, two) = (x - 1.0, x - 2.0);
    (x > 0.0) & (x < 1e30) & ((one.abs() > 1e-3) | (one == 0.0)) & ((two.abs() > 1e-3) | (two == 0.0))
}

/// The logarithm of the gamma function of a positive number.
#[inline(always)]
pub fn lgamma_common<I: Isa>(x: f32) -> f32 {
    let x = x as f64;
    // Moved up by 8 where Stirling's series (Abramowitz and Stegun 6.1.41) would be too short.
    let small = x < 8.0;
    let a = x * (x + 7.0);
    let product = a * (a + 6.0) * (a + 10.0) * (a + 12.0);
    let z = select(small, x + 8.0, x);
    let r = 1.0 / z;
    let series = r * horner!(I, r * r; 1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0);
    let y = (z - 0.5) * double::log::<I>(z) - z + (HALF_LOG_TWO_PI + series);
    let y = y - double::log::<I>(select(small, product, 1.0));
    select((x == 1.0) | (x == 2.0), 0.0, y) as f32
}

/// Whether `digamma_common` takes it.
#[inline(always)]
pub fn is_common_digamma(x: f32) -> bool {
    (x > 0.0) & (x < 1e30)
}

/// The first derivative of the gamma function's logarithm, at a positive number.
#[inline(always)]
pub fn digamma_common<I: Isa>(x: f32) -> f32 {
    let x = x as f64;
    // Moved up by 8 where Abramowitz and Stegun's 6.3.18 would be too short; the sum of the reciprocals of x to x + 7, first
    // and last, second and last but one, ... together, as one quotient.
    let small = x < 8.0;
    let u = x * (x + 7.0);
    let (a, b) = (u * (u + 6.0), (u + 10.0) * (u + 12.0));
    let moved = (2.0 * x + 7.0) * 2.0 * ((u + 3.0) * b + (u + 11.0) * a) / (a * b);
    let z = select(small, x + 8.0, x);
    let r = 1.0 / z;
    let w = r * r;
    let series = w
        * horner!(I, w; 1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0, -3617.0 / 8160.0);
    (double::log::<I>(z) - 0.5 * r - series - select(small, moved, 0.0)) as f32
}

/// The second derivative of the gamma function's logarithm, at a positive number.
#[inline(always)]
pub fn trigamma_common<I: Isa>(x: f32) -> f32 {
    let x = x as f64;
    // 1 / a^2 + 1 / b^2 with one division.
    let pair = |a: f64, b: f64| (a * a + b * b) / (a * b * (a * b));
    // Huge numbers are not moved: the squares would vanish beside them, and overflow together.
    let moved = pair(x, x + 1.0) + pair(x + 2.0, x + 3.0) + pair(x + 4.0, x + 5.0);
    let r = 1.0 / (x + 6.0);
    // Abramowitz and Stegun 6.4.12.
    let series = horner!(I, r * r; 1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0);
    (moved + r * (1.0 + r * (0.5 + r * series))) as f32
}

/// Whether `zeta_common` takes these: no power leaves the range of doubles, and the series ends soon enough.
#[allow(clippy::manual_range_contains)] // It vectorises because nothing stops early.
#[inline(always)]
pub fn is_common_zeta(x: f32, q: f32) -> bool {
    (x > 1.0) & (x <= 16.0) & (q >= 1e-18) & (q <= 1e6)
}

/// The Hurwitz zeta function: eight terms, then Euler and Maclaurin's formula, as [`super::zeta`] has it.
#[inline(always)]
pub fn zeta_common<I: Isa>(x: f32, q: f32) -> f32 {
    let (x, q) = (x as f64, q as f64);
    let power = |a: f64| double::exp_lite::<I>(-x * double::log_lite::<I>(a));
    let mut sum = 0.0;
    macro_rules! terms {
        ($($k:literal)*) => { $( sum += power(q + $k); )* };
    }
    terms!(7.0 6.0 5.0 4.0 3.0 2.0 1.0 0.0);
    let a = q + 8.0;
    let r = 1.0 / a;
    let z = r * r;
    let mut series = -1.0 / 1.8924375803183791606e9;
    macro_rules! corrections {
        ($($k:literal $divisor:literal)*) => { $( series = fma::<I, _>((x + $k) * (x + ($k + 1.0)) * z, series, 1.0 / $divisor); )* };
    }
    corrections!(9.0 47900160.0 7.0 -1209600.0 5.0 30240.0 3.0 -720.0 1.0 12.0);
    (sum + power(a) * (a / (x - 1.0) + 0.5 + x * r * series)) as f32
}

/// Whether the incomplete gamma functions of shape `a` at `x` have a form without branches.
#[allow(clippy::manual_range_contains)] // As above.
#[inline(always)]
pub fn is_common_incomplete(a: f32, x: f32) -> bool {
    (a >= 0.05) & (a <= 10.0) & (x > 0.0) & (x <= 10.0)
}

/// The regularised lower incomplete gamma function, to about 2^-45.
#[inline(always)]
fn incomplete<I: Isa>(a: f64, x: f64) -> f64 {
    // Abramowitz and Stegun 6.5.29, the sum of `x^k / ((a + 1) ... (a + k))` as one quotient.
    let (mut above, mut below) = (1.0, 1.0);
    macro_rules! terms {
        ($($k:literal)*) => { $(
            below *= a + $k;
            above = fma::<I, _>(x, above, below);
        )* };
    }
    terms!(46.0 45.0 44.0 43.0 42.0 41.0 40.0 39.0 38.0 37.0 36.0 35.0 34.0 33.0 32.0 31.0 30.0 29.0 28.0);
    terms!(27.0 26.0 25.0 24.0 23.0 22.0 21.0 20.0 19.0 18.0 17.0 16.0 15.0 14.0 13.0 12.0 11.0 10.0 9.0);
    // The other factors of the divisor, and gamma(a + 1), are gamma(a + 9).
    let rest = below;
    terms!(8.0 7.0 6.0 5.0 4.0 3.0 2.0 1.0);
    let z = a + 9.0;
    let r = 1.0 / z;
    let stirling = r
        * horner!(I, r * r; 1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360360.0, 1.0 / 156.0, -3617.0 / 122400.0);
    let log_gamma = (z - 0.5) * (double::log::<I>(z) - 1.0) + ((HALF_LOG_TWO_PI - 0.5) + stirling);
    above / rest * double::exp::<I>(a * double::log::<I>(x) - x - log_gamma)
}

/// The regularised lower incomplete gamma function of common arguments.
#[inline(always)]
pub fn igamma_common<I: Isa>(a: f32, x: f32) -> f32 {
    incomplete::<I>(a as f64, x as f64) as f32
}

/// [`super::gamma::gamma_slope`] of common arguments.
#[inline(always)]
pub fn gamma_slope_common<I: Isa>(a: f32, x: f32) -> f32 {
    let (a, x) = (a as f64, x as f64);
    // The sum of `x^k / (a ... (a + k - 1)) * (digamma(a + k) - log(x))`, where digamma(a + k) is digamma(a + 46) less the
    // reciprocals of a + k to a + 45: the sum of the quotients alone, as one, and its change with the divisors from there on.
    let (mut above, mut below, mut above_slope, mut below_slope) = (0.0, 1.0, 0.0, 0.0);
    macro_rules! terms {
        ($($k:literal)*) => { $(
            above = x * (below + above);
            above_slope = x * (below_slope + above_slope);
            below_slope = fma::<I, _>(a + $k, below_slope, below);
            below *= a + $k;
        )* };
    }
    terms!(45.0 44.0 43.0 42.0 41.0 40.0 39.0 38.0 37.0 36.0 35.0 34.0 33.0 32.0 31.0 30.0 29.0 28.0 27.0 26.0 25.0 24.0 23.0);
    terms!(22.0 21.0 20.0 19.0 18.0 17.0 16.0 15.0 14.0 13.0 12.0 11.0 10.0 9.0 8.0 7.0 6.0 5.0 4.0 3.0 2.0 1.0 0.0);
    let z = a + 46.0;
    let r = 1.0 / z;
    let w = r * r;
    let digamma =
        double::log::<I>(z) - 0.5 * r - w * horner!(I, w; 1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0);
    ((above * (digamma - double::log::<I>(x)) - above_slope) / below) as f32
}

/// The regularised upper incomplete gamma function of common arguments.
#[inline(always)]
pub fn igammac_common<I: Isa>(a: f32, x: f32) -> f32 {
    (1.0 - incomplete::<I>(a as f64, x as f64)) as f32
}

/// `exp(-a) I_0(a)` and `exp(-a) I_1(a)` of a number that is not negative, as [`super::i0e`] has them but for fewer digits:
/// fits to 2^-31.
#[inline(always)]
fn scaled_i<I: Isa>(a: f64, order_1: bool) -> f64 {
    let (t, u) = (a * 0.25 - 1.0, 16.0 / a - 1.0);
    let (near, far) = if order_1 {
        (
            a * horner!(I, t; 0.04468770986450251, -0.061124338025990106, 0.06805760212960305, -0.06848260694070092, 0.06376733064622675, -0.05528001503648954, 0.0446755031610766, -0.03367166370472805, 0.023680016667049938, -0.015569320920202672, 0.009606095385955372, -0.005541908244896256, 0.0029563628396675574, -0.001522471036028631, 0.000812047943412777, -0.0003636452040028463, 9.375809886867844e-05, -4.317720058003002e-05, 4.7479082033953785e-05, -1.694785151624946e-05),
            horner!(I, u; 0.3893984590744713, -0.009749577241315432, -0.00021923738535629923, -1.5037047143805947e-05, -1.8250069387125121e-06, -3.5481954165334105e-07, -1.2318419674047784e-07, -3.7856024793316294e-08),
        )
    } else {
        (
            horner!(I, t; 0.20700192113298854, -0.1130043268544693, 0.09451564672892827, -0.08904344770455307, 0.08734281771702368, -0.08496317214579, 0.07928284334431146, -0.06954385402504584, 0.05672795589861263, -0.04296881129335962, 0.030358703692477982, -0.019745851414068618, 0.011557353661066808, -0.006651419484491594, 0.004166015653562654, -0.0020044758245779414, 0.0004143919060489856, -0.00022722968338111303, 0.00034824109057890804, -0.00013152060630607088),
            horner!(I, u; 0.4021765094053054, 0.0033605520313900634, 0.000136217407834547, 1.1141542189580863e-05, 1.4754756356201013e-06, 3.0383309086686276e-07, 1.0910232941075882e-07, 3.3635802235185296e-08),
        )
    };
    select(a <= 8.0, near, far / a.sqrt())
}

/// `exp(-|x|) I_0(x)`.
#[inline(always)]
pub fn i0e<I: Isa>(x: f32) -> f32 {
    let a = (x as f64).abs();
    // Exactly at zero.
    select(a == 0.0, 1.0, scaled_i::<I>(a, false)) as f32
}

/// Where the exponential of single precision overflows, and with it, as PyTorch has them, functions that have it as a factor.
const LARGEST_EXPONENT: f64 = 88.72283905206835;

/// The modified Bessel function of the first kind, order 0.
#[inline(always)]
pub fn i0<I: Isa>(x: f32) -> f32 {
    let a = (x as f64).abs();
    let y = select(a == 0.0, 1.0, scaled_i::<I>(a, false) * double::exp::<I>(a));
    select(a == f64::INFINITY, f64::NAN, select(a > LARGEST_EXPONENT, f64::INFINITY, y)) as f32
}

/// `exp(-|x|) I_1(x)`.
#[inline(always)]
pub fn i1e<I: Isa>(x: f32) -> f32 {
    let y = scaled_i::<I>((x as f64).abs(), true);
    select(x < 0.0, -y, y) as f32
}

/// The modified Bessel function of the first kind, order 1.
#[inline(always)]
pub fn i1<I: Isa>(x: f32) -> f32 {
    let a = (x as f64).abs();
    let y = scaled_i::<I>(a, true) * double::exp::<I>(a);
    let y = select(a == f64::INFINITY, f64::NAN, select(a > LARGEST_EXPONENT, f64::INFINITY, y));
    select(x < 0.0, -y, y) as f32
}

/// The logarithm of the normal distribution function.
#[inline(always)]
pub fn log_ndtr<I: Isa>(x: f32) -> f32 {
    let x = x as f64;
    let a = x.abs() * FRAC_1_SQRT_2;
    let scaled = 0.5 * erfcx_positive::<I>(a);
    // Half of erfc(a).
    let rest = scaled * double::exp::<I>(-a * a);
    let body = double::log1p::<I>(-select(x < 0.0, 1.0 - rest, rest));
    // Beyond 28 the fit ends: the asymptotic series.
    let r = 0.5 / a / a;
    let far = 0.5 * horner!(I, r; 1.0, -1.0, 3.0, -15.0) / (a * PI.sqrt());
    let tail = double::log::<I>(select(a > 28.0, far, scaled)) - a * a;
    select(x < -1.0, tail, body) as f32
}

/// `-x log(x)`.
#[inline(always)]
pub fn entr<I: Isa>(x: f32) -> f32 {
    let x = x as f64;
    let y = -x * double::log::<I>(x);
    let y = select(x == 0.0, 0.0, y);
    select(x < 0.0, f64::NEG_INFINITY, y) as f32
}

#[cfg(test)]
mod tests;
