//! The real functions of `f64`, and shorter forms of some ("lite", good to about 2^-30) that `f32` functions use.
//!
//! See [`single`](super::single) for the polynomials and for `HI` and `LO`. Integers stay in 64-bit lanes, and neither
//! conversions nor arithmetic shifts of them are used: SSE2 and AVX2 have none.

use super::poly::{fma, horner, paired, select};
use super::trig::{reduce_f64, reduce_large};
use super::{Float, Isa};

/// 1.5 * 2^52: added to a number, it leaves the nearest integer in the low bits.
const ROUNDER: f64 = 6755399441055744.0;
// fdlibm's split: the product of HI with an exponent is exact.
const LN2_HI: f64 = 6.93147180369123816490e-01;
const LN2_LO: f64 = 1.90821492927058770002e-10;
const PI_HI: f64 = std::f64::consts::PI;
const PI_LO: f64 = 1.2246467991473532e-16;
const HALF_PI_HI: f64 = std::f64::consts::FRAC_PI_2;
const HALF_PI_LO: f64 = 6.123233995736766e-17;

/// The rounded `x * scale` as a float and as an integer (garbage for NaN).
#[inline(always)]
fn nearest<I: Isa>(x: f64, scale: f64) -> (f64, i64) {
    let t = fma::<I, _>(x, scale, ROUNDER);
    (t - ROUNDER, (t.to_bits() as i64).wrapping_sub(ROUNDER.to_bits() as i64))
}

/// Two to the power `n`, for normal results.
#[inline(always)]
fn power(n: i64) -> f64 {
    f64::from_bits((n.wrapping_add(1023) as u64) << 52)
}

/// `x * 2^n` in two steps, so that the result may be subnormal or infinite; only the second rounds.
#[inline(always)]
fn scale(x: f64, n: i64) -> f64 {
    // Half of a signed number by a logical shift.
    let half = ((n.wrapping_add(8192) as u64) >> 1) as i64 - 4096;
    x * power(half) * power(n.wrapping_sub(half))
}

/// `x` within bounds; NaN stays.
#[inline(always)]
fn clamp(x: f64, low: f64, high: f64) -> f64 {
    let x = select(x < low, low, x);
    select(x > high, high, x)
}

/// `(r, n)` with `x = n ln 2 + r`.
#[inline(always)]
fn exp_reduce<I: Isa>(x: f64) -> (f64, i64) {
    let (whole, n) = nearest::<I>(x, std::f64::consts::LOG2_E);
    let r = fma::<I, _>(whole, -LN2_HI, x);
    (fma::<I, _>(whole, -LN2_LO, r), n)
}

/// The same with `n` as a float, of any number.
#[inline(always)]
pub fn exp_reduce_any<I: Isa>(x: f64) -> (f64, f64) {
    let (whole, _) = nearest::<I>(x, std::f64::consts::LOG2_E);
    let r = fma::<I, _>(whole, -LN2_HI, x);
    (fma::<I, _>(whole, -LN2_LO, r), whole)
}

/// `exp(r) - 1` for reduced `r`.
#[inline(always)]
pub fn expm1_poly<I: Isa>(r: f64) -> f64 {
    let z = r * r;
    let q = paired!(I, r, z; 0.5000000000000001, 0.16666666666666669, 0.04166666666662324, 0.008333333333329994, 0.0013888888917654016, 0.00019841269863392214, 2.4801520613566223e-05, 2.7557267935231926e-06, 2.762041219449885e-07, 2.5100634461878497e-08);
    fma::<I, _>(z, q, r)
}

/// The exponential.
#[inline(always)]
pub fn exp<I: Isa>(x: f64) -> f64 {
    let (r, n) = exp_reduce::<I>(clamp(x, -746.0, 710.0));
    scale(1.0 + expm1_poly::<I>(r), n)
}

/// Whether the exponential is a normal number; false for NaN.
#[inline(always)]
pub fn is_common_exponent(x: f64) -> bool {
    x.abs() <= 708.0
}

/// The exponential of a common exponent: the power of two goes straight into the exponent's field.
#[inline(always)]
pub fn exp_common<I: Isa>(x: f64) -> f64 {
    let (r, n) = exp_reduce::<I>(x);
    f64::from_bits((1.0 + expm1_poly::<I>(r)).to_bits().wrapping_add((n as u64) << 52))
}

