//! Forms for many numbers at once, with vectors chosen by hand: where AVX-512 has instructions that no loop over numbers is
//! compiled to. They give the bits of the forms for one number here, or of the plain ones; but for `f32` exponentials of what
//! is not positive, whose last bits are others.

use super::poly::{fma, horner, paired, select};
use super::{Isa, Level, double, single};

/// From one centre of [`TAILS`] to the next.
const STEP: f32 = 0.1875;
/// What the table reaches to.
const FAR: f32 = 5.9;
/// 1.5 * 2^23: added to a number, it leaves the nearest integer in the low bits.
const ROUNDER: f32 = 12582912.0;

/// The normal distribution's tail about each of 32 centres: a polynomial in the distance, from its constant coefficients up,
/// fitted as all are (see [`single`]). A coefficient's 32 are two registers, and one instruction looks 16 of them up.
#[rustfmt::skip]
static TAILS: [[f32; 32]; 7] = [
    [
        0.5, 0.42563432, 0.35383025, 0.2868877, 0.22662735, 0.1742507, 0.13029452, 0.09467574,
        0.0668072, 0.045753624, 0.03039636, 0.01958008, 0.012224473, 0.007394607, 0.0043324484, 0.0024579011,
        0.001349898, 0.0007175423, 0.00036907845, 0.00018366995, 8.8417284e-5, 4.1167466e-5, 1.8536737e-5, 8.070944e-6,
        3.397673e-6, 1.3828135e-6, 5.440423e-7, 2.0689703e-7, 7.60496e-8, 2.7016675e-8, 9.275399e-9, 3.0773342e-9,
    ],
    [
        -0.3989423, -0.3919909, -0.37185508, -0.3405676, -0.30113742, -0.2570739, -0.21187665, -0.16859318,
        -0.1295176, -0.0960615, -0.06878628, -0.04755389, -0.031739652, -0.020452674, -0.012724182, -0.007642606,
        -0.0044318484, -0.0024811907, -0.0013411188, -0.000699852, -0.00035259567, -0.00017150611, -8.054045e-5, -3.6515758e-5,
        -1.5983742e-5, -6.7547367e-6, -2.755943e-6, -1.085585e-6, -4.1284716e-7, -1.5158165e-7, -5.373234e-8, -1.8388942e-8,
    ],
    [
        -0.0, 0.036749147, 0.06972283, 0.095784634, 0.112926535, 0.120503396, 0.11918061, 0.110639274,
        0.097138196, 0.08105189, 0.06448714, 0.04903995, 0.03570711, 0.024926696, 0.016700488, 0.010747414,
        0.0066477726, 0.003954398, 0.002263138, 0.0012466114, 0.0006611169, 0.00033765266, 0.00016611468, 7.87371e-5,
        3.5963418e-5, 1.5831412e-5, 6.71761e-6, 2.7478868e-6, 1.0837236e-6, 4.121125e-7, 1.5112218e-7, 5.344285e-8,
    ],
    [
        0.0664903, 0.06303492, 0.05326045, 0.038801637, 0.02195796, 0.0051883874, -0.009379899, -0.020305768,
        -0.026982795, -0.02958142, -0.028840078, -0.025789328, -0.021490406, -0.01684418, -0.012492246, -0.008801944,
        -0.005909137, -0.003788018, -0.0023225101, -0.0013637074, -0.00076762814, -0.0004145829, -0.00021498284, -0.000107097614,
        -5.1280516e-5, -2.3610399e-5, -1.0456571e-5, -4.4560097e-6, -1.8276487e-6, -7.2166165e-7, -2.7438563e-7, -1.00475006e-7,
    ],
    [
        0.0, -0.009079611, -0.016613621, -0.021420565, -0.022938183, -0.021299904, -0.017225321, -0.01177704,
        -0.006071149, -0.0010289918, 0.0027709212, 0.0051242854, 0.006137157, 0.0061099627, 0.0054146145, 0.004397627,
        0.0033238893, 0.002359511, 0.0015824297, 0.0010067852, 0.00060946716, 0.0003518312, 0.00019401645, 0.00010234259,
        5.1697207e-5, 2.5030187e-5, 1.16245255e-5, 5.181754e-6, 2.2182185e-6, 9.1234784e-7, 3.6067908e-7, 1.3710063e-7,
    ],
    [
        -0.009955314, -0.009098707, -0.0067328853, -0.0034081102, 0.00014177045, 0.0032047946, 0.0052698036, 0.0061254594,
        0.005860192, 0.0047802147, 0.0032866427, 0.0017572378, 0.0004658871, -0.00044777847, -0.00096534484, -0.0011509788,
        -0.0011066627, -0.0009355485, -0.0007198813, -0.0005131705, -0.00034242062, -0.00021530004, -0.00012814412, -7.243625e-5,
        -3.8984326e-5, -2.0013871e-5, -9.816054e-6, -4.605104e-6, -2.0685975e-6, -8.9045443e-7, -3.675827e-7, -1.4560275e-7,
    ],
    [
        -0.0, 0.0014926147, 0.0026317763, 0.0031704148, 0.0030355358, 0.0023349728, 0.0013058656, 0.00022930029,
        -0.0006550175, -0.0012055507, -0.0013942554, -0.0012849469, -0.0009909827, -0.00063128467, -0.00029873618, -4.6471796e-5,
        0.00011012706, 0.00018216645, 0.00019360695, 0.00017011838, 0.00013245974, 9.4155694e-5, 6.207157e-5, 3.831335e-5,
        2.2280652e-5, 1.2260774e-5, 6.4047736e-6, 3.183721e-6, 1.5087971e-6, 6.827253e-7, 2.9533433e-7, 1.222578e-7,
    ],
];

