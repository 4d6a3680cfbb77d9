//! Normal numbers.
//!
//! PyTorch has two recipes. Contiguous outputs of 16 and more elements are made in blocks of 16 uniform numbers: 8 radii
//! and 8 angles give 8 cosines and 8 sines ([`normal`]). Everything else draws doubles in pairs and remembers the odd
//! one ([`normal_in_pairs`]).
//!
//! In single precision PyTorch evaluates the logarithm, the sine and the cosine by the polynomials of Cephes as
//! arranged by J. Pommier's `sse_mathfun` and its AVX edition, and so do we: equal bits need equal polynomials. Our
//! loops run over lanes of several blocks at once, as wide as the machine allows.

use super::engine::widened;
use super::generator::Generator;
use flambeau_base::parallel::parallel_for;
use flambeau_base::{DType, Element};
use half::slice::HalfFloatSliceExt;

/// Numbers per block: half of them radii, half angles.
const BLOCK: usize = 16;
const HALF: usize = BLOCK / 2;
/// Blocks transformed together.
const BATCH: usize = 32;
/// Elements drawn before they are transformed, so that they are still in the second-level cache then.
const PIECE: usize = 1 << 17;
/// Elements transformed per task.
const GRAIN: usize = 1 << 13;

/// Fills contiguous `out` with normal numbers; `T` is a floating-point type. For complex outputs pass the real view
/// and `std / sqrt(2)`.
///
/// Below 16 elements this is [`normal_in_pairs`], as in PyTorch. If the length is not a multiple of 16, the last 16
/// elements are made anew from 16 further draws.
pub fn normal<T: Element>(generator: &mut Generator, out: &mut [T], mean: f64, std: f64) {
    if out.len() < BLOCK {
        return normal_in_pairs(generator, out, mean, std);
    }
    match T::DTYPE {
        DType::F64 => {
            let mut buffer = vec![0.0; out.len().min(PIECE)];
            let transform = |x: &mut [f64]| normal_f64(x, mean, std);
            let round = |from: &[f64], to: &mut [T]| to.iter_mut().zip(from).for_each(|(t, &s)| *t = T::from_f64(s));
            let tail = out.len() % BLOCK;
            for out in out.chunks_mut(PIECE) {
                let x = &mut buffer[..out.len()];
                generator.fill_f64(x);
                in_parallel(x, &transform);
                round(x, out);
            }
            if tail != 0 {
                let x = &mut buffer[..BLOCK];
                generator.fill_f64(x);
                transform(x);
                let start = out.len() - BLOCK;
                round(x, &mut out[start..]);
            }
        }
        dtype => {
            // The halves draw only the blocks that they keep, and then the last one.
            let tail = out.len() % BLOCK;
            let drawn = if matches!(dtype, DType::F32) { out.len() } else { out.len() - tail };
            let mut buffer = vec![0.0; drawn.min(PIECE)];
            let transform = |x: &mut [f32]| normal_f32(x, mean as f32, std as f32);
            for out in out[..drawn].chunks_mut(PIECE) {
                let x = &mut buffer[..out.len()];
                generator.fill_f32(x);
                in_parallel(x, &transform);
                store(x, out);
            }
            if tail != 0 {
                let x = &mut buffer[..BLOCK];
                generator.fill_f32(x);
                transform(x);
                let start = out.len() - BLOCK;
                store(x, &mut out[start..]);
            }
        }
    }
}

/// Fills `out` with normal numbers drawn one after the other as doubles: PyTorch's recipe for outputs that are not
/// contiguous (in [memory order](super::memory_order)) or have fewer than 16 elements.
pub fn normal_in_pairs<T: Element>(generator: &mut Generator, out: &mut [T], mean: f64, std: f64) {
    for o in out {
        *o = T::from_f64(generator.next_normal().mul_add(std, mean));
    }
}

/// Rounds floats to `T`.
pub(super) fn store<T: Element>(from: &[f32], to: &mut [T]) {
    if matches!(T::DTYPE, DType::F16) {
        // SAFETY: an element of dtype F16 is an `f16`.
        let to = unsafe { std::slice::from_raw_parts_mut(to.as_mut_ptr().cast::<half::f16>(), to.len()) };
        // Converts several at a time where the processor can.
        to[..from.len()].convert_from_f32_slice(from);
        return;
    }
    for (t, &s) in to.iter_mut().zip(from) {
        *t = T::from_f32(s);
    }
}

/// Applies `f` to pieces of `x` on several threads.
pub(super) fn in_parallel<S: Send>(x: &mut [S], f: &(dyn Fn(&mut [S]) + Sync)) {
    /// A pointer whose pieces go to different threads.
    struct Start<S>(*mut S);
    // SAFETY: the tasks below write disjoint ranges.
    unsafe impl<S: Send> Sync for Start<S> {}
    impl<S> Start<S> {
        fn get(&self) -> *mut S {
            self.0
        }
    }
    let start = Start(x.as_mut_ptr());
    parallel_for(x.len(), GRAIN, &|range| {
        // SAFETY: the ranges are disjoint and inside `x`, which is borrowed for the whole call.
        f(unsafe { std::slice::from_raw_parts_mut(start.get().add(range.start), range.len()) });
    });
}

