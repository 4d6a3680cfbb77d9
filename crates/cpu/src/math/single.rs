//! The real functions of `f32`.
//!
//! The common ones are computed in `f32` itself, with as many lanes as a register has; those whose error would grow are
//! computed in `f64`, with polynomials only as long as an `f32` result needs.
//!
//! Polynomials are near-minimax fits: interpolation at Chebyshev's nodes in 250-bit arithmetic (mpmath), coefficients
//! rounded. `HI` and `LO` parts of constants are the rounded constant and the rounded rest, the `HI` part with trailing
//! zeros where its product with an exponent must be exact.

use super::double::{erfc_lite, exp_lite, log_lite, log1p_lite};
use super::poly::{fma, horner, paired, select};
use super::trig::{reduce_f64, reduce_large};
use super::{Float, Isa};

/// 1.5 * 2^23: added to a number, it leaves the nearest integer in the low bits.
const ROUNDER: f32 = 12582912.0;
// fdlibm's split: the product of HI with an exponent is exact.
pub(super) const LN2_HI: f32 = 0.693_145_75;
pub(super) const LN2_LO: f32 = 1.428_606_8e-6;
const PI_HI: f32 = 3.1415927;
const PI_LO: f32 = -8.742278e-08;
const HALF_PI_HI: f32 = 1.5707964;
const HALF_PI_LO: f32 = -4.371139e-08;
/// The rounded `x * scale` as a float and as an integer (garbage for NaN).
#[inline(always)]
fn nearest<I: Isa>(x: f32, scale: f32) -> (f32, i32) {
    let t = fma::<I, _>(x, scale, ROUNDER);
    (t - ROUNDER, (t.to_bits() as i32).wrapping_sub(ROUNDER.to_bits() as i32))
}

/// Two to the power `n`, for normal results.
#[inline(always)]
fn power(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// `x * 2^n` in two steps, so that the result may be subnormal or infinite; only the second rounds.
#[inline(always)]
pub(super) fn scale(x: f32, n: i32) -> f32 {
    let half = n >> 1;
    x * power(half) * power(n.wrapping_sub(half))
}

/// `x` within bounds; NaN stays.
#[inline(always)]
fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = select(x < low, low, x);
    select(x > high, high, x)
}

/// `(exp(r) - 1, n)` with `x = n ln 2 + r`.
#[inline(always)]
fn exp_parts<I: Isa>(x: f32) -> (f32, i32) {
    let (whole, n) = nearest::<I>(x, std::f32::consts::LOG2_E);
    let r = fma::<I, _>(whole, -LN2_HI, x);
    let r = fma::<I, _>(whole, -LN2_LO, r);
    let z = r * r;
    let q = paired!(I, r, z; 0.5, 0.16666576, 0.041666552, 0.0083633335, 0.0013926376);
    (fma::<I, _>(z, q, r), n)
}

/// An exponent of which nothing is left out whose exponential is more than zero and less than infinity; NaN stays.
#[inline(always)]
pub(super) fn clamp_exponent(x: f32) -> f32 {
    clamp(x, -104.0, 89.0)
}

/// The exponential.
#[inline(always)]
pub fn exp<I: Isa>(x: f32) -> f32 {
    let (p, n) = exp_parts::<I>(clamp_exponent(x));
    scale(1.0 + p, n)
}

/// Whether the exponential is a normal number; false for NaN.
#[inline(always)]
pub fn is_common_exponent(x: f32) -> bool {
    x.abs() <= 87.0
}

/// The exponential of a common exponent: the power of two goes straight into the exponent's field.
#[inline(always)]
pub fn exp_common<I: Isa>(x: f32) -> f32 {
    let (p, n) = exp_parts::<I>(x);
    f32::from_bits((1.0 + p).to_bits().wrapping_add((n as u32) << 23))
}

/// The exponential of a number that is not positive: the power of two is 64 too high, which keeps it a normal number, and
/// a constant puts that right, so that only the last product rounds to a subnormal result.
#[inline(always)]
pub fn exp_not_positive<I: Isa>(x: f32) -> f32 {
    let (p, n) = exp_parts::<I>(select(x < -104.0, -104.0, x));
    (1.0 + p) * power(n.wrapping_add(64)) * f32::from_bits((127 - 64) << 23)
}