/// Two to the power of 0, 1/16, ... 15/16.
#[rustfmt::skip]
static ROOTS: [f32; 16] = [
    1.0, 1.0442737, 1.0905077, 1.1387886, 1.1892071, 1.2418578, 1.2968396, 1.3542556,
    1.4142135, 1.4768262, 1.5422108, 1.6104903, 1.6817929, 1.7562522, 1.8340081, 1.9152066,
];
/// What is lost of them.
#[rustfmt::skip]
static LOST: [f32; 16] = [
    0.0, 4.83347e-8, -1.307754e-8, 5.3862223e-8, 3.7976353e-8, 4.496838e-8, -4.0189995e-8, -1.0123349e-8,
    2.4203235e-8, -4.500899e-8, 8.070905e-9, 9.836217e-9, -2.4755327e-8, -9.23577e-9, -1.1239278e-8, 9.845328e-9,
];

/// By sixteenths `k / 16` from 12 to 24, at `k % 16`: the inverse of `k / 16`.
#[rustfmt::skip]
static INVERSES: [f64; 16] = [
    1.0, 0.9411764705882353, 0.8888888888888888, 0.8421052631578947, 0.8, 0.7619047619047619, 0.7272727272727273, 0.6956521739130435,
    0.6666666666666666, 0.0, 0.0, 0.0, 1.3333333333333333, 1.2307692307692308, 1.1428571428571428, 1.0666666666666667,
];
/// In the same places, its binary logarithm.
#[rustfmt::skip]
static LOGARITHMS: [f64; 16] = [
    0.0, 0.0874628412503394, 0.16992500144231237, 0.2479275134435855, 0.32192809488736235, 0.3923174227787603, 0.45943161863729726,
    0.5235619560570128, 0.5849625007211562, 0.0, 0.0, 0.0, -0.4150374992788438, -0.2995602818589078, -0.19264507794239588,
    -0.09310940439148147,
];
/// `log2(1 + r) / r` for `r` up to 1/24, to 2^-35.
const LOG2: [f64; 6] = [
    1.4426950409161656,
    -0.7213475196752157,
    0.4808980451429333,
    -0.3606760975717849,
    0.28903705076740116,
    -0.2392827425946953,
];
/// `(2^r - 1) / r` for `r` up to 1/32, to 2^-28 of `2^r`.
const EXP2: [f32; 3] = [0.6931472, 0.24023356, 0.055505086];
/// Exponents beyond which powers of `f32` are infinite or zero.
const MOST: f64 = 200.0;
/// Added to an exponent, it leaves sixteenths.
const SIXTEENTHS: f64 = ROUNDER as f64 * 33554432.0;

/// `x` to the power `y`, as [`pow`](x86::pow) has it for many: with the logarithm of a sixteenth nearby, and two to the power of
/// a sixteenth, from tables. (As accurate as [`single::pow`].)
#[inline(always)]
pub fn pow<I: Isa>(x: f32, y: f32) -> f32 {
    if const { I::LEVEL as u8 == Level::Avx512 as u8 } {
        single::pow_special::<I>(x, y, pow_of_magnitude(x.abs(), y))
    } else {
        single::pow::<I>(x, y)
    }
}