/// The exponential of an argument whose result is normal, to 2^-30.
#[inline(always)]
pub fn exp_lite<I: Isa>(x: f64) -> f64 {
    let (r, n) = exp_reduce::<I>(x);
    let q = horner!(I, r; 0.5000000013675161, 0.1666666668185573, 0.041666462839077045, 0.008333310693802049, 0.0013933880963236528, 0.00019891247314183293);
    let s = power(n);
    fma::<I, _>(s, fma::<I, _>(r * r, q, r), s)
}

/// Two to the power.
#[inline(always)]
pub fn exp2<I: Isa>(x: f64) -> f64 {
    let x = clamp(x, -1076.0, 1025.0);
    let (whole, n) = nearest::<I>(x, 1.0);
    let r = x - whole;
    let q = horner!(I, r; 0.6931471805599453, 0.24022650695910072, 0.055504108664821625, 0.00961812910762848, 0.001333355814640647, 0.00015403530393370734, 1.5252733841556773e-05, 1.3215486808705563e-06, 1.0178057087733941e-07, 7.0548973041554995e-09, 4.4558179083360645e-10, 2.5729324177362305e-11);
    scale(fma::<I, _>(r, q, 1.0), n)
}

/// `exp(x) - 1`.
#[inline(always)]
pub fn expm1<I: Isa>(x: f64) -> f64 {
    let (r, n) = exp_reduce::<I>(clamp(x, -40.0, 710.0));
    let p = expm1_poly::<I>(r);
    // One power less, so that the largest results do not overflow on the way.
    let s = power(n.wrapping_sub(1));
    let y = 2.0 * fma::<I, _>(s, p, s - 0.5);
    select(n == 0, p, y).copysign(x)
}

/// `(m, e)` with `x = m 2^e` and `m` between the roots of 1/2 and 2, for positive `x`.
#[inline(always)]
fn log_parts(x: f64) -> (f64, f64) {
    const ROOT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    let subnormal = x < f64::MIN_POSITIVE;
    let x = select(subnormal, x * 4503599627370496.0, x);
    let bits = x.to_bits().wrapping_sub(ROOT_HALF).wrapping_add(1023 << 52);
    let m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff).wrapping_add(ROOT_HALF));
    (m, biased(bits >> 52) - select(subnormal, 1023.0 + 52.0, 1023.0))
}

/// A small integer as a float, by way of the bits of 2^52 plus it.
#[inline(always)]
fn biased(n: u64) -> f64 {
    f64::from_bits(n | 0x4330_0000_0000_0000) - 4503599627370496.0
}

/// `log(1 + f) - f`.
#[inline(always)]
fn log_tail<I: Isa>(f: f64) -> f64 {
    // With s = f / (2 + f): log(1 + f) = 2 atanh(s) = f - f^2 / 2 + s (f^2 / 2 + R(s^2)) (fdlibm's e_log.c).
    let s = f / (2.0 + f);
    let z = s * s;
    let rest = z
        * horner!(I, z; 0.666666666666667, 0.39999999999899505, 0.28571428625975487, 0.2222221113479508, 0.18182889125261723, 0.15331721600556042, 0.14616449685043406);
    let half_square = 0.5 * f * f;
    fma::<I, _>(s, half_square + rest, -half_square)
}

/// `y`, put right where the logarithm's argument is not positive and finite.
#[inline(always)]
fn log_special(x: f64, y: f64) -> f64 {
    let y = select(x < f64::INFINITY, y, x);
    let y = select(x < 0.0, f64::NAN, y);
    select(x == 0.0, f64::NEG_INFINITY, y)
}

/// The natural logarithm.
#[inline(always)]
pub fn log<I: Isa>(x: f64) -> f64 {
    let (m, e) = log_parts(x);
    let f = m - 1.0;
    let tail = fma::<I, _>(e, LN2_LO, log_tail::<I>(f));
    log_special(x, fma::<I, _>(e, LN2_HI, f + tail))
}

