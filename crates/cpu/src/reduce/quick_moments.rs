//! Variances of many `f32` in one pass: distances from a mean of a few elements, and their squares, are summed as `f32` over a
//! few elements, and from there on as `f64`.

use super::Block;
use super::columns::{LOOK, ROWS};
use super::fold::LEAST_SQUARES;
use super::moments::{Moments, not_negative};
use crate::buffer::Scratch;
use crate::math::{Isa, Level, Number};
use crate::norm::rows::{long_deviations, sums};
use crate::prefetch::{prefetch, prefetch_near, prefetch_run, prefetch_run_near};

/// Elements, or rows, from which on distances are summed as `f32`; and so many of the first and of the last have a mean that
/// stands in for that of all, which it is near to where elements rise or fall, too. Of rows fewer will do.
pub(super) const MANY: usize = 128;
const ENDS: usize = 32;
const END_ROWS: usize = 6;

/// Rows from those that are added to those that are asked for.
const AHEAD: usize = 2 * ROWS;

/// Elements from those that are added to those of the same row that are asked to come on from the second-level cache.
const NEXT: usize = LOOK;

/// Groups of [`ROWS`] rows whose distances are added as `f32`, in registers, before the sums go on as `f64`; and those of rows
/// that no cache may hold, of which fewer are read side by side (with four, a sixth less is read in a time).
const FEW_GROUPS: usize = 4;
const FEW_FAR_GROUPS: usize = 2;

/// The same columns of [`ROWS`] rows.
type Rows = [*const f32; ROWS];

/// What the distance of that mean from that of all may make of the squares: the longer the sums of `f32` are, the more digits
/// of a mean near zero that distance costs. (The mean of 12 normal numbers is hardly ever 1.7 deviations away.)
const SHARE: f64 = 1.0 / 16.0;
const SHARE_OF_ROWS: f64 = 0.75;

/// The moments of [`MANY`] contiguous elements or more in one pass, about the mean of the [`ENDS`]: distances and their
/// squares are rounded to `f32`, and so are the sums of a few hundred of them, which costs less than the rounding of the result.
/// Nothing if that mean is not near that of all, or squares are too small or too large for `f32`.
///
/// # Safety
/// `x` must be valid for `n` elements.
#[inline(always)]
pub(super) unsafe fn quick_moments<I: Isa>(x: *const f32, n: usize) -> Option<Moments> {
    let ends = [x, x.wrapping_add(n - ENDS)];
    // The next block, or run, mostly follows: its end would be waited for.
    prefetch_run(ends[1].wrapping_add(n).cast(), ENDS * size_of::<f32>());
    // SAFETY: elements of the caller's.
    let few = ends.map(|end| unsafe { end.cast::<[f32; ENDS]>().read_unaligned() });
    let few = few.as_flattened();
    let pilot = (sums::<I, f32, 1>(2 * ENDS, |i| [few[i]])[0] * const { 0.5 / ENDS as f64 }) as f32;
    // SAFETY: the caller's elements.
    let [square, sum] = unsafe { long_deviations::<I, f32>(x, n, pilot) };
    let (moments, near) = about(pilot, sum, square, n as f64, SHARE);
    near.then_some(moments)
}

/// The moments of `count` elements from the sums of their distances from a pilot and of the squares of these, as `f32`, and
/// whether they will do: the squares are normal numbers, and what the pilot's distance from the mean adds to them is at most that
/// share.
#[inline(always)]
fn about(pilot: f32, sum: f64, square: f64, count: f64, share: f64) -> (Moments, bool) {
    let distance = sum * (1.0 / count);
    let squares = not_negative(square - sum * distance);
    let near = (square >= LEAST_SQUARES * count) & square.is_finite() & (sum * distance <= share * square);
    (Moments { count, mean: f64::from(pilot) + distance, squares }, near)
}

