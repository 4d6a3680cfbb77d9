//! Continuous distributions made from one uniform number each, and the log-normal.

use super::engine::widened;
use super::generator::{CHUNK, Generator};
use super::normal::{in_parallel, store};
use flambeau_base::{DType, Element};

// PyTorch's compiler fuses a final product and sum; its results are those of one rounding, hence the `mul_add`s here and
// in the normal numbers.

/// Doubles drawn before they are transformed.
const PIECE: usize = 1 << 16;

/// Fills `out` with uniform numbers of `[from, to)`; `T` is a floating-point type.
///
/// Doubles take 53 of 64 bits; floats and halves take 24 of 32. A result that rounds up to `to` becomes `from`.
pub fn uniform<T: Element>(generator: &mut Generator, out: &mut [T], from: f64, to: f64) {
    if matches!(T::DTYPE, DType::F64) {
        let span = to - from;
        let mut buffer = [0.0; CHUNK];
        for out in out.chunks_mut(CHUNK) {
            let x = &mut buffer[..out.len()];
            generator.fill_f64(x);
            spread_f64(x, from, span, to);
            out.iter_mut().zip(&*x).for_each(|(o, &x)| *o = T::from_f64(x));
        }
        return;
    }
    let (low, high) = (from as f32, to as f32);
    let limit = rounding_threshold::<T>(high);
    let mut buffer = [0.0; CHUNK];
    for out in out.chunks_mut(CHUNK) {
        let x = &mut buffer[..out.len()];
        generator.fill_f32(x);
        spread(x, low, high - low, limit);
        store(x, out);
    }
}

widened! {
    fn spread(x: &mut [f32], low: f32, span: f32, limit: f32) {
        for x in x {
            let r = x.mul_add(span, low);
            *x = if r >= limit { low } else { r };
        }
    }
}

widened! {
    fn spread_f64(x: &mut [f64], low: f64, span: f64, limit: f64) {
        for x in x {
            let r = x.mul_add(span, low);
            *x = if r >= limit { low } else { r };
        }
    }
}

/// The smallest float that becomes `high` or more when it is rounded as `high` is.
fn rounding_threshold<T: Element>(high: f32) -> f32 {
    if matches!(T::DTYPE, DType::F32) {
        return high;
    }
    let limit = T::from_f32(high).to_f32();
    // Bisection over the floats, numbered in ascending order.
    let number = |x: f32| if x.is_sign_negative() { !x.to_bits() } else { x.to_bits() | 1 << 31 };
    let float = |n: u32| f32::from_bits(if n >> 31 == 0 { !n } else { n & !(1 << 31) });
    let (mut below, mut reached) = (number(f32::NEG_INFINITY), number(f32::INFINITY));
    while reached - below > 1 {
        let middle = below + (reached - below) / 2;
        if T::from_f32(float(middle)).to_f32() >= limit { reached = middle } else { below = middle }
    }
    float(reached)
}

/// Fills `out` from doubles of `[0, 1)`, which `transform` changes in place on several threads.
fn from_doubles<T: Element>(generator: &mut Generator, out: &mut [T], transform: &(dyn Fn(f64) -> f64 + Sync)) {
    let mut buffer = vec![0.0; out.len().min(PIECE)];
    for out in out.chunks_mut(PIECE) {
        let x = &mut buffer[..out.len()];
        generator.fill_f64(x);
        in_parallel(x, &|x| x.iter_mut().for_each(|x| *x = transform(*x)));
        for (o, &x) in out.iter_mut().zip(&*x) {
            *o = T::from_f64(x);
        }
    }
}

/// Fills `out` with exponential numbers of rate `lambda` (at least zero); `T` is a floating-point type.
pub fn exponential<T: Element>(generator: &mut Generator, out: &mut [T], lambda: f64) {
    from_doubles(generator, out, &|u| -1.0 / lambda * (-u).ln_1p());
}

/// Fills `out` with the number of trials up to the first success of probability `p`, `0 < p < 1`; any real type.
pub fn geometric<T: Element>(generator: &mut Generator, out: &mut [T], p: f64) {
    let log = (-p).ln_1p();
    from_doubles(generator, out, &|u| (u.ln() / log).ceil());
}

/// Fills `out` with Cauchy numbers; `T` is a floating-point type.
pub fn cauchy<T: Element>(generator: &mut Generator, out: &mut [T], median: f64, sigma: f64) {
    from_doubles(generator, out, &|u| (std::f64::consts::PI * (u - 0.5)).tan().mul_add(sigma, median));
}

/// Fills `out` with exponentials of normal numbers drawn in pairs; `T` is a floating-point type.
pub fn log_normal<T: Element>(generator: &mut Generator, out: &mut [T], mean: f64, std: f64) {
    for o in out {
        *o = T::from_f64(generator.next_normal().mul_add(std, mean).exp());
    }
}