/// `log(x / (1 - x))`.
#[inline(always)]
pub fn logit<I: Isa>(x: f64) -> f64 {
    let rest = 1.0 - x;
    let q = x / rest;
    let (m, e) = log_parts(q);
    // Near one half the quotient is near one, and what it differs by is exact before the division.
    let near = (x > 0.25) & (x < 0.75);
    let (f_near, e_near) = log1p_parts::<I>(2.0 * (x - 0.5) / rest);
    let (f, e) = (select(near, f_near, m - 1.0), select(near, e_near, e));
    let tail = fma::<I, _>(e, LN2_LO, log_tail::<I>(f));
    log_special(q, fma::<I, _>(e, LN2_HI, f + tail))
}

/// The logarithm of a positive normal number, to 2^-35.
#[inline(always)]
pub fn log_lite<I: Isa>(x: f64) -> f64 {
    let (m, e) = log_parts(x);
    log_lite_parts::<I>(m - 1.0, e)
}

#[inline(always)]
fn log_lite_parts<I: Isa>(f: f64, e: f64) -> f64 {
    let s = f / (2.0 + f);
    let z = s * s;
    let q = horner!(I, z; 0.6666666655449709, 0.40000121839806124, 0.28550820815960665, 0.23330467216303835);
    fma::<I, _>(e, std::f64::consts::LN_2, fma::<I, _>(s * z, q, 2.0 * s))
}

/// `(hi, lo)` with `log(1 + f) = hi + lo` to about 2^-58, `hi` short enough for exact products with 20 bits.
#[inline(always)]
fn log_split<I: Isa>(f: f64) -> (f64, f64) {
    let tail = log_tail::<I>(f);
    let hi = f64::from_bits((f + tail).to_bits() & 0xffff_ffff_0000_0000);
    (hi, (f - hi) + tail)
}

/// The binary logarithm.
#[inline(always)]
pub fn log2<I: Isa>(x: f64) -> f64 {
    const HI: f64 = 1.4426950407214463;
    const LO: f64 = 1.6751713164886512e-10;
    let (m, e) = log_parts(x);
    let (hi, lo) = log_split::<I>(m - 1.0);
    let top = hi * HI;
    let tail = fma::<I, _>(lo + hi, LO, lo * HI);
    let sum = e + top;
    log_special(x, sum + (tail + ((e - sum) + top)))
}

/// The decimal logarithm.
#[inline(always)]
pub fn log10<I: Isa>(x: f64) -> f64 {
    const HI: f64 = 0.4342944818781689;
    const LO: f64 = 2.5082946711645275e-11;
    const TWO_HI: f64 = 0.3010299956640665;
    const TWO_LO: f64 = -8.532344317057107e-14;
    let (m, e) = log_parts(x);
    let (hi, lo) = log_split::<I>(m - 1.0);
    let top = hi * HI;
    let tail = fma::<I, _>(lo + hi, LO, fma::<I, _>(lo, HI, e * TWO_LO));
    let whole = e * TWO_HI;
    let sum = whole + top;
    log_special(x, sum + (tail + ((whole - sum) + top)))
}

/// `(f, e)` with `1 + x = (1 + f) 2^e`, for `x > -1`.
#[inline(always)]
fn log1p_parts<I: Isa>(x: f64) -> (f64, f64) {
    const ROOT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    // Beyond 2^500 the one does not matter, and 2^-e must stay normal.
    let large = x > 3.2733906078961419e150;
    let a = select(large, x * 8.6736173798840355e-19, x);
    let bits = (1.0 + a).to_bits().wrapping_sub(ROOT_HALF).wrapping_add(1023 << 52);
    // 2^-e: the exponent's field mirrored.
    let field = bits >> 52;
    let s = f64::from_bits(2046u64.wrapping_sub(field) << 52);
    // (1 + x) 2^-e - 1 with one rounding: `s - 1` is exact where the result is not large.
    let f = fma::<I, _>(a, s, s - 1.0);
    (f, biased(field) - select(large, 1023.0 - 60.0, 1023.0))
}