/// Adds the moments of columns of [`MANY`] rows or more to their states, as [`quick_moments`], some groups of rows at a
/// time, about the mean of the [`END_ROWS`]. Gives up, having changed nothing, if that does not do for one of them.
///
/// # Safety
/// The block's rows must be valid, contiguous elements, [`LOOK`] at least.
#[inline(always)]
pub(super) unsafe fn quick_columns<I: Isa>(b: Block, states: &mut [Moments]) -> bool {
    let x = b.data.cast::<f32>();
    let row = |r: usize| x.wrapping_offset(r as isize * b.row_stride);
    let cols = b.cols;
    let (mut pilots, mut all) = (Scratch::<f32>::new(cols), Scratch::<f64>::new(2 * cols));
    let pilots = pilots.filled(cols, 0.0);
    let (sums, squares) = all.filled(2 * cols, 0.0).split_at_mut(cols);
    for r in (0..END_ROWS).chain(b.rows - END_ROWS..b.rows) {
        // SAFETY: a row of the caller's.
        let row = unsafe { std::slice::from_raw_parts(row(r), cols) };
        for (pilot, x) in pilots.iter_mut().zip(row) {
            *pilot += x;
        }
    }
    for pilot in pilots.iter_mut() {
        *pilot *= const { 0.5 / END_ROWS as f32 };
    }
    let few = if b.far { FEW_FAR_GROUPS } else { FEW_GROUPS };
    let groups = b.rows.div_ceil(ROWS);
    for first in (0..groups).step_by(few) {
        // Rows after the last are the pilot itself, and add nothing.
        let rows: [Rows; FEW_GROUPS] = std::array::from_fn(|group| {
            std::array::from_fn(|i| {
                let r = (first + group) * ROWS + i;
                if r < b.rows { row(r) } else { pilots.as_ptr() }
            })
        });
        let rows = &rows[..few.min(groups - first)];
        for done in (0..cols).step_by(LOOK) {
            // The last columns are added with some before them, whose sums are put back.
            let start = done.min(cols - LOOK);
            let (sums, squares) = (sums[start..].first_chunk_mut(), squares[start..].first_chunk_mut());
            let (Some(centre), Some(sums), Some(squares)) = (pilots[start..].first_chunk(), sums, squares) else {
                return false;
            };
            let skip = done - start;
            let before = if skip > 0 { Some([*sums, *squares]) } else { None };
            // SAFETY: `LOOK` elements of each row; the machine has `I`.
            unsafe {
                let ahead = AHEAD as isize * b.row_stride;
                match (b.far, const { matches!(I::LEVEL, Level::Avx512) }) {
                    #[cfg(target_arch = "x86_64")]
                    (true, true) => add_groups_avx512::<true>((rows, start, ahead), centre, sums, squares),
                    #[cfg(target_arch = "x86_64")]
                    (false, true) => add_groups_avx512::<false>((rows, start, ahead), centre, sums, squares),
                    (true, _) => add_groups::<I, { LOOK / 4 }, true>((rows, start, ahead), centre, sums, squares),
                    (false, _) => add_groups::<I, { LOOK / 2 }, false>((rows, start, ahead), centre, sums, squares),
                }
            }
            if let Some([before, squares_before]) = before {
                sums[..skip].copy_from_slice(&before[..skip]);
                squares[..skip].copy_from_slice(&squares_before[..skip]);
            }
        }
    }
    let count = b.rows as f64;
    let moments = |l: usize| about(pilots[l], sums[l], squares[l], count, SHARE_OF_ROWS);
    let mut near = true;
    for l in 0..cols {
        near &= moments(l).1;
    }
    if !near {
        return false;
    }
    for (l, state) in states.iter_mut().enumerate() {
        *state = state.merge(moments(l).0);
    }
    true
}