/// Two to the power.
#[inline(always)]
pub fn exp2<I: Isa>(x: f32) -> f32 {
    let x = clamp(x, -151.0, 129.0);
    let (whole, n) = nearest::<I>(x, 1.0);
    let r = x - whole;
    let q = horner!(I, r; 0.6931472, 0.2402265, 0.05550357, 0.009618083, 0.0013390863, 0.00015453163);
    scale(fma::<I, _>(r, q, 1.0), n)
}

/// `exp(x) - 1`.
#[inline(always)]
pub fn expm1<I: Isa>(x: f32) -> f32 {
    let (p, n) = exp_parts::<I>(clamp(x, -18.0, 89.0));
    // One power less, so that the largest results do not overflow on the way.
    let s = power(n.wrapping_sub(1));
    let y = 2.0 * fma::<I, _>(s, p, s - 0.5);
    select(n == 0, p, y).copysign(x)
}

/// `(f, e)` with `x = (1 + f) 2^e` and `1 + f` between the roots of 1/2 and 2, for positive `x`.
#[inline(always)]
fn log_parts(x: f32) -> (f32, f32) {
    let subnormal = x < f32::MIN_POSITIVE;
    let (f, e) = log_parts_normal(select(subnormal, x * 8388608.0, x));
    (f, e - select(subnormal, 23.0, 0.0))
}

/// [`log_parts`] of a positive normal number.
#[inline(always)]
fn log_parts_normal(x: f32) -> (f32, f32) {
    const ROOT_HALF: u32 = 0x3f35_04f3;
    let bits = x.to_bits().wrapping_sub(ROOT_HALF);
    let m = f32::from_bits((bits & 0x007f_ffff).wrapping_add(ROOT_HALF));
    (m - 1.0, ((bits as i32) >> 23) as f32)
}

/// `(log(1 + f) - f + f^2 / 2) / f^3`, given the square.
#[inline(always)]
fn log_poly<I: Isa>(f: f32, z: f32) -> f32 {
    paired!(I, f, z; 0.3333333, -0.24999997, 0.20000716, -0.16667803, 0.14249058, -0.12425687, 0.1168542, -0.11479734, 0.06971612)
}

/// `log(1 + f) - f`.
#[inline(always)]
fn log_tail<I: Isa>(f: f32) -> f32 {
    let z = f * f;
    fma::<I, _>(f * z, log_poly::<I>(f, z), -0.5 * z)
}

/// `y`, put right where the logarithm's argument is not positive and finite.
#[inline(always)]
fn log_special(x: f32, y: f32) -> f32 {
    let y = select(x < f32::INFINITY, y, x);
    let y = select(x < 0.0, f32::NAN, y);
    select(x == 0.0, f32::NEG_INFINITY, y)
}

/// The natural logarithm of `(1 + f) 2^e`.
#[inline(always)]
fn log_of_parts<I: Isa>((f, e): (f32, f32)) -> f32 {
    let z = f * f;
    let tail = fma::<I, _>(z, fma::<I, _>(f, log_poly::<I>(f, z), -0.5), e * LN2_LO);
    fma::<I, _>(e, LN2_HI, f + tail)
}

/// The natural logarithm.
#[inline(always)]
pub fn log<I: Isa>(x: f32) -> f32 {
    log_special(x, log_of_parts::<I>(log_parts(x)))
}

/// Whether it is a positive normal number, whose logarithm needs no special case.
#[inline(always)]
pub fn is_common_logarithm(x: f32) -> bool {
    x.to_bits().wrapping_sub(f32::MIN_POSITIVE.to_bits()) < f32::INFINITY.to_bits() - f32::MIN_POSITIVE.to_bits()
}

/// The natural logarithm of a common number.
#[inline(always)]
pub fn log_common<I: Isa>(x: f32) -> f32 {
    log_of_parts::<I>(log_parts_normal(x))
}