/// `log(1 + x)`.
#[inline(always)]
pub fn log1p<I: Isa>(x: f64) -> f64 {
    let (f, e) = log1p_parts::<I>(x);
    let tail = fma::<I, _>(e, LN2_LO, log_tail::<I>(f));
    let y = fma::<I, _>(e, LN2_HI, f + tail).copysign(x);
    let y = select(x < f64::INFINITY, y, x);
    let y = select(x < -1.0, f64::NAN, y);
    select(x == -1.0, f64::NEG_INFINITY, y)
}

/// `log(1 + x)` for `x > -1`, to 2^-30.
#[inline(always)]
pub fn log1p_lite<I: Isa>(x: f64) -> f64 {
    let (f, e) = log1p_parts::<I>(x);
    log_lite_parts::<I>(f, e)
}

#[inline(always)]
fn sin_poly<I: Isa>(r: f64) -> f64 {
    let z = r * r;
    let q = horner!(I, z; -0.16666666666666666, 0.008333333333330936, -0.00019841269836740532, 2.7557316093198404e-06, -2.5051129896450185e-08, 1.5917988979397435e-10);
    fma::<I, _>(r * z, q, r)
}

#[inline(always)]
fn cos_poly<I: Isa>(r: f64) -> f64 {
    let z = r * r;
    let q = horner!(I, z; 0.041666666666666664, -0.0013888888888887389, 2.48015872987544e-05, -2.755731726587808e-07, 2.087614504941318e-09, -1.138254464534925e-11);
    fma::<I, _>(z * z, q, fma::<I, _>(z, -0.5, 1.0))
}

/// The sine of `r` plus `n` right angles.
#[inline(always)]
fn sin_quadrant<I: Isa>(r: f64, n: i64) -> f64 {
    let y = select(n & 1 != 0, cos_poly::<I>(r), sin_poly::<I>(r));
    f64::from_bits(y.to_bits() ^ ((n as u64 & 2) << 62))
}

/// The tangent of `r` plus `n` right angles.
#[inline(always)]
fn tan_quadrant<I: Isa>(r: f64, n: i64) -> f64 {
    let (s, c) = (sin_poly::<I>(r), cos_poly::<I>(r));
    let odd = n & 1 != 0;
    let (above, below) = (select(odd, -c, s), select(odd, s, c));
    above / below
}

/// The sine of a common angle.
#[inline(always)]
pub fn sin_common<I: Isa>(x: f64) -> f64 {
    // The sign is taken off so that -0 keeps it.
    let (r, n) = reduce_f64::<I>(x.abs());
    let y = sin_quadrant::<I>(r, n);
    f64::from_bits(y.to_bits() ^ (x.to_bits() & (1 << 63)))
}

/// The cosine of a common angle.
#[inline(always)]
pub fn cos_common<I: Isa>(x: f64) -> f64 {
    let (r, n) = reduce_f64::<I>(x);
    sin_quadrant::<I>(r, n.wrapping_add(1))
}

/// The tangent of a common angle.
#[inline(always)]
pub fn tan_common<I: Isa>(x: f64) -> f64 {
    let (r, n) = reduce_f64::<I>(x.abs());
    let y = tan_quadrant::<I>(r, n);
    f64::from_bits(y.to_bits() ^ (x.to_bits() & (1 << 63)))
}

/// The sine.
#[inline(always)]
pub fn sin<I: Isa>(x: f64) -> f64 {
    if Float::is_common_angle(x) {
        return sin_common::<I>(x);
    }
    let (r, n) = reduce_large(x);
    sin_quadrant::<I>(r, n)
}

/// The cosine.
#[inline(always)]
pub fn cos<I: Isa>(x: f64) -> f64 {
    if Float::is_common_angle(x) {
        return cos_common::<I>(x);
    }
    let (r, n) = reduce_large(x);
    sin_quadrant::<I>(r, n + 1)
}

/// The tangent.
#[inline(always)]
pub fn tan<I: Isa>(x: f64) -> f64 {
    if Float::is_common_angle(x) {
        return tan_common::<I>(x);
    }
    let (r, n) = reduce_large(x);
    tan_quadrant::<I>(r, n)
}