/// [`pow`] of a number that is not negative, right but for C's special cases.
#[inline(always)]
fn pow_of_magnitude(x: f32, y: f32) -> f32 {
    type I = super::Avx512;
    let bits = f64::from(x).to_bits();
    let m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 1.0f64.to_bits());
    let large = m >= 1.5;
    let (m, e) = (select(large, 0.5 * m, m), (bits >> 52) as f64 - select(large, 1022.0, 1023.0));
    let e = select(x == 0.0, f64::NEG_INFINITY, select(x == f32::INFINITY, f64::INFINITY, e));
    let k = fma::<I, _>(m as f32, 16.0, ROUNDER).to_bits() as usize % 16;
    let r = fma::<I, _>(m, INVERSES[k], -1.0);
    let log = e + fma::<I, _>(r, horner!(I, r; LOG2[0], LOG2[1], LOG2[2], LOG2[3], LOG2[4], LOG2[5]), LOGARITHMS[k]);
    let t = log * f64::from(y);
    let t = if t < MOST { t } else { MOST };
    let t = if t > -MOST { t } else { -MOST };
    let n = (t + SIXTEENTHS) - SIXTEENTHS;
    let r = (t - n) as f32;
    let at = (n as f32 + ROUNDER / 16.0).to_bits() as usize % 16;
    let q = r * horner!(I, r; EXP2[0], EXP2[1], EXP2[2]);
    let scale = f64::from_bits(((n.floor() as i64 + 1023) as u64) << 52);
    (f64::from(ROOTS[at] + fma::<I, _>(ROOTS[at], q, LOST[at])) * scale) as f32
}

/// The exponential, as [`exp`](x86::exp_of_f32) has it for many: `2^n (1 + r + ...)`, with `n` in sixteenths, whose power of
/// two comes from a table. `common` says of a constant whether it [is one](single::is_common_exponent).
#[inline(always)]
pub fn exp<I: Isa>(x: f32, common: bool) -> f32 {
    if const { I::LEVEL as u8 == Level::Avx512 as u8 } {
        exp_by_root(x)
    } else if common {
        single::exp_common::<I>(x)
    } else {
        single::exp::<I>(x)
    }
}

/// [`exp`] by the table.
#[inline(always)]
fn exp_by_root(x: f32) -> f32 {
    type I = super::Avx512;
    let x = single::clamp_exponent(x);
    let t = fma::<I, _>(x, std::f32::consts::LOG2_E, ROUNDER / 16.0);
    let n = t - ROUNDER / 16.0;
    let r = fma::<I, _>(n, -single::LN2_HI, x);
    let r = fma::<I, _>(n, -single::LN2_LO, r);
    let q = fma::<I, _>(r * r, fma::<I, _>(r, 1.0 / 6.0, 0.5), r);
    let at = t.to_bits() as usize % 16;
    single::scale(ROOTS[at] + fma::<I, _>(ROOTS[at], q, LOST[at]), n.floor() as i32)
}

/// `x` times the normal distribution function. With AVX-512 the tail comes from a table as far as that goes, in half the
/// time; other sets have no such instruction, and their loops would fetch number by number.
#[inline(always)]
pub fn gelu<I: Isa>(x: f32) -> f32 {
    let any = x * single::ndtr::<I>(x);
    if const { I::LEVEL as u8 == Level::Avx512 as u8 } { select(x < -FAR, any, gelu_near(x)) } else { any }
}

/// [`gelu`] of a number above -[`FAR`], by the table.
#[inline(always)]
fn gelu_near(x: f32) -> f32 {
    type I = super::Avx512;
    let t = x.abs();
    let t = select(t > FAR, FAR, t);
    let up = fma::<I, _>(t, 1.0 / STEP, ROUNDER);
    let d = fma::<I, _>(up - ROUNDER, -STEP, t);
    let z = d * d;
    let of = |k: usize| TAILS[k][up.to_bits() as usize % 32];
    let tail = paired!(I, d, z; of(0), of(1), of(2), of(3), of(4), of(5), of(6));
    x * select(x >= 0.0, 1.0 - tail, tail)
}

#[cfg(target_arch = "x86_64")]
pub mod x86 {
    use super::super::Avx512;
    use super::*;
    use std::arch::x86_64::*;