/// `log(x / (1 - x))`.
#[inline(always)]
pub fn logit<I: Isa>(x: f32) -> f32 {
    const ROOT_HALF: u32 = 0x3f35_04f3;
    let q = x / (1.0 - x);
    let (rounded, e) = log_parts(q);
    // The quotient's mantissa less one without the quotient's error, where that matters: exactly from the numerator, times
    // `1 / (1 - x) = 1 + q`. The products with 2^-e, whose exponent's field is q's mirrored, are exact, and so are the
    // differences near one half.
    let field = q.to_bits().wrapping_sub(ROOT_HALF).wrapping_add(127 << 23) >> 23;
    let s = f32::from_bits(254u32.wrapping_sub(field) << 23);
    let numerator = select(x < 0.5, (x * s - 1.0) + x, x * s + (x - 1.0));
    let numerator = select(e == 0.0, (x + x) - 1.0, numerator);
    let f = select(e.abs() <= 8.0, numerator * (1.0 + q), rounded);
    let tail = fma::<I, _>(e, LN2_LO, log_tail::<I>(f));
    log_special(q, fma::<I, _>(e, LN2_HI, f + tail))
}

/// The binary logarithm.
#[inline(always)]
pub fn log2<I: Isa>(x: f32) -> f32 {
    const HI: f32 = 1.442695;
    const LO: f32 = 1.925963e-08;
    let (f, e) = log_parts(x);
    let tail = fma::<I, _>(f, LO, log_tail::<I>(f) * HI);
    log_special(x, e + fma::<I, _>(f, HI, tail))
}

/// The decimal logarithm.
#[inline(always)]
pub fn log10<I: Isa>(x: f32) -> f32 {
    const HI: f32 = 0.4342945;
    const LO: f32 = -1.010305e-08;
    const TWO_HI: f32 = 0.3010254;
    const TWO_LO: f32 = 4.605039e-06;
    let (f, e) = log_parts(x);
    let tail = fma::<I, _>(f, LO, log_tail::<I>(f) * HI);
    let tail = fma::<I, _>(e, TWO_LO, tail);
    log_special(x, fma::<I, _>(e, TWO_HI, fma::<I, _>(f, HI, tail)))
}

/// `log(1 + x)`.
#[inline(always)]
pub fn log1p<I: Isa>(x: f32) -> f32 {
    const ROOT_HALF: u32 = 0x3f35_04f3;
    // Beyond 2^60 the one does not matter, and 2^-e must stay normal.
    let large = x > 1152921504606846976.0;
    let a = select(large, x * 9.094947e-13, x);
    let n = ((1.0 + a).to_bits().wrapping_sub(ROOT_HALF) as i32) >> 23;
    let s = power(n.wrapping_neg());
    // (1 + a) 2^-n - 1 with one rounding: `s - 1` is exact where the result is not large.
    let f = fma::<I, _>(a, s, s - 1.0);
    let e = n as f32 + select(large, 40.0, 0.0);
    let tail = fma::<I, _>(e, LN2_LO, log_tail::<I>(f));
    let y = fma::<I, _>(e, LN2_HI, f + tail).copysign(x);
    let y = select(x < f32::INFINITY, y, x);
    let y = select(x < -1.0, f32::NAN, y);
    select(x == -1.0, f32::NEG_INFINITY, y)
}

#[inline(always)]
fn sin_poly<I: Isa>(r: f32) -> f32 {
    let z = r * r;
    let q = horner!(I, z; -0.16666667, 0.008333332, -0.00019840084, 2.724962e-06);
    fma::<I, _>(r * z, q, r)
}

#[inline(always)]
fn cos_poly<I: Isa>(r: f32) -> f32 {
    let z = r * r;
    let q = horner!(I, z; 0.041666664, -0.0013888301, 2.454769e-05);
    fma::<I, _>(z * z, q, fma::<I, _>(z, -0.5, 1.0))
}

/// The sine of `r` plus `n` right angles.
#[inline(always)]
fn sin_quadrant<I: Isa>(r: f32, n: i32) -> f32 {
    let y = select(n & 1 != 0, cos_poly::<I>(r), sin_poly::<I>(r));
    f32::from_bits(y.to_bits() ^ ((n as u32 & 2) << 30))
}

/// `(r, n)` with `x = n pi / 2 + r`, for `x` up to [`COMMON`](super::trig::COMMON).
#[inline(always)]
fn reduce<I: Isa>(x: f32) -> (f32, i32) {
    // pi / 2 in three parts (Cody and Waite): with one rounding per step, what is left is good to 2^-55.
    const PART1: f32 = 1.5707964;
    const PART2: f32 = -4.371139e-08;
    const PART3: f32 = -1.7151245e-15;
    if !I::FMA {
        let (r, n) = reduce_f64::<I>(x as f64);
        return (r as f32, n as i32);
    }
    let (whole, n) = nearest::<I>(x, std::f32::consts::FRAC_2_PI);
    let r = fma::<I, _>(whole, -PART1, x);
    let r = fma::<I, _>(whole, -PART2, r);
    (fma::<I, _>(whole, -PART3, r), n)
}

