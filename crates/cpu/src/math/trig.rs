//! Reduction of angles to a right angle's neighbourhood.

use super::Isa;
use super::poly::fma;

/// The largest angle that vectorised code reduces.
pub const COMMON: f64 = 1e6;

/// `(r, n)` with `x = n pi / 2 + r` and `|r|` at most a little over pi / 4, for `|x|` up to [`COMMON`].
#[inline(always)]
pub fn reduce_f64<I: Isa>(x: f64) -> (f64, i64) {
    // 1.5 * 2^52: added to a number, it leaves the nearest integer in the low bits.
    const ROUNDER: f64 = 6755399441055744.0;
    let t = fma::<I, _>(x, std::f64::consts::FRAC_2_PI, ROUNDER);
    let whole = t - ROUNDER;
    let n = (t.to_bits() as i64).wrapping_sub(ROUNDER.to_bits() as i64);
    // Cody and Waite's reduction: pi / 2 in parts.
    let r = if I::FMA {
        let r = f64::mul_add(whole, -std::f64::consts::FRAC_PI_2, x);
        let r = f64::mul_add(whole, -6.123233995736766e-17, r);
        f64::mul_add(whole, 1.4973849048591698e-33, r)
    } else {
        // fdlibm's parts of 33 bits (e_rem_pio2.c): products with 20 bits are exact.
        let r = x - whole * 1.57079632673412561417e+00;
        let r = r - whole * 6.07710050630396597660e-11;
        let r = r - whole * 2.02226624871116645580e-21;
        r - whole * 8.47842766036889956997e-32
    };
    (r, n)
}

/// The first 1280 bits of 2 / pi after the point (Payne and Hanek, SIGNUM Newsletter 18(1), 1983).
const TWO_OVER_PI: [u64; 20] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
    0xf0cf_bc20_9af4_361d,
];

/// `(r, n)` with `x = n pi / 2 + r` up to whole turns, for `|x| >= 1`; NaN for infinities.
#[cold]
#[inline(never)]
pub fn reduce_large(x: f64) -> (f64, i64) {
    if x.is_nan() || x.is_infinite() {
        return (f64::NAN, 0);
    }
    let bits = x.to_bits() & !(1 << 63);
    let mantissa = (bits & ((1 << 52) - 1)) | (1 << 52);
    // x = mantissa * 2^exponent; the bits of 2 / pi that give whole turns are left out.
    let exponent = (bits >> 52) as i32 - 1075;
    let skip = (exponent - 2).max(0) as usize;
    let window = |i: usize| {
        let (word, shift) = (skip / 64 + i, skip % 64);
        let low = if shift == 0 { 0 } else { TWO_OVER_PI[word + 1] >> (64 - shift) };
        (TWO_OVER_PI[word] << shift) | low
    };
    // The product with 192 bits, most significant word first.
    let mut product = [0u64; 4];
    let mut carry = 0u128;
    for i in (0..3).rev() {
        carry += window(i) as u128 * mantissa as u128;
        product[i + 1] = carry as u64;
        carry >>= 64;
    }
    product[0] = carry as u64;
    // The point lies 190 bits from the end, lower by what the exponent is below 2.
    let right = (2 - exponent).max(0) as u32;
    if right > 0 {
        for i in (1..4).rev() {
            product[i] = (product[i] >> right) | (product[i - 1] << (64 - right));
        }
    }
    let [_, a, b, c] = product;
    let mut n = (a >> 62) as i64;
    // 128 bits of fraction: no double is closer than 2^-62 to a multiple (Kahan), so 66 of them are significant.
    let mut fraction = ((a as u128) << 66) | ((b as u128) << 2) | (c >> 62) as u128;
    let negative = fraction >> 127 != 0;
    if negative {
        n += 1;
        fraction = fraction.wrapping_neg();
    }
    const UNIT: f64 = f64::from_bits((1023 - 128) << 52);
    let r = fraction as f64 * UNIT * std::f64::consts::FRAC_PI_2;
    let r = if negative { -r } else { r };
    if x < 0.0 { (-r, -n) } else { (r, n) }
}