/// Uniform doubles to normal ones, in whole blocks; a rest is left for the caller to overwrite.
fn normal_f64(x: &mut [f64], mean: f64, std: f64) {
    for block in x.chunks_exact_mut(BLOCK) {
        let (radii, angles) = block.split_at_mut(HALF);
        for (a, b) in radii.iter_mut().zip(angles) {
            let radius = (-2.0 * (1.0 - *a).ln()).sqrt();
            let theta = 2.0 * std::f64::consts::PI * *b;
            *a = (radius * theta.cos()).mul_add(std, mean);
            *b = (radius * theta.sin()).mul_add(std, mean);
        }
    }
}

/// Uniform floats to normal ones, in whole blocks; a rest is left for the caller to overwrite.
fn normal_f32(x: &mut [f32], mean: f32, std: f32) {
    let mut radii = [0.0; HALF * BATCH];
    let mut angles = [0.0; HALF * BATCH];
    let whole = x.len() / BLOCK * BLOCK;
    for batch in x[..whole].chunks_mut(BLOCK * BATCH) {
        let lanes = batch.len() / 2;
        for (i, block) in batch.chunks_exact(BLOCK).enumerate() {
            radii[i * HALF..][..HALF].copy_from_slice(&block[..HALF]);
            angles[i * HALF..][..HALF].copy_from_slice(&block[HALF..]);
        }
        box_muller(&mut radii[..lanes], &mut angles[..lanes], mean, std);
        for (i, block) in batch.chunks_exact_mut(BLOCK).enumerate() {
            block[..HALF].copy_from_slice(&radii[i * HALF..][..HALF]);
            block[HALF..].copy_from_slice(&angles[i * HALF..][..HALF]);
        }
    }
}

widened! {
    /// Uniform numbers to the two normal numbers of each pair.
    fn box_muller(radii: &mut [f32], angles: &mut [f32], mean: f32, std: f32) {
        for (a, b) in radii.iter_mut().zip(angles) {
            let radius = (-2.0 * log(1.0 - *a)).sqrt();
            let (sin, cos) = sin_cos(std::f32::consts::TAU * *b);
            *a = (radius * cos).mul_add(std, mean);
            *b = (radius * sin).mul_add(std, mean);
        }
    }
}

/// The natural logarithm of a positive normal number (Cephes `logf`).
#[inline(always)]
#[allow(clippy::excessive_precision, reason = "as published")]
fn log(x: f32) -> f32 {
    let bits = x.to_bits();
    let mut e = ((bits >> 23) as i32 - 0x7f) as f32 + 1.0;
    let mut x = f32::from_bits((bits & 0x007f_ffff) | 0x3f00_0000);
    let low = x < std::f32::consts::FRAC_1_SQRT_2;
    let fold = if low { x } else { 0.0 };
    e -= if low { 1.0 } else { 0.0 };
    x = x - 1.0 + fold;
    let z = x * x;
    let mut y = 7.0376836292E-2f32;
    y = y.mul_add(x, -1.1514610310E-1);
    y = y.mul_add(x, 1.1676998740E-1);
    y = y.mul_add(x, -1.2420140846E-1);
    y = y.mul_add(x, 1.4249322787E-1);
    y = y.mul_add(x, -1.6668057665E-1);
    y = y.mul_add(x, 2.0000714765E-1);
    y = y.mul_add(x, -2.4999993993E-1);
    y = y.mul_add(x, 3.3333331174E-1);
    // log(2) in two parts, and the second-order term.
    y = (y * x).mul_add(z, e * -2.12194440e-4);
    y = z.mul_add(-0.5, y);
    x += y;
    e.mul_add(0.693359375, x)
}

/// Sine and cosine of an angle in `[0, 2 pi]` (Cephes `sinf` and `cosf`).
#[inline(always)]
#[allow(clippy::excessive_precision, reason = "as published")]
fn sin_cos(x: f32) -> (f32, f32) {
    // SAFETY: the angle is at most 2 pi, so the octant is at most 8.
    let octant: i32 = unsafe { (x * 1.27323954473516).to_int_unchecked() };
    let octant = (octant + 1) & !1;
    let y = octant as f32;
    // pi / 4 in three parts.
    let x = y.mul_add(-0.78515625, x);
    let x = y.mul_add(-2.4187564849853515625e-4, x);
    let x = y.mul_add(-3.77489497744594108e-8, x);
    let z = x * x;
    let mut cos = 2.443315711809948E-5f32;
    cos = cos.mul_add(z, -1.388731625493765E-3);
    cos = cos.mul_add(z, 4.166664568298827E-2);
    cos = (cos * z).mul_add(z, z * -0.5) + 1.0;
    let mut sin = -1.9515295891E-4f32;
    sin = sin.mul_add(z, 8.3321608736E-3);
    sin = sin.mul_add(z, -1.6666654611E-1);
    sin = (sin * z).mul_add(x, x);
    let swap = octant & 2 != 0;
    let (s, c) = if swap { (cos, sin) } else { (sin, cos) };
    let sign_sin = ((octant & 4) as u32) << 29;
    let sign_cos = ((!(octant - 2) & 4) as u32) << 29;
    (f32::from_bits(s.to_bits() ^ sign_sin), f32::from_bits(c.to_bits() ^ sign_cos))
}