/// `(t, asin(t) - t, |x| > 1/2)` with `t = |x|`, or the root of `(1 - |x|) / 2` where that is smaller.
///
/// The callers' constants less `t` are nearly exact, which the sum would not be.
#[inline(always)]
fn asin_parts<I: Isa>(x: f64) -> (f64, f64, bool) {
    let a = x.abs();
    let large = a > 0.5;
    let z = select(large, (1.0 - a) * 0.5, a * a);
    let t = select(large, z.sqrt(), a);
    let q = horner!(I, z; 0.16666666666666666, 0.07500000000000118, 0.044642857142551895, 0.03038194447553234, 0.02237215744350722, 0.017352816540325496, 0.01396378001220357, 0.011566459612121669, 0.009621842970100282, 0.009319560794767446, 0.0030448799094556773, 0.019554513336123378, -0.01924167174674304, 0.02961201126495512);
    (t, t * z * q, large)
}

/// The arcsine.
#[inline(always)]
pub fn asin<I: Isa>(x: f64) -> f64 {
    let (t, tail, large) = asin_parts::<I>(x);
    let near = (HALF_PI_HI - 2.0 * t) + (HALF_PI_LO - 2.0 * tail);
    select(large, near, t + tail).copysign(x)
}

/// The arccosine.
#[inline(always)]
pub fn acos<I: Isa>(x: f64) -> f64 {
    let (t, tail, large) = asin_parts::<I>(x);
    let twice = 2.0 * (t + tail);
    let near = select(x < 0.0, (PI_HI - 2.0 * t) + (PI_LO - 2.0 * tail), twice);
    let far = (HALF_PI_HI - t.copysign(x)) + (HALF_PI_LO - tail.copysign(x));
    select(large, near, far)
}

/// The arctangent of `above / below`, for `0 <= above <= below`.
#[inline(always)]
fn atan_ratio<I: Isa>(above: f64, below: f64) -> f64 {
    const QUARTER_PI_LO: f64 = 0.5 * HALF_PI_LO;
    // Above tan(pi / 8), the angle from the diagonal is used.
    let diagonal = above > 0.41421356237309503 * below;
    let (a, b) = (select(diagonal, above - below, above), select(diagonal, above + below, below));
    let t = a / b;
    let z = t * t;
    let p = fma::<I, _>(
        t * z,
        horner!(I, z; -0.3333333333333333, 0.19999999999999804, -0.14285714285659828, 0.11111111105155447, -0.09090908753500877, 0.07692296375032143, -0.06666424885738255, 0.05878928997834775, -0.05230454270650244, 0.04551593220626549, -0.034570561981427744, 0.016285756855221028),
        t,
    );
    select(diagonal, std::f64::consts::FRAC_PI_4 + (p + QUARTER_PI_LO), p)
}

/// The arctangent.
#[inline(always)]
pub fn atan<I: Isa>(x: f64) -> f64 {
    let a = x.abs();
    let large = a > 1.0;
    // An infinite divisor gives 0, as wanted.
    let p = atan_ratio::<I>(select(large, 1.0, a), select(large, a, 1.0));
    select(large, HALF_PI_HI - (p - HALF_PI_LO), p).copysign(x)
}

/// The angle of a point.
#[inline(always)]
pub fn atan2<I: Isa>(y: f64, x: f64) -> f64 {
    let (a, b) = (y.abs(), x.abs());
    let steep = a > b;
    let (above, below) = (select(steep, b, a), select(steep, a, b));
    // The sum of the two must not overflow.
    let shrink = select(below > 1e300, 2.0f64.powi(-60), 1.0);
    let (above, below) = (above * shrink, below * shrink);
    let even = (above == below) & (below != 0.0);
    let (above, below) = (select(even, 1.0, above), select(even | (below == 0.0), 1.0, below));
    let p = atan_ratio::<I>(above, below);
    let p = select(steep, HALF_PI_HI - (p - HALF_PI_LO), p);
    let p = select(x.is_sign_negative(), PI_HI - (p - PI_LO), p);
    select(Float::is_nan(x) | Float::is_nan(y), x + y, p.copysign(y))
}

/// `exp(|x|) / 2`, infinite only where `cosh` is.
#[inline(always)]
fn half_exp<I: Isa>(x: f64) -> f64 {
    let (r, n) = exp_reduce::<I>(clamp(x.abs(), 0.0, 711.0));
    scale(1.0 + expm1_poly::<I>(r), n.wrapping_sub(1))
}