/// The sine of a common angle.
#[inline(always)]
pub fn sin_common<I: Isa>(x: f32) -> f32 {
    // The sign is taken off so that -0 keeps it.
    let (r, n) = reduce::<I>(x.abs());
    let y = sin_quadrant::<I>(r, n);
    f32::from_bits(y.to_bits() ^ (x.to_bits() & 0x8000_0000))
}

/// The cosine of a common angle.
#[inline(always)]
pub fn cos_common<I: Isa>(x: f32) -> f32 {
    let (r, n) = reduce::<I>(x);
    sin_quadrant::<I>(r, n.wrapping_add(1))
}

/// The tangent of `r` plus `n` right angles, for `r` in `f64`.
#[inline(always)]
fn tan_quadrant<I: Isa>(r: f64, n: i64) -> f32 {
    let z = r * r;
    let s = fma::<I, _>(
        r * z,
        horner!(I, z; -0.16666666663844049, 0.008333331870341349, -0.00019840084376422702, 2.724962008007533e-06),
        r,
    );
    let c = fma::<I, _>(
        z * z,
        horner!(I, z; 0.041666666664311826, -0.0013888887668370663, 2.480059840835012e-05, -2.730070403808665e-07),
        fma::<I, _>(z, -0.5, 1.0),
    );
    let odd = n & 1 != 0;
    let (above, below) = (select(odd, -c, s), select(odd, s, c));
    (above / below) as f32
}

/// The tangent of a common angle.
#[inline(always)]
pub fn tan_common<I: Isa>(x: f32) -> f32 {
    let (r, n) = reduce_f64::<I>(x.abs() as f64);
    let y = tan_quadrant::<I>(r, n);
    f32::from_bits(y.to_bits() ^ (x.to_bits() & 0x8000_0000))
}

/// The sine.
#[inline(always)]
pub fn sin<I: Isa>(x: f32) -> f32 {
    if Float::is_common_angle(x) {
        return sin_common::<I>(x);
    }
    let (r, n) = reduce_large(x as f64);
    sin_quadrant::<I>(r as f32, n as i32)
}

/// The cosine.
#[inline(always)]
pub fn cos<I: Isa>(x: f32) -> f32 {
    if Float::is_common_angle(x) {
        return cos_common::<I>(x);
    }
    let (r, n) = reduce_large(x as f64);
    sin_quadrant::<I>(r as f32, n as i32 + 1)
}

/// The tangent.
#[inline(always)]
pub fn tan<I: Isa>(x: f32) -> f32 {
    if Float::is_common_angle(x) {
        return tan_common::<I>(x);
    }
    let (r, n) = reduce_large(x as f64);
    tan_quadrant::<I>(r, n)
}

/// `(t, asin(t) - t, |x| > 1/2)` with `t = |x|`, or the root of `(1 - |x|) / 2` where that is smaller.
///
/// The callers' constants less `t` are nearly exact, which the sum would not be.
#[inline(always)]
fn asin_parts<I: Isa>(x: f32) -> (f32, f32, bool) {
    let a = x.abs();
    let large = a > 0.5;
    let z = select(large, (1.0 - a) * 0.5, a * a);
    let t = select(large, z.sqrt(), a);
    let q = horner!(I, z; 0.16666666, 0.07500094, 0.044599403, 0.031100662, 0.017149238, 0.033690847);
    (t, t * z * q, large)
}

/// The arcsine.
#[inline(always)]
pub fn asin<I: Isa>(x: f32) -> f32 {
    let (t, tail, large) = asin_parts::<I>(x);
    let near = HALF_PI_HI - 2.0 * t;
    let rounding = (HALF_PI_HI - near) - 2.0 * t;
    let near = near + (rounding + (HALF_PI_LO - 2.0 * tail));
    select(large, near, t + tail).copysign(x)
}

/// The arccosine.
#[inline(always)]
pub fn acos<I: Isa>(x: f32) -> f32 {
    let (t, tail, large) = asin_parts::<I>(x);
    let twice = 2.0 * (t + tail);
    let near = select(x < 0.0, (PI_HI - 2.0 * t) + (PI_LO - 2.0 * tail), twice);
    let far = (HALF_PI_HI - t.copysign(x)) + (HALF_PI_LO - tail.copysign(x));
    select(large, near, far)
}

