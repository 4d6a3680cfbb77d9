//! Segments: runs of places along one dim, each folded into one element, or an element spread over each.

use crate::copy::{Shared, cast_strip_of_size, move_bytes};
use crate::math::{Float, Isa, Kernel, Level, run};
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
pub(crate) fn fold_segments<T: Float>(
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

/// Bytes that one piece of work spreads.
const PIECE_BYTES: usize = 1 << 17;

/// Writes every segment's element to all of its places, the way back of [`fold_segments`]: the result's sizes are `outer`,
/// `size`, `inner`, and an element has `bytes` bytes. Places of no segment become zero. The segments of a row lie in order.
///
/// # Panics
/// When a segment reaches outside or into another.
///
/// # Safety
/// `from` is valid for an element of `inner` for each segment, and `to` for the result; they do not overlap.
pub unsafe fn spread(
    segments: &[Range<usize>],
    (outer, size, inner): (usize, usize, usize),
    bytes: usize,
    from: *const u8,
    to: *mut u8,
) {
    if outer * size * inner == 0 {
        return;
    }
    assert!(segments.len().is_multiple_of(outer), "every row has as many segments");
    let per_row = segments.len() / outer;
    let apart = |row: &[Range<usize>]| row.windows(2).all(|w| w[0].end <= w[1].start);
    let fit = segments.iter().all(|s| s.start <= s.end && s.end <= size);
    assert!(fit && segments.chunks(per_row.max(1)).all(apart), "a segment reaches outside or into another");
    let width = inner * bytes;
    let (from, to) = (Shared(from.cast_mut()), Shared(to));
    parallel_for(outer * size, (PIECE_BYTES / width).max(1), &|mut places| {
        while !places.is_empty() {
            let (row, mut at) = (places.start / size, places.start % size);
            let end = size.min(at + places.len());
            places.start += end - at;
            let first = row * per_row;
            let segments = &segments[first..first + per_row];
            let mut k = segments.partition_point(|s| s.end <= at);
            while at < end {
                // The rest of a segment, or what lies before the next one.
                let (stop, holds) = segments.get(k).map_or((end, false), |s| match s.start <= at {
                    true => (s.end, true),
                    false => (s.start, false),
                });
                let count = stop.min(end) - at;
                // SAFETY: places of the caller's result, which are this piece's, and a segment's element.
                unsafe {
                    let to = to.get().add((row * size + at) * width);
                    match holds {
                        true => repeat(from.get().add((first + k) * width), to, width, count),
                        false => to.write_bytes(0, count * width),
                    }
                }
                at += count;
                k += usize::from(holds);
            }
        }
    });
}

/// Writes `width` bytes `count` times.
///
/// # Safety
/// Both sides are valid for that, and apart.
unsafe fn repeat(from: *const u8, to: *mut u8, width: usize, count: usize) {
    // SAFETY: the caller's.
    unsafe {
        if width <= 128 && width.is_power_of_two() {
            return cast_strip_of_size(width)(from, 0, to, width as isize, count);
        }
        for k in 0..count {
            move_bytes(from, to.add(k * width), width);
        }
    }
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
    const HIGHEST: Level = Level::Avx2;

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
                fold_segments(how, &segments, (outer, size, inner), start, &x, &mut out);
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
    fn elements_are_spread_over_segments() {
        for (outer, size, inner) in [(1, 50_000, 1), (2, 200, 1), (2, 100, 3), (1, 9, 40), (3, 7, 2)] {
            let mut segments = vec![];
            for _ in 0..outer {
                segments.extend([1..3, 3..3, 3..size - 2, size - 1..size]);
            }
            let x: Vec<u32> = (1..=(segments.len() * inner) as u32).collect();
            let mut out = vec![9u32; outer * size * inner];
            // SAFETY: the arrays are of these sizes.
            unsafe { spread(&segments, (outer, size, inner), 4, x.as_ptr().cast(), out.as_mut_ptr().cast()) };
            for (place, out) in out.chunks_exact(inner).enumerate() {
                let (row, at) = (place / size, place % size);
                let found = (4 * row..4 * row + 4).find(|&k| segments[k].contains(&at));
                for (i, out) in out.iter().enumerate() {
                    assert_eq!(*out, found.map_or(0, |k| x[k * inner + i]), "{place} of {size}");
                }
            }
        }
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init)]
    fn nan_wins() {
        let mut out = [0f32];
        fold_segments(Fold::Max, &[0..3], (1, 3, 1), 9.0, &[1.0, f32::NAN, 2.0], &mut out);
        assert!(out[0].is_nan());
    }
}