    /// [`gelu`].
    ///
    /// # Safety
    /// The machine has AVX-512.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub unsafe fn gelu<const C: usize>(x: [f32; C]) -> [f32; C] {
        const { assert!(C.is_multiple_of(16)) };
        let mut y = x;
        let mut any_far = 0;
        for i in (0..C).step_by(16) {
            // SAFETY: 16 elements from there.
            unsafe {
                let x = _mm512_loadu_ps(x.as_ptr().add(i));
                any_far |= far(x);
                _mm512_storeu_ps(y.as_mut_ptr().add(i), gelu_near(x));
            }
        }
        if any_far != 0 {
            for i in (0..C).step_by(16) {
                // SAFETY: as above.
                unsafe {
                    let at = y.as_mut_ptr().add(i);
                    _mm512_storeu_ps(at, gelu_far(_mm512_loadu_ps(x.as_ptr().add(i)), _mm512_loadu_ps(at)));
                }
            }
        }
        y
    }

    /// Where a number is beyond the table.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn far(x: __m512) -> __mmask16 {
        _mm512_cmp_ps_mask::<_CMP_LT_OQ>(x, _mm512_set1_ps(-FAR))
    }

    /// `y`, the results of [`gelu_near`], put right where `x` is beyond. (Vectors, because arrays that it is passed would be
    /// in memory also where it is not called.)
    #[cold]
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
    fn gelu_far(x: __m512, y: __m512) -> __m512 {
        // SAFETY: vectors are arrays of their lanes.
        let lanes: [f32; 16] = unsafe { std::mem::transmute(x) };
        let mut results = [0.0; 16];
        for (result, x) in results.iter_mut().zip(lanes) {
            *result = x * single::ndtr::<Avx512>(x);
        }
        // SAFETY: as above.
        _mm512_mask_blend_ps(far(x), y, unsafe { std::mem::transmute::<[f32; 16], __m512>(results) })
    }

    /// [`gelu_near`](super::gelu_near) of 16.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn gelu_near(x: __m512) -> __m512 {
        let all = |x: f32| _mm512_set1_ps(x);
        // (Of NaN and a number, the second operand.)
        let t = _mm512_min_ps(all(FAR), _mm512_abs_ps(x));
        let up = _mm512_fmadd_ps(t, all(1.0 / STEP), all(ROUNDER));
        let d = _mm512_fmadd_ps(_mm512_sub_ps(up, all(ROUNDER)), all(-STEP), t);
        let z = _mm512_mul_ps(d, d);
        // The low five bits choose.
        let of = |k: usize| {
            // SAFETY: both halves of a row of the table.
            let [low, high] = unsafe { [0, 16].map(|at| _mm512_loadu_ps(TAILS[k].as_ptr().add(at))) };
            _mm512_permutex2var_ps(low, _mm512_castps_si512(up), high)
        };
        let pair = |k: usize| _mm512_fmadd_ps(of(k + 1), d, of(k));
        let tail = _mm512_fmadd_ps(of(6), z, pair(4));
        let tail = _mm512_fmadd_ps(tail, z, pair(2));
        let tail = _mm512_fmadd_ps(tail, z, pair(0));
        let positive = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(x, _mm512_setzero_ps());
        _mm512_mul_ps(x, _mm512_mask_sub_ps(tail, positive, all(1.0), tail))
    }

    /// The exponential of numbers that are not positive, or NaN.
    ///
    /// # Safety
    /// The machine has AVX-512.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub unsafe fn exp_not_positive<const C: usize>(x: [f32; C]) -> [f32; C] {
        const { assert!(C.is_multiple_of(16)) };
        let mut y = x;
        for i in (0..C).step_by(16) {
            // SAFETY: 16 elements from there.
            unsafe { _mm512_storeu_ps(y.as_mut_ptr().add(i), exp_of_sixteen(_mm512_loadu_ps(x.as_ptr().add(i)))) };
        }
        y
    }

    /// [`exp_not_positive`] of a vector: `2^n (1 + r + ...)`, with `n` in sixteenths, whose power of two comes from a table (of
    /// a register), so that the polynomial is short, and a last product that rounds once.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub fn exp_of_sixteen(x: __m512) -> __m512 {
        let all = |x: f32| _mm512_set1_ps(x);
        // (Of NaN and a number, the second operand.)
        let (at, n, r) = sixteenths(_mm512_max_ps(all(-104.0), x));
        let (power, q) = (chosen(&ROOTS, at), expm1_of_rest(r));
        _mm512_scalef_ps(_mm512_fmadd_ps(power, q, power), n)
    }

    /// An exponent's sixteenths of the logarithm of two, by the low bits and as a number, and what is left.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn sixteenths(x: __m512) -> (__m512i, __m512, __m512) {
        let all = |x: f32| _mm512_set1_ps(x);
        let t = _mm512_fmadd_ps(x, all(std::f32::consts::LOG2_E), all(ROUNDER / 16.0));
        let n = _mm512_sub_ps(t, all(ROUNDER / 16.0));
        let r = _mm512_fmadd_ps(n, all(-single::LN2_HI), x);
        (_mm512_castps_si512(t), n, _mm512_fmadd_ps(n, all(-single::LN2_LO), r))
    }

    /// The exponential of such a rest less one.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn expm1_of_rest(r: __m512) -> __m512 {
        let q = _mm512_fmadd_ps(r, _mm512_set1_ps(1.0 / 6.0), _mm512_set1_ps(0.5));
        _mm512_fmadd_ps(_mm512_mul_ps(r, r), q, r)
    }

    /// What the low four bits choose.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn chosen(table: &[f32; 16], at: __m512i) -> __m512 {
        // SAFETY: a table of 16.
        unsafe { _mm512_permutexvar_ps(at, _mm512_loadu_ps(table.as_ptr())) }
    }

    /// The exponential of any number, as [`exp_not_positive`] has it, but that what is lost of the table's powers is added.
    ///
    /// # Safety
    /// The machine has AVX-512.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub unsafe fn exp_of_f32<const C: usize>(x: [f32; C]) -> [f32; C] {
        const { assert!(C.is_multiple_of(16)) };
        let mut y = x;
        for i in (0..C).step_by(16) {
            // SAFETY: 16 elements from there.
            unsafe {
                let x = _mm512_loadu_ps(x.as_ptr().add(i));
                _mm512_storeu_ps(y.as_mut_ptr().add(i), exp_of_any_sixteen(x));
            }
        }
        y
    }

    /// [`exp_of_f32`] of sixteen numbers.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub fn exp_of_any_sixteen(x: __m512) -> __m512 {
        let (at, n, r) = sixteenths(x);
        // What is left of a number that is too large may be anything, and NaN of infinity: the smaller in magnitude of that and
        // one, which is the one that is a number.
        let q = expm1_of_rest(_mm512_range_ps::<SMALLER>(r, _mm512_set1_ps(1.0)));
        let power = chosen(&ROOTS, at);
        // Rounds once, and knows what to make of powers that are infinite or NaN.
        let sum = _mm512_add_ps(power, _mm512_fmadd_ps(power, q, chosen(&LOST, at)));
        _mm512_scalef_ps(sum, n)
    }

    /// [`pow`](super::pow).
    ///
    /// # Safety
    /// The machine has AVX-512.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub unsafe fn pow<const C: usize>(x: [f32; C], y: [f32; C]) -> [f32; C] {
        const { assert!(C.is_multiple_of(16)) };
        let mut results = x;
        let mut special = 0;
        for i in (0..C).step_by(16) {
            // SAFETY: 16 elements from there.
            unsafe {
                let (x, y) = (_mm512_loadu_ps(x.as_ptr().add(i)), _mm512_loadu_ps(y.as_ptr().add(i)));
                special |= _mm512_fpclass_ps_mask::<NOT_POSITIVE>(x) | _mm512_fpclass_ps_mask::<NOT_FINITE>(y);
                _mm512_storeu_ps(results.as_mut_ptr().add(i), pow_of_magnitude(_mm512_abs_ps(x), y));
            }
        }
        if special != 0 {
            for i in 0..C {
                results[i] = single::pow_special::<Avx512>(x[i], y[i], results[i]);
            }
        }
        results
    }

    /// For `fpclass`: NaN of both kinds, and infinity of both signs.
    const NOT_FINITE: i32 = 0b1001_1001;
    /// The same, zero of both signs, and what is negative.
    const NOT_POSITIVE: i32 = 0b1101_1111;

    /// [`pow_of_magnitude`](super::pow_of_magnitude) of 16.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn pow_of_magnitude(x: __m512, y: __m512) -> __m512 {
        let all = |x: f32| _mm512_set1_ps(x);
        let m = _mm512_getmant_ps::<_MM_MANT_NORM_P75_1P5, _MM_MANT_SIGN_ZERO>(x);
        let e = _mm512_getexp_ps(x);
        // A mantissa below one is that of the next exponent.
        let e = _mm512_mask_add_ps(e, _mm512_cmp_ps_mask::<_CMP_LT_OQ>(m, all(1.0)), e, all(1.0));
        let k = _mm512_castps_si512(_mm512_fmadd_ps(m, all(16.0), all(ROUNDER)));
        let low = exponent(
            _mm512_castps512_ps256(m),
            _mm512_castps512_ps256(e),
            _mm512_castsi512_si256(k),
            _mm512_castps512_ps256(y),
        );
        let high = exponent(
            _mm512_extractf32x8_ps::<1>(m),
            _mm512_extractf32x8_ps::<1>(e),
            _mm512_extracti32x8_epi32::<1>(k),
            _mm512_extractf32x8_ps::<1>(y),
        );
        let [n, r] = [0, 1].map(|i| _mm512_insertf32x8::<1>(_mm512_castps256_ps512(low[i]), high[i]));
        let at = _mm512_castps_si512(_mm512_add_ps(n, all(ROUNDER / 16.0)));
        let (power, lost) = (chosen(&ROOTS, at), chosen(&LOST, at));
        let q = _mm512_fmadd_ps(_mm512_fmadd_ps(all(EXP2[2]), r, all(EXP2[1])), r, all(EXP2[0]));
        let q = _mm512_mul_ps(r, q);
        _mm512_scalef_ps(_mm512_add_ps(power, _mm512_fmadd_ps(power, q, lost)), n)
    }

    /// The exponents of two that eight powers are, in sixteenths and what is left of them: of mantissas and exponents, the
    /// mantissas' sixteenths (of which the low four bits count), and the powers' exponents.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn exponent(m: __m256, e: __m256, k: __m256i, y: __m256) -> [__m256; 2] {
        let all = |x: f64| _mm512_set1_pd(x);
        let k = _mm512_cvtepu32_epi64(k);
        let of = |table: &[f64; 16]| {
            // SAFETY: both halves of the table.
            let [low, high] = unsafe { [0, 8].map(|at| _mm512_loadu_pd(table.as_ptr().add(at))) };
            _mm512_permutex2var_pd(low, k, high)
        };
        let r = _mm512_fmadd_pd(_mm512_cvtps_pd(m), of(&INVERSES), all(-1.0));
        let mut q = all(LOG2[5]);
        for c in [LOG2[4], LOG2[3], LOG2[2], LOG2[1], LOG2[0]] {
            q = _mm512_fmadd_pd(q, r, all(c));
        }
        let log = _mm512_add_pd(_mm512_cvtps_pd(e), _mm512_fmadd_pd(r, q, of(&LOGARITHMS)));
        // (Of NaN and a number, the second operand.)
        let t = _mm512_min_pd(_mm512_mul_pd(log, _mm512_cvtps_pd(y)), all(MOST));
        let t = _mm512_max_pd(t, all(-MOST));
        let n = _mm512_roundscale_pd::<SIXTEENTH>(t);
        [_mm512_cvtpd_ps(n), _mm512_cvtpd_ps(_mm512_sub_pd(t, n))]
    }

    /// For `roundscale`: to the nearest sixteenth, ties to even.
    const SIXTEENTH: i32 = 0x40;

    /// The exponential.
    ///
    /// # Safety
    /// The machine has AVX-512.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub unsafe fn exp<const C: usize>(x: [f64; C]) -> [f64; C] {
        const { assert!(C.is_multiple_of(8)) };
        let (mut y, mut whole) = (x, x);
        for i in 0..C {
            (y[i], whole[i]) = double::exp_reduce_any::<Avx512>(x[i]);
        }
        for i in (0..C).step_by(8) {
            // SAFETY: 8 elements from there.
            unsafe {
                // What is left of a number that is too large may be anything, and NaN of infinity: the smaller in magnitude
                // of that and one, which is the one that is a number.
                let at = y.as_mut_ptr().add(i);
                let rest = _mm512_range_pd::<SMALLER>(_mm512_loadu_pd(at), _mm512_set1_pd(1.0));
                _mm512_storeu_pd(at, rest);
            }
        }
        for y in &mut y {
            *y = 1.0 + double::expm1_poly::<Avx512>(*y);
        }
        for i in (0..C).step_by(8) {
            // SAFETY: as above.
            unsafe {
                // Rounds once, and knows what to make of powers that are infinite or NaN.
                let at = y.as_mut_ptr().add(i);
                let scaled = _mm512_scalef_pd(_mm512_loadu_pd(at), _mm512_loadu_pd(whole.as_ptr().add(i)));
                _mm512_storeu_pd(at, scaled);
            }
        }
        y
    }

    /// For `range`: the operand that is smaller in magnitude, with the first one's sign.
    const SMALLER: i32 = 0b0010;
}