/// The arctangent of `0 <= t <= 1`; odd.
#[inline(always)]
fn atan_poly<I: Isa>(t: f32) -> f32 {
    let z = t * t;
    let q = horner!(I, z; -0.33333334, 0.1999995, -0.14284004, 0.11088262, -0.08931827, 0.070319146, -0.048960514, 0.026305001, -0.009144629, 0.0014886919);
    fma::<I, _>(t * z, q, t)
}

/// The arctangent.
#[inline(always)]
pub fn atan<I: Isa>(x: f32) -> f32 {
    let a = x.abs();
    let large = a > 1.0;
    let p = atan_poly::<I>(select(large, -1.0 / a, a));
    select(large, HALF_PI_HI + (p + HALF_PI_LO), p).copysign(x)
}

/// The angle of a point.
#[inline(always)]
pub fn atan2<I: Isa>(y: f32, x: f32) -> f32 {
    let (a, b) = (y.abs(), x.abs());
    let steep = a > b;
    let (above, below) = (select(steep, b, a), select(steep, a, b));
    let t = above / below;
    let t = select(above == below, 1.0, t);
    let p = atan_poly::<I>(select(below == 0.0, 0.0, t));
    let p = select(steep, HALF_PI_HI - (p - HALF_PI_LO), p);
    let p = select(x.is_sign_negative(), PI_HI - (p - PI_LO), p);
    select(Float::is_nan(x) | Float::is_nan(y), x + y, p.copysign(y))
}

/// `exp(|x|) / 2`, infinite only where `cosh` is.
#[inline(always)]
fn half_exp<I: Isa>(x: f32) -> f32 {
    let (p, n) = exp_parts::<I>(clamp(x.abs(), 0.0, 90.0));
    scale(1.0 + p, n.wrapping_sub(1))
}

/// The hyperbolic sine.
#[inline(always)]
pub fn sinh<I: Isa>(x: f32) -> f32 {
    let a = x.abs();
    let z = a * a;
    let small = fma::<I, _>(a * z, horner!(I, z; 0.16666667, 0.008333339, 0.00019838102, 2.8062802e-06), a);
    let e = half_exp::<I>(x);
    select(a < 1.0, small, e - 0.25 / e).copysign(x)
}

/// The hyperbolic cosine.
#[inline(always)]
pub fn cosh<I: Isa>(x: f32) -> f32 {
    let e = half_exp::<I>(x);
    e + 0.25 / e
}

/// The hyperbolic tangent.
#[inline(always)]
pub fn tanh<I: Isa>(x: f32) -> f32 {
    let a = x.abs();
    let a = select(a > 10.0, 10.0, a);
    // Half of `exp(2a) - 1`, as `exp_parts` has it of a number and its constants twice as large.
    let (whole, n) = nearest::<I>(a, 2.0 * std::f32::consts::LOG2_E);
    let r = fma::<I, _>(whole, -0.5 * LN2_HI, a);
    let r = fma::<I, _>(whole, -0.5 * LN2_LO, r);
    let z = r * r;
    let q = paired!(I, r, z; 2.0 * 0.5, 4.0 * 0.16666576, 8.0 * 0.041666552, 16.0 * 0.0083633335, 32.0 * 0.0013926376);
    let p = fma::<I, _>(z, q, r);
    let s = power(n);
    let half = fma::<I, _>(s, p, fma::<I, _>(s, 0.5, -0.5));
    let quotient = half / (half + 1.0);
    let small = if I::FMA {
        // What the quotient is below the half: it is small itself, and so are its two more roundings.
        fma::<I, _>(-half, quotient, half)
    } else {
        let z = a * a;
        let q = horner!(I, z; -0.3333333244048485, 0.13333070610171605, -0.05384672946218065, 0.020050396683569893);
        fma::<I, _>(a * z, q, a)
    };
    select(a < 0.33, small, quotient).copysign(x)
}