/// The hyperbolic sine.
#[inline(always)]
pub fn sinh<I: Isa>(x: f64) -> f64 {
    let a = x.abs();
    let z = a * a;
    let small = fma::<I, _>(
        a * z,
        horner!(I, z; 0.16666666666666666, 0.008333333333333333, 0.00019841269841269773, 2.755731922404034e-06, 2.505210836405804e-08, 1.6059048396350562e-10, 7.646625361656657e-13, 2.8445264169895285e-15),
        a,
    );
    let e = half_exp::<I>(x);
    select(a < 1.0, small, e - 0.25 / e).copysign(x)
}

/// The hyperbolic cosine.
#[inline(always)]
pub fn cosh<I: Isa>(x: f64) -> f64 {
    let e = half_exp::<I>(x);
    e + 0.25 / e
}

/// The hyperbolic tangent.
#[inline(always)]
pub fn tanh<I: Isa>(x: f64) -> f64 {
    let a = x.abs();
    let e = expm1::<I>(select(a > 22.0, 44.0, 2.0 * a));
    (e / (e + 2.0)).copysign(x)
}

/// `1 / (1 + exp(-x))`.
#[inline(always)]
pub fn sigmoid<I: Isa>(x: f64) -> f64 {
    // exp(-|x|) does not overflow, and is the result where that is tiny.
    let e = exp::<I>(-x.abs());
    (select(x < 0.0, e, 1.0)) / (1.0 + e)
}

/// The inverse hyperbolic sine.
#[inline(always)]
pub fn asinh<I: Isa>(x: f64) -> f64 {
    let a = x.abs();
    // Where the square would overflow the ones do not matter, and log(2a) is log1p(a) + log(2).
    let large = a > 1e150;
    let z = a * a;
    let y = log1p::<I>(select(large, a, a + z / (1.0 + (z + 1.0).sqrt())));
    select(large, y + std::f64::consts::LN_2, y).copysign(x)
}

/// The inverse hyperbolic cosine.
#[inline(always)]
pub fn acosh<I: Isa>(x: f64) -> f64 {
    let large = x > 1e150;
    let t = x - 1.0;
    let y = log1p::<I>(select(large, x, t + (t * (t + 2.0)).sqrt()));
    let y = select(large, y + std::f64::consts::LN_2, y);
    select(x < 1.0, f64::NAN, y)
}

/// The inverse hyperbolic tangent.
#[inline(always)]
pub fn atanh<I: Isa>(x: f64) -> f64 {
    let a = x.abs();
    let y = 0.5 * log1p::<I>(2.0 * a / (1.0 - a));
    let y = select(a < 1.0, y, f64::INFINITY);
    select(a <= 1.0, y, f64::NAN).copysign(x)
}

/// `(q, a)` for [`erfcx`]'s polynomial: `a` within bounds, and its image in `-1..1`.
#[inline(always)]
fn erfc_variable(a: f64, high: f64) -> (f64, f64) {
    let a = select(a > high, high, a);
    ((a - 3.75) / (a + 3.75), a)
}

/// `exp(a^2) erfc(a)` for `0 <= a <= 28`.
///
/// `(1 + 2a) exp(a^2) erfc(a)` is smooth in `(a - k) / (a + k)` (Shepherd and Laframboise, Math. Comp. 36, 1981).
#[inline(always)]
pub fn erfcx_positive<I: Isa>(a: f64) -> f64 {
    let (q, a) = erfc_variable(a, 28.0);
    let z = q * q;
    paired!(I, q, z; 1.2375126308378275, -0.1402405985855467, 0.003585415485463779, 0.08227673849011204, -0.10880393014171236, 0.09230432116153116, -0.05869339859030941, 0.028362277400457724, -0.009746579553431873, 0.001755626017152004, 0.00029371366631088616, -0.00029015496529570924, 5.1648913469599865e-05, 2.2387259638230133e-05, -1.1442990926805438e-05, -9.801666755858578e-07, 1.7481190468391965e-06, -4.815839621672849e-08, -2.5261465267715506e-07, 1.5996335215573707e-08, 3.285083556233316e-08, -8.782125734803521e-10, -2.4108215365422332e-09)
        / fma::<I, _>(2.0, a, 1.0)
}