#[cfg(test)]
mod tests {
    use super::super::{Avx512, Baseline, Float, level};
    use super::*;

    /// The table's form against the distribution, and across its end.
    #[test]
    fn gelu_by_table() {
        let mut worst = (0.0, 0.0);
        for bits in (0..0x8000_0000u32).step_by(9973).flat_map(|bits| [bits, bits | 1 << 31]) {
            let x = f32::from_bits(bits);
            let wide = f64::from(x);
            let (y, wanted) = (gelu_near(x), wide * wide.ndtr::<Baseline>());
            if x.is_nan() || x < -FAR {
                assert!(y.is_nan() || x < 0.0);
                continue;
            }
            let unit =
                f64::from_bits(wanted.to_bits() & 0x7ff << 52).abs().max(f64::from(f32::MIN_POSITIVE)) * 2f64.powi(-23);
            let error = if f64::from(y) == wanted { 0.0 } else { (f64::from(y) - wanted).abs() / unit };
            if error > worst.0 {
                worst = (error, x);
            }
            assert!(y.is_sign_negative() == x.is_sign_negative());
        }
        assert!(worst.0 <= 4.0, "{worst:?}");
        assert!(gelu_near(f32::INFINITY) == f32::INFINITY && gelu::<Avx512>(f32::NEG_INFINITY).is_nan());
    }