/// Adds distances of [`LOOK`] columns from their centres, and their squares, to sums: `W` columns at a time, in trees, since the
/// sum of one row would wait for that of the one before. If the rows are `FAR`, what is `ahead` elements further on is asked
/// for: no more at a time than is added, or all would wait.
///
/// # Safety
/// The rows must have these columns, from `start` on.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loop countable, and its bounds constant.
unsafe fn add_groups<I: Isa, const W: usize, const FAR: bool>(
    (groups, start, ahead): (&[Rows], usize, isize),
    centres: &[f32; LOOK],
    sums: &mut [f64; LOOK],
    squares: &mut [f64; LOOK],
) {
    let sums = sums.as_chunks_mut::<W>().0.iter_mut().zip(squares.as_chunks_mut::<W>().0);
    for (part, (centre, (sums, squares))) in centres.as_chunks::<W>().0.iter().zip(sums).enumerate() {
        let (mut few, mut few_squares) = ([0.0f32; W], [0.0f32; W]);
        for rows in groups {
            let at = |i: usize| rows[i].wrapping_add(start + part * W);
            for i in 0..if FAR { ROWS } else { 0 } {
                prefetch_run(at(i).wrapping_offset(ahead).cast(), size_of::<[f32; W]>());
                prefetch_run_near(at(i).wrapping_add(NEXT).cast(), size_of::<[f32; W]>());
            }
            for l in 0..W {
                // SAFETY: an element of the caller's rows.
                let near = |i: usize| unsafe { *at(i).add(l) } - centre[l];
                let four = |i: usize| {
                    let [a, b, c, d] = [near(i), near(i + 1), near(i + 2), near(i + 3)];
                    let squares = Number::mul_add::<I>(b, b, a * a);
                    ((a + b) + (c + d), Number::mul_add::<I>(d, d, Number::mul_add::<I>(c, c, squares)))
                };
                let ((low, low_squares), (high, high_squares)) = (four(0), four(4));
                few[l] += low + high;
                few_squares[l] += low_squares + high_squares;
            }
        }
        for l in 0..W {
            sums[l] += f64::from(few[l]);
            squares[l] += f64::from(few_squares[l]);
        }
    }
}

/// The same to the bit, 32 columns at a time in registers: compilers make no vectors of so few.
///
/// # Safety
/// As [`add_groups`], and the machine has AVX-512 (F).
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn add_groups_avx512<const FAR: bool>(
    (groups, start, ahead): (&[Rows], usize, isize),
    centres: &[f32; LOOK],
    sums: &mut [f64; LOOK],
    squares: &mut [f64; LOOK],
) {
    use std::arch::x86_64::*;
    const VECTORS: usize = 2;
    for at in (0..LOOK).step_by(16 * VECTORS) {
        // SAFETY: 16 elements of the caller's rows and arrays at a time.
        unsafe {
            let centre: [__m512; VECTORS] = std::array::from_fn(|v| _mm512_loadu_ps(centres.as_ptr().add(at + 16 * v)));
            let (mut few, mut few_squares) = ([_mm512_setzero_ps(); VECTORS], [_mm512_setzero_ps(); VECTORS]);
            for rows in groups {
                for v in 0..VECTORS {
                    let four = |i: usize| {
                        let near = |i: usize| {
                            let x = rows[i].wrapping_add(start + at + 16 * v);
                            if FAR {
                                prefetch(x.wrapping_offset(ahead).cast());
                                prefetch_near(x.wrapping_add(NEXT).cast());
                            }
                            _mm512_sub_ps(_mm512_loadu_ps(x), centre[v])
                        };
                        let (a, b, c, d) = (near(i), near(i + 1), near(i + 2), near(i + 3));
                        let squares = _mm512_fmadd_ps(b, b, _mm512_mul_ps(a, a));
                        let squares = _mm512_fmadd_ps(d, d, _mm512_fmadd_ps(c, c, squares));
                        (_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)), squares)
                    };
                    let ((low, low_squares), (high, high_squares)) = (four(0), four(4));
                    few[v] = _mm512_add_ps(few[v], _mm512_add_ps(low, high));
                    few_squares[v] = _mm512_add_ps(few_squares[v], _mm512_add_ps(low_squares, high_squares));
                }
            }
            for v in 0..VECTORS {
                for (to, few) in [(&mut *sums, few[v]), (&mut *squares, few_squares[v])] {
                    let to = to.as_mut_ptr().add(at + 16 * v);
                    let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(few)));
                    let halves = [_mm512_castps512_ps256(few), high];
                    for (half, few) in halves.into_iter().enumerate() {
                        let to = to.add(8 * half);
                        _mm512_storeu_pd(to, _mm512_add_pd(_mm512_loadu_pd(to), _mm512_cvtps_pd(few)));
                    }
                }
            }
        }
    }
}
