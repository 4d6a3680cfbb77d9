//! Reductions of segments: runs of places along one dim, each folded into one element.

use crate::copy::Shared;
use crate::math::{Float, Isa, Kernel, run};
use flambeau_base::iter::GRAIN;
use flambeau_base::parallel::parallel_for;
use std::marker::PhantomData;
use std::ops::Range;

/// Elements that are folded side by side.
const CHUNK: usize = 64;

/// How a segment becomes one element. NaN wins among extremes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fold {
    /// The sum.
    Sum,
    /// The product.
    Product,
    /// The largest element.
    Max,
    /// The smallest element.
    Min,
}

/// Folds segments of the middle dim of a contiguous array of sizes `outer`, `size`, `inner`, each together with `start`.
/// `segments` has as many ranges of places for every outer row; the result's sizes are `outer`, these, `inner`.
///
/// # Panics
/// When a segment reaches outside, or the arrays' sizes differ from these.
pub fn fold<T: Float>(
    how: Fold,
    segments: &[Range<usize>],
    (outer, size, inner): (usize, usize, usize),
    start: T,
    x: &[T],
    out: &mut [T],
) {
    if out.is_empty() {
        return;
    }
    let fit = segments.iter().all(|s| s.start <= s.end && s.end <= size);
    assert!(fit && segments.len().is_multiple_of(outer), "a segment reaches outside");
    assert!(x.len() == outer * size * inner && out.len() == segments.len() * inner, "the arrays differ in size");
    let per_row = segments.len() / outer;
    let target = Shared(out.as_mut_ptr());
    let each = (x.len() / segments.len()).max(inner);
    parallel_for(segments.len(), GRAIN.div_ceil(each), &|range| {
        // SAFETY: every segment's result is one piece of work's, and lies in `out`.
        let out = unsafe { std::slice::from_raw_parts_mut(target.get().add(range.start * inner), range.len() * inner) };
        let args = (segments, per_row, range, (size, inner), start, x, out);
        // SAFETY: the kernels only ask for the instruction set that they are run with.
        unsafe {
            match how {
                Fold::Sum => run::<Segments<T, Sum>>(args),
                Fold::Product => run::<Segments<T, Product>>(args),
                Fold::Max => run::<Segments<T, Max>>(args),
                Fold::Min => run::<Segments<T, Min>>(args),
            }
        }
    });
}

/// What is done to two elements.
trait Step {
    /// What changes nothing.
    fn identity<T: Float>() -> T;
    fn step<I: Isa, T: Float>(a: T, b: T) -> T;
}

macro_rules! steps {
    ($($name:ident: $identity:ident, |$a:ident, $b:ident| $step:expr;)*) => { $(
        struct $name;
        impl Step for $name {
            #[inline(always)]
            fn identity<T: Float>() -> T {
                T::$identity
            }
            #[inline(always)]
            fn step<I: Isa, T: Float>($a: T, $b: T) -> T {
                $step
            }
        }
    )* };
}
steps! {
    Sum: ZERO, |a, b| a + b;
    Product: ONE, |a, b| a * b;
    Max: NEG_INFINITY, |a, b| Float::maximum::<I>(a, b);
    Min: INFINITY, |a, b| Float::minimum::<I>(a, b);
}

struct Segments<'a, T, S>(PhantomData<(&'a T, S)>);

impl<'a, T: Float, S: Step> Kernel for Segments<'a, T, S> {
    /// All segments, how many a row has, which ones, the input's sizes, what each starts with, the input, their results.
    type Args = (&'a [Range<usize>], usize, Range<usize>, (usize, usize), T, &'a [T], &'a mut [T]);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((segments, per_row, range, (size, inner), start, x, out): Self::Args) {
        for (k, out) in range.zip(out.chunks_exact_mut(inner)) {
            let (row, segment) = (k / per_row * size, &segments[k]);
            let x = &x[(row + segment.start) * inner..(row + segment.end) * inner];
            if inner == 1 {
                out[0] = S::step::<I, T>(start, along::<I, T, S>(x));
            } else {
                across::<I, T, S>(start, x, out);
            }
        }
    }
}

/// All elements of a row.
#[inline(always)]
fn along<I: Isa, T: Float, S: Step>(x: &[T]) -> T {
    let mut lanes = [S::identity::<T>(); CHUNK];
    let (chunks, rest) = x.as_chunks::<CHUNK>();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane = S::step::<I, T>(*lane, *x);
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane = S::step::<I, T>(*lane, *x);
    }
    // By halves, which keeps a sum's error small.
    let mut width = CHUNK.min(x.len().next_power_of_two());
    while width > 1 {
        width /= 2;
        for i in 0..width {
            lanes[i] = S::step::<I, T>(lanes[i], lanes[i + width]);
        }
    }
    lanes[0]
}

/// The rows of a segment, element by element.
#[inline(always)]
fn across<I: Isa, T: Float, S: Step>(start: T, x: &[T], out: &mut [T]) {
    let inner = out.len();
    for (c, out) in out.chunks_mut(CHUNK).enumerate() {
        let mut lanes = [start; CHUNK];
        for row in x.chunks_exact(inner) {
            let row = &row[c * CHUNK..][..out.len()];
            match <&[T; CHUNK]>::try_from(row) {
                Ok(row) => (0..CHUNK).for_each(|i| lanes[i] = S::step::<I, T>(lanes[i], row[i])),
                Err(_) => row.iter().zip(&mut lanes).for_each(|(x, lane)| *lane = S::step::<I, T>(*lane, *x)),
            }
        }
        out.copy_from_slice(&lanes[..out.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::single_range_in_vec_init)]
    fn segments_are_folded() {
        let x: Vec<f64> = (0..400).map(|i| f64::from(i % 7) - 2.5).collect();
        for (how, start, step) in [
            (Fold::Sum, 0.5, (|a, b| a + b) as fn(f64, f64) -> f64),
            (Fold::Product, 0.5, |a, b| a * b),
            (Fold::Max, f64::NEG_INFINITY, f64::max),
            (Fold::Min, -1.5, f64::min),
        ] {
            for (outer, size, inner) in [(1, 400, 1), (2, 200, 1), (2, 100, 2), (1, 4, 100)] {
                let mut segments = vec![];
                for _ in 0..outer {
                    segments.extend([0..3, 3..3, 1..size]);
                }
                let mut out = vec![0.0; segments.len() * inner];
                fold(how, &segments, (outer, size, inner), start, &x, &mut out);
                for (k, segment) in segments.iter().enumerate() {
                    for i in 0..inner {
                        let elements = segment.clone().map(|s| x[(k / 3 * size + s) * inner + i]);
                        let expected: f64 = elements.fold(start, step);
                        let found = out[k * inner + i];
                        let near = (found - expected).abs() <= 1e-12 * expected.abs();
                        assert!(near || found == expected, "{how:?} {found} {expected}");
                    }
                }
            }
        }
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init)]
    fn nan_wins() {
        let mut out = [0f32];
        fold(Fold::Max, &[0..3], (1, 3, 1), 9.0, &[1.0, f32::NAN, 2.0], &mut out);
        assert!(out[0].is_nan());
    }
}