    /// The worst error, in units in the last place, of an exponential by a table of roots, over every 997th number among
    /// those with the bits `from..to`; and its results for `special`.
    fn exponentials<const S: usize>(
        exp: impl Fn([f32; 16]) -> [f32; 16],
        (from, to): (u32, u32),
        special: [f32; S],
    ) -> ((f64, f32), [f32; S]) {
        let mut worst = (0.0, 0.0);
        for start in (from..to).step_by(16 * 997) {
            let x: [f32; 16] = std::array::from_fn(|i| f32::from_bits((start + 997 * i as u32).min(to - 1)));
            for (x, y) in x.into_iter().zip(exp(x)) {
                let wanted = f64::from(x).exp();
                let unit =
                    f64::from_bits(wanted.to_bits() & 0x7ff << 52).max(f64::from(f32::MIN_POSITIVE)) * 2f64.powi(-23);
                let same = f64::from(y) == wanted || y == f32::INFINITY && wanted >= f64::from(f32::MAX) + unit / 2.0;
                let error = if same { 0.0 } else { (f64::from(y) - wanted).abs() / unit };
                if error > worst.0 {
                    worst = (error, x);
                }
            }
        }
        (worst, special.map(|x| exp([x; 16])[7]))
    }

    #[test]
    fn exponentials_by_table() {
        if level() < Level::Avx512 {
            return;
        }
        let (inf, least) = (f32::INFINITY, f32::from_bits(1));
        let exp = |x: [f32; 16]| f32::exp_not_positive_vectors::<Avx512, 16>(x).unwrap();
        let special = [0.0, -0.0, -inf, f32::MIN, -f32::MIN_POSITIVE, -104.0, -103.0, f32::NAN];
        let (worst, y) = exponentials(exp, (0x8000_0000, 0xff80_0001), special);
        assert!(worst.0 <= 1.1, "{worst:?}");
        assert_eq!(y[..7], [1.0, 1.0, 0.0, 0.0, 1.0, 0.0, least]);
        assert!(y[7].is_nan());

        let exp = |x: [f32; 16]| f32::exp_vectors::<Avx512, 16>(x).unwrap();
        let special = [0.0, -0.0, -inf, inf, f32::MIN, f32::MAX, 1e10, -1e10, 89.0, -104.0, -103.0, f32::NAN];
        for bits in [(0, 0x7f80_0001), (0x8000_0000, 0xff80_0001)] {
            let (worst, y) = exponentials(exp, bits, special);
            assert!(worst.0 <= 0.8, "{worst:?}");
            assert_eq!(y[..11], [1.0, 1.0, 0.0, inf, 0.0, inf, inf, 0.0, inf, 0.0, least]);
            assert!(y[11].is_nan());
        }
    }