/// `1 / (1 + exp(-x))`.
#[inline(always)]
pub fn sigmoid<I: Isa>(x: f32) -> f32 {
    let (p, n) = exp_parts::<I>(clamp(-x, -30.0, 104.0));
    // 1 + exp(-x) = 1 + s + s p, where the first sum is exact unless s is large, and then the second is nearly so. Where
    // s is huge, it alone and 2^-64 times.
    let (large, huge) = (n > 20, n > 64);
    let s = power(n.wrapping_sub(select(huge, 64, 0)));
    let one = select(huge, 0.0, 1.0);
    let sum = fma::<I, _>(s, p, select(large, one, one + s)) + select(large, s, 0.0);
    select(huge, 5.421_010_9e-20, 1.0) / sum
}

/// The inverse hyperbolic sine.
#[inline(always)]
pub fn asinh<I: Isa>(x: f32) -> f32 {
    let a = x.abs() as f64;
    let z = a * a;
    let y = log1p_lite::<I>(a + z / (1.0 + (z + 1.0).sqrt()));
    // Also puts infinity right.
    select(a < f64::INFINITY, y as f32, x).copysign(x)
}

/// The inverse hyperbolic cosine.
#[inline(always)]
pub fn acosh<I: Isa>(x: f32) -> f32 {
    let t = x as f64 - 1.0;
    let y = log1p_lite::<I>(t + (t * (t + 2.0)).sqrt()) as f32;
    let y = select(x < f32::INFINITY, y, x);
    select(x < 1.0, f32::NAN, y)
}

/// The inverse hyperbolic tangent.
#[inline(always)]
pub fn atanh<I: Isa>(x: f32) -> f32 {
    let a = x.abs() as f64;
    let y = (0.5 * log1p_lite::<I>(2.0 * a / (1.0 - a))) as f32;
    let y = select(a < 1.0, y, f32::INFINITY);
    select(a <= 1.0, y, f32::NAN).copysign(x)
}

/// The error function of a number from 0 to 1.
#[inline(always)]
fn erf_small<I: Isa>(a: f32) -> f32 {
    let z = a * a;
    fma::<I, _>(
        a,
        horner!(I, z; 0.12837917, -0.37612635, 0.11283694, -0.026859296, 0.0052007297, -0.00081387925, 8.351897e-05),
        a,
    )
}

/// The error function.
#[inline(always)]
pub fn erf<I: Isa>(x: f32) -> f32 {
    let a = x.abs();
    let small = erf_small::<I>(a);
    // The logarithm of erfc is smooth; beyond 4 erf rounds to one.
    let a = select(a > 4.0, 4.0, a);
    let (p, n) = exp_parts::<I>(
        horner!(I, a; 0.00030639002, -1.1301764, -0.6319268, -0.10998138, 0.02636249, -0.0047379606, 0.0005919635, -4.54564e-05, 1.605334e-06),
    );
    let s = power(n);
    let large = 1.0 - fma::<I, _>(s, p, s);
    select(a < 0.921875, small, large).copysign(x)
}

/// The complementary error function.
#[inline(always)]
pub fn erfc<I: Isa>(x: f32) -> f32 {
    let e = erfc_lite::<I>(x.abs() as f64);
    (select(x < 0.0, 2.0 - e, e)) as f32
}

/// Two to the power: what brings exponentials that may be subnormal up to normal numbers, until a last product.
const UP: i32 = 64;
/// Its inverse.
const DOWN: f32 = f32::from_bits(((127 - UP) as u32) << 23);
/// [`ROUNDER`] with that exponent added already.
const ROUNDER_UP: f32 = ROUNDER + UP as f32;

/// `(function, exp(-x^2 / 2))` of the normal distribution, within 6 and 3 units in the last place; of NaN, the latter is
/// anything.
#[inline(always)]
pub fn normal<I: Isa>(x: f32) -> (f32, f32) {
    // -log2(e) / 2 and what is lost of it.
    const HI: f32 = -0.7213475;
    const LO: f32 = -9.629_819e-9;
    let t = x.abs();
    let t = select(t > 14.86, 14.86, t);
    let square = t * t;
    // exp(t^2 / 2) times the function of -t: a rational function of least relative error, 2^-27.
    let h = paired!(I, t, square; 0.5743820 * DOWN, 0.50432068 * DOWN, 0.2111049 * DOWN, 0.046884246 * DOWN, 0.0047593624 * DOWN)
        / paired!(I, t, square; 1.1487640, 1.925223, 1.3839277, 0.54092407, 0.1175285, 0.011929822);
    let up = fma::<I, _>(square, HI, ROUNDER_UP);
    let whole = up - ROUNDER_UP;
    let r = if I::FMA {
        // With what the square is rounded by, which the exponential would magnify.
        let lost = fma::<I, _>(t, t, -square);
        let r = fma::<I, _>(square, LO, fma::<I, _>(square, HI, -whole));
        fma::<I, _>(lost, HI, r)
    } else {
        (t as f64 * t as f64 * (-0.5 * std::f64::consts::LOG2_E) - whole as f64) as f32
    };
    let z = r * r;
    let p = paired!(I, r, z; 1.0, 0.6931472, 0.24022648, 0.055503345, 0.009618440, 0.0013398293, 0.00015351919);
    tails(x, h, p, up)
}