/// `erfc(a + low)` for `a >= 0` and a `low` below its last place.
#[inline(always)]
fn erfc_positive<I: Isa>(a: f64, low: f64) -> f64 {
    let low = select(a > 28.0, 0.0, low);
    let a = select(a > 28.0, 28.0, a);
    let (square, rest) = two_product::<I>(a, a);
    let rest = fma::<I, _>(2.0 * a, low, rest);
    let (r, n) = exp_reduce::<I>(-square);
    // exp(-rest) is 1 - rest.
    let e = 1.0 + expm1_poly::<I>(r - rest);
    scale(e * erfcx_positive::<I>(a), n)
}

/// `erfc(a)` for `a >= 0`, to 2^-28.
#[inline(always)]
pub fn erfc_lite<I: Isa>(a: f64) -> f64 {
    let (q, a) = erfc_variable(a, 10.5);
    let g = horner!(I, q; 1.237512630596539, -0.1402405861574337, 0.003585448352091186, 0.0822761189517474, -0.10880498028642623, 0.09231255166265259, -0.05867899806415946, 0.028323239991799667, -0.009831384624937281, 0.0018002656229110113, 0.00047677909610944547, -0.00021209613035239681)
        / fma::<I, _>(2.0, a, 1.0);
    g * exp_lite::<I>(-a * a)
}

/// The error function of a number up to one.
#[inline(always)]
fn erf_small<I: Isa>(x: f64) -> f64 {
    let z = x * x;
    let square = z * z;
    fma::<I, _>(
        x,
        paired!(I, z, square; 0.1283791670955126, -0.3761263890318375, 0.11283791670954879, -0.026866170645076792, 0.0052239776248180145, -0.000854832698083379, 0.0001205533111164271, -1.4925595266831182e-05, 1.6461000484121368e-06, -1.6350312701054695e-07, 1.4659775274047436e-08, -1.1372848856791674e-09, 5.957176147748911e-11),
        x,
    )
}

/// The error function.
#[inline(always)]
pub fn erf<I: Isa>(x: f64) -> f64 {
    let a = x.abs();
    select(a < 1.0, erf_small::<I>(a), 1.0 - erfc_positive::<I>(a, 0.0)).copysign(x)
}

/// The complementary error function.
#[inline(always)]
pub fn erfc<I: Isa>(x: f64) -> f64 {
    let e = erfc_positive::<I>(x.abs(), 0.0);
    let e = select(x < 0.0, 2.0 - e, e);
    select(x.abs() < 0.5, 1.0 - erf_small::<I>(x), e)
}

/// The normal distribution function.
#[inline(always)]
pub fn ndtr<I: Isa>(x: f64) -> f64 {
    // What 1 / sqrt(2) loses to rounding: in the tail an error of the argument counts as often as its square.
    const REST: f64 = -4.833646656726457e-17;
    let (a, err) = two_product::<I>(x.abs(), std::f64::consts::FRAC_1_SQRT_2);
    let e = erfc_positive::<I>(a, fma::<I, _>(x.abs(), REST, err));
    let e = select(x < 0.0, e, 2.0 - e);
    0.5 * select(a < 0.5, 1.0 + erf_small::<I>(a.copysign(x)), e)
}

/// `(p, e)` with `a * b = p + e` exactly, barring overflow.
#[inline(always)]
pub fn two_product<I: Isa>(a: f64, b: f64) -> (f64, f64) {
    let p = a * b;
    if I::FMA {
        return (p, f64::mul_add(a, b, -p));
    }
    // Dekker's product of halves split as Veltkamp does.
    const SPLITTER: f64 = 134217729.0;
    let (sa, sb) = (SPLITTER * a, SPLITTER * b);
    let (ah, bh) = (sa - (sa - a), sb - (sb - b));
    let (al, bl) = (a - ah, b - bh);
    (p, ((ah * bh - p) + ah * bl + al * bh) + al * bl)
}