    /// Powers by tables against those of `f64`, over numbers and exponents of all sizes, near one, and C's special cases.
    #[test]
    fn powers_by_tables() {
        if level() < Level::Avx512 {
            return;
        }
        let check = |x: f32, y: f32| {
            let (result, wide) = (pow::<Avx512>(x, y), f64::from(x).powf(f64::from(y)));
            let wanted = wide as f32;
            if !wanted.is_finite() || wanted == 0.0 || !result.is_finite() {
                // (The largest numbers may round to infinity.)
                let same = result.to_bits() == wanted.to_bits() || result.is_nan() && wanted.is_nan();
                assert!(same || wide.abs() > 3.4028e38 || wide.abs() < 2e-45, "{x} {y}: {result} {wanted}");
                return;
            }
            let unit = f64::from_bits(wide.to_bits() & 0x7ff << 52).max(f64::from(f32::MIN_POSITIVE)) * 2f64.powi(-23);
            let error = (f64::from(result) - wide).abs() / unit;
            // What is subnormal rounds twice.
            let most = if wide.abs() < f64::from(f32::MIN_POSITIVE) { 0.8 } else { 0.6 };
            assert!(error <= most, "{x} {y}: {result} {wide}, {error}");
        };
        let any = |k: u32| f32::from_bits(k.wrapping_mul(0x9e37_79b9));
        for i in 0..2_000_000u32 {
            let x = any(i);
            // Exponents whose power is a number, mostly.
            let log = f64::from(x.abs()).log2();
            let y = (f64::from(any(7 * i + 1) % 150.0) / log) as f32;
            check(x.abs(), y);
            check(x, y.round());
            // Near one, and the ends of sixteenths.
            let near = f32::from_bits(1f32.to_bits().wrapping_add_signed(i as i32 % 2000 - 1000));
            check(near, (any(5 * i) % 150.0) / (f64::from(near).log2() as f32));
            let end =
                f32::from_bits((12.5f32 + (i % 12) as f32).to_bits().wrapping_add_signed(i as i32 / 12 % 9 - 4)) / 16.0;
            check(end, any(3 * i) % 100.0);
        }
        let numbers = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            2.0,
            -2.0,
            0.5,
            3.0,
            -3.0,
            2.5,
            1e-45,
            -1e-45,
            f32::MAX,
            f32::MIN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            16777216.0,
            16777217.0,
            1e10,
        ];
        for x in numbers {
            for y in numbers {
                let (result, wanted) = (pow::<Avx512>(x, y), x.powf(y));
                assert!(result.to_bits() == wanted.to_bits() || result.is_nan() && wanted.is_nan(), "{x} {y} {result}");
            }
        }
    }

    /// Whole vectors give the bits of one by one.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn vectors_are_the_plain_forms() {
        if level() < Level::Avx512 {
            return;
        }
        let any = |k: u32| f32::from_bits(k.wrapping_mul(0x9e37_79b9));
        for start in 0..200_000u32 {
            let scale = [1.0, 0.0, f32::INFINITY][start as usize % 3];
            let x: [f32; 32] = std::array::from_fn(|i| match start % 2 {
                0 => any(32 * start + i as u32),
                _ => (any(32 * start + i as u32) % 8.0) * scale,
            });
            // SAFETY: the machine has AVX-512.
            let y = unsafe { x86::gelu(x) };
            let one = x.map(gelu::<Avx512>);
            assert!((0..32).all(|i| y[i].to_bits() == one[i].to_bits() || y[i].is_nan() && one[i].is_nan()), "{x:?}");
            let e: [f32; 32] = std::array::from_fn(|i| match start % 4 {
                0 => any(3 * (32 * start + i as u32)),
                1 => (any(3 * (32 * start + i as u32)) % 64.0).trunc(),
                _ => any(3 * (32 * start + i as u32)) % 40.0,
            });
            let y = f32::pow_vectors::<Avx512, 32>(x, e).unwrap();
            for i in 0..32 {
                let one = pow::<Avx512>(x[i], e[i]);
                assert!(y[i].to_bits() == one.to_bits() || y[i].is_nan() && one.is_nan(), "{} {}", x[i], e[i]);
            }
            let y = f32::exp_vectors::<Avx512, 32>(x).unwrap();
            let one = x.map(|x| x.exp_one::<Avx512>(true));
            assert!((0..32).all(|i| y[i].to_bits() == one[i].to_bits() || y[i].is_nan() && one[i].is_nan()), "{x:?}");
            let x: [f64; 32] = std::array::from_fn(|i| match start % 2 {
                0 => f64::from_bits(u64::from(any(32 * start + i as u32).to_bits()) * 0x9e37_79b9_7f4a_7c15),
                _ => f64::from(any(32 * start + i as u32) % 800.0),
            });
            let y = f64::exp_vectors::<Avx512, 32>(x).unwrap();
            let one = x.map(|x| x.exp_one::<Avx512>(x.is_common_exponent()));
            assert!((0..32).all(|i| y[i].to_bits() == one[i].to_bits() || y[i].is_nan() && one[i].is_nan()), "{x:?}");
        }
    }
}