/// [`normal`] as far as halves need it, within 2^-12, of numbers whose square is exact.
#[inline(always)]
pub fn normal_of_half<I: Isa>(x: f32) -> (f32, f32) {
    let t = x.abs();
    let t = select(t > 14.86, 14.86, t);
    let h = horner!(I, t; 0.50001276 * DOWN, 0.27949583 * DOWN, 0.063044685 * DOWN)
        / horner!(I, t; 1.0, 1.3576636, 0.70546695, 0.15786537);
    let y = t * t * -0.7213475;
    let up = y + ROUNDER_UP;
    let r = y - (up - ROUNDER_UP);
    let p = horner!(I, r; 0.99992807, 0.69326099, 0.24261112, 0.055171668);
    tails(x, h, p, up)
}

/// The distribution's function and the exponential: the tail, a function of `t`, is `h` times that, which is `p` (near one)
/// times two to the power that is in the low bits of `up`. `h` is [`DOWN`] already, and the exponential up until one product,
/// which is all that rounds to a subnormal result.
#[inline(always)]
fn tails(x: f32, h: f32, p: f32, up: f32) -> (f32, f32) {
    let e = f32::from_bits(p.to_bits().wrapping_add(up.to_bits() << 23));
    let tail = h * e;
    // (Asked so that a difference under a mask is all that it takes.)
    (select(x >= 0.0, 1.0 - tail, tail), e * DOWN)
}

/// The normal distribution function.
#[inline(always)]
pub fn ndtr<I: Isa>(x: f32) -> f32 {
    normal::<I>(x).0
}

/// `x` to the power `y`.
#[inline(always)]
pub fn pow<I: Isa>(x: f32, y: f32) -> f32 {
    let a = x.abs();
    let log = log_lite::<I>(a as f64);
    let log = select(a == 0.0, f64::NEG_INFINITY, log);
    let log = select(a < f32::INFINITY, log, f64::INFINITY);
    let t = y as f64 * log;
    let t = select(t < -120.0, -120.0, t);
    let t = select(t > 120.0, 120.0, t);
    pow_special::<I>(x, y, exp_lite::<I>(t) as f32)
}

/// `result`, put right for the sign of `x` and where C has a special case.
#[inline(always)]
pub fn pow_special<I: Isa>(x: f32, y: f32, result: f32) -> f32 {
    let integer = Float::trunc::<I>(y) == y;
    let half = y * 0.5;
    let odd = integer & (Float::trunc::<I>(half) != half);
    let result = select(odd, result.copysign(x), result);
    let result = select((x < 0.0) & !integer & (x > f32::NEG_INFINITY), f32::NAN, result);
    let result = select(Float::is_nan(x) | Float::is_nan(y), f32::NAN, result);
    let unit = (x == -1.0) & Float::is_inf(y);
    select((x == 1.0) | (y == 0.0) | unit, 1.0, result)
}

/// `log(exp(x) + exp(y))`.
#[inline(always)]
pub fn logaddexp<I: Isa>(x: f32, y: f32) -> f32 {
    let large = Float::maximum::<I>(x, y);
    let sum = large + log1p::<I>(exp::<I>(-(x - y).abs()));
    // Equal infinities differ by NaN.
    select((x == y) & Float::is_inf(x), x, sum)
}

/// `log2(exp2(x) + exp2(y))`.
#[inline(always)]
pub fn logaddexp2<I: Isa>(x: f32, y: f32) -> f32 {
    let large = Float::maximum::<I>(x, y);
    let sum = large + log1p::<I>(exp2::<I>(-(x - y).abs())) * std::f32::consts::LOG2_E;
    select((x == y) & Float::is_inf(x), x, sum)
}