/// `log(x)` as a sum of two, to about 2^-65, for positive `x`.
#[inline(always)]
fn log_double<I: Isa>(x: f64) -> (f64, f64) {
    const TWO_THIRDS_LO: f64 = 3.700743415417188e-17;
    let (m, e) = log_parts(x);
    // s = (m - 1) / (m + 1), z = s^2, log(m) = 2 s + s z (2/3 + p(z)).
    let f = m - 1.0;
    let d = m + 1.0;
    let d_lo = m - (d - 1.0);
    let s = f / d;
    let (t, t_lo) = two_product::<I>(s, d);
    let s_lo = (((f - t) - t_lo) - s * d_lo) / d;
    let (z, z_err) = two_product::<I>(s, s);
    let z_lo = fma::<I, _>(2.0 * s, s_lo, z_err);
    let p = z
        * horner!(I, z; 0.40000000000000024, 0.2857142857133856, 0.2222222227107745, 0.18181808251607398, 0.1538557450045883, 0.13285967273890614, 0.1291349606680315);
    let q = 2.0 / 3.0 + p;
    let q_lo = ((2.0 / 3.0 - q) + p) + TWO_THIRDS_LO;
    let (w, w_err) = two_product::<I>(z, q);
    let w_lo = fma::<I, _>(z, q_lo, fma::<I, _>(z_lo, q, w_err));
    let (v, v_err) = two_product::<I>(s, w);
    let v_lo = fma::<I, _>(s, w_lo, fma::<I, _>(s_lo, w, v_err));
    let hi = 2.0 * s + v;
    let lo = ((2.0 * s - hi) + v) + fma::<I, _>(2.0, s_lo, v_lo);
    let whole = e * LN2_HI;
    let sum = whole + hi;
    let rest = fma::<I, _>(e, LN2_LO, lo) + ((whole - sum) + hi);
    let top = sum + rest;
    (top, (sum - top) + rest)
}

/// `x` to the power `y`.
#[inline(always)]
pub fn pow<I: Isa>(x: f64, y: f64) -> f64 {
    let a = x.abs();
    let (log, log_lo) = log_double::<I>(a);
    // Larger exponents give the same and would overflow on the way.
    let exponent = clamp(y, -1e21, 1e21);
    let (t, t_err) = two_product::<I>(log, exponent);
    let t_lo = fma::<I, _>(log_lo, exponent, t_err);
    // Zero and infinity have no logarithm above.
    let edge = select((a == 0.0) == (y < 0.0), 711.0, -747.0);
    let outside = (a == 0.0) | (a == f64::INFINITY);
    let t = select(outside, edge, t);
    let t_lo = select(outside | (t.abs() > 750.0), 0.0, t_lo);
    let (r, n) = exp_reduce::<I>(clamp(t, -747.0, 711.0));
    let result = scale(1.0 + expm1_poly::<I>(r + t_lo), n);
    // The special cases of C's Annex F.
    let integer = Float::trunc::<I>(y) == y;
    let half = y * 0.5;
    let odd = integer & (Float::trunc::<I>(half) != half);
    let result = select(odd, result.copysign(x), result);
    let result = select((x < 0.0) & !integer & (x > f64::NEG_INFINITY), f64::NAN, result);
    let result = select(Float::is_nan(x) | Float::is_nan(y), f64::NAN, result);
    let unit = (x == -1.0) & Float::is_inf(y);
    select((x == 1.0) | (y == 0.0) | unit, 1.0, result)
}

/// `log(exp(x) + exp(y))`.
#[inline(always)]
pub fn logaddexp<I: Isa>(x: f64, y: f64) -> f64 {
    let large = Float::maximum::<I>(x, y);
    let sum = large + log1p::<I>(exp::<I>(-(x - y).abs()));
    // Equal infinities differ by NaN.
    select((x == y) & Float::is_inf(x), x, sum)
}

/// `log2(exp2(x) + exp2(y))`.
#[inline(always)]
pub fn logaddexp2<I: Isa>(x: f64, y: f64) -> f64 {
    let large = Float::maximum::<I>(x, y);
    let sum = large + log1p::<I>(exp2::<I>(-(x - y).abs())) * std::f64::consts::LOG2_E;
    select((x == y) & Float::is_inf(x), x, sum)
}
