//! Variances of many `f32` in one pass: distances from a mean of a few elements, and their squares, are summed as `f32` over a
//! few elements, and from there on as `f64`.

use super::Block;
use super::columns::{LOOK, ROWS};
use super::fold::LEAST_SQUARES;
use super::moments::{Moments, not_negative};
use crate::buffer::Scratch;
use crate::math::{Isa, Level, Number};
use crate::norm::rows::{long_deviations, sums};
use crate::prefetch::{prefetch, prefetch_run};

/// Elements, or rows, from which on distances are summed as `f32`; and so many of the first and of the last have a mean that
/// stands in for that of all, which it is near to where elements rise or fall, too. Of rows fewer will do.
pub(super) const MANY: usize = 128;
const ENDS: usize = 32;
const END_ROWS: usize = 12;

/// Rows from those that are added to those that are asked for.
const AHEAD: usize = 2 * ROWS;

/// Groups of [`ROWS`] rows whose distances are added as `f32` before the sums go on as `f64`.
const FEW_GROUPS: usize = 4;

/// What the distance of that mean from that of all may make of the squares: the longer the sums of `f32` are, the more digits
/// of a mean near zero that distance costs. (The mean of 24 normal numbers is hardly ever a deviation away.)
const SHARE: f64 = 1.0 / 16.0;
const SHARE_OF_ROWS: f64 = 0.5;

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
    let distance = sum / count;
    let squares = not_negative(square - sum * distance);
    let near = (square >= LEAST_SQUARES * count) & square.is_finite() & (sum * distance <= share * square);
    (Moments { count, mean: f64::from(pilot) + distance, squares }, near)
}

/// Adds the moments of columns of [`MANY`] rows or more to their states, as [`quick_moments`], eight rows at a time, about
/// the mean of the [`END_ROWS`]. Gives up, having changed nothing, if that does not do for one of them.
///
/// # Safety
/// The block's rows must be valid, contiguous elements, [`LOOK`] at least.
#[inline(always)]
pub(super) unsafe fn quick_columns<I: Isa>(b: Block, states: &mut [Moments]) -> bool {
    let x = b.data.cast::<f32>();
    let row = |r: usize| x.wrapping_offset(r as isize * b.row_stride);
    let cols = b.cols;
    let (mut few, mut all) = (Scratch::<f32>::new(3 * cols), Scratch::<f64>::new(2 * cols));
    let (pilots, few) = few.filled(3 * cols, 0.0).split_at_mut(cols);
    let (few_sums, few_squares) = few.split_at_mut(cols);
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
    let groups = b.rows.div_ceil(ROWS);
    for group in 0..groups {
        // Rows after the last are the pilot itself, and add nothing.
        let rows: [*const f32; ROWS] = std::array::from_fn(|i| {
            let r = group * ROWS + i;
            if r < b.rows { row(r) } else { pilots.as_ptr() }
        });
        for done in (0..cols).step_by(LOOK) {
            // The last columns are added with some before them, whose sums are put back.
            let start = done.min(cols - LOOK);
            let (sums, squares) = (few_sums[start..].first_chunk_mut(), few_squares[start..].first_chunk_mut());
            let (Some(centre), Some(sums), Some(squares)) = (pilots[start..].first_chunk(), sums, squares) else {
                return false;
            };
            let skip = done - start;
            let before = if skip > 0 { Some([*sums, *squares]) } else { None };
            // SAFETY: `LOOK` elements of each row; the machine has `I`.
            unsafe {
                let rows = (rows.map(|row| row.wrapping_add(start)), AHEAD as isize * b.row_stride);
                match (b.far, const { matches!(I::LEVEL, Level::Avx512) }) {
                    #[cfg(target_arch = "x86_64")]
                    (far, true) => add_eight_avx512(rows, far, centre, sums, squares),
                    (true, _) => add_eight::<I, { LOOK / 4 }, true>(rows, centre, sums, squares),
                    (false, _) => add_eight::<I, { LOOK / 2 }, false>(rows, centre, sums, squares),
                }
            }
            if let Some([before, squares_before]) = before {
                sums[..skip].copy_from_slice(&before[..skip]);
                squares[..skip].copy_from_slice(&squares_before[..skip]);
            }
        }
        if group % FEW_GROUPS == FEW_GROUPS - 1 || group == groups - 1 {
            for (all, few) in [(&mut *sums, &mut *few_sums), (&mut *squares, &mut *few_squares)] {
                for (all, few) in all.iter_mut().zip(few) {
                    *all += f64::from(*few);
                    *few = 0.0;
                }
            }
        }
    }
    let count = b.rows as f64;
    let moments = |l: usize| about(pilots[l], sums[l], squares[l], count, SHARE_OF_ROWS);
    if (0..cols).fold(false, |far, l| far | !moments(l).1) {
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
/// The rows must have these columns.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loop countable, and its bounds constant.
unsafe fn add_eight<I: Isa, const W: usize, const FAR: bool>(
    (rows, ahead): ([*const f32; ROWS], isize),
    centres: &[f32; LOOK],
    sums: &mut [f32; LOOK],
    squares: &mut [f32; LOOK],
) {
    let sums = sums.as_chunks_mut::<W>().0.iter_mut().zip(squares.as_chunks_mut::<W>().0);
    for (part, (centre, (sums, squares))) in centres.as_chunks::<W>().0.iter().zip(sums).enumerate() {
        let at = |i: usize| rows[i].wrapping_add(part * W);
        for i in 0..if FAR { ROWS } else { 0 } {
            prefetch_run(at(i).wrapping_offset(ahead).cast(), size_of::<[f32; W]>());
        }
        let (mut all, mut all_squares) = (*sums, *squares);
        for l in 0..W {
            // SAFETY: an element of the caller's rows.
            let near = |i: usize| unsafe { *at(i).add(l) } - centre[l];
            let four = |i: usize| {
                let [a, b, c, d] = [near(i), near(i + 1), near(i + 2), near(i + 3)];
                let squares = Number::mul_add::<I>(b, b, a * a);
                ((a + b) + (c + d), Number::mul_add::<I>(d, d, Number::mul_add::<I>(c, c, squares)))
            };
            let ((low, low_squares), (high, high_squares)) = (four(0), four(4));
            all[l] += low + high;
            all_squares[l] += low_squares + high_squares;
        }
        (*sums, *squares) = (all, all_squares);
    }
}

/// The same to the bit, 16 columns at a time: compilers make no vectors of so few, and ask for twice as many lines at once with
/// more.
///
/// # Safety
/// As [`add_eight`], and the machine has AVX-512 (F).
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn add_eight_avx512(
    (rows, ahead): ([*const f32; ROWS], isize),
    far: bool,
    centres: &[f32; LOOK],
    sums: &mut [f32; LOOK],
    squares: &mut [f32; LOOK],
) {
    use std::arch::x86_64::*;
    for at in (0..LOOK).step_by(16) {
        // SAFETY: 16 elements of the caller's rows and arrays.
        unsafe {
            let centre = _mm512_loadu_ps(centres.as_ptr().add(at));
            let four = |i: usize| {
                let near = |i: usize| {
                    let x = rows[i].wrapping_add(at);
                    if far {
                        prefetch(x.wrapping_offset(ahead).cast());
                    }
                    _mm512_sub_ps(_mm512_loadu_ps(x), centre)
                };
                let (a, b, c, d) = (near(i), near(i + 1), near(i + 2), near(i + 3));
                let squares = _mm512_fmadd_ps(b, b, _mm512_mul_ps(a, a));
                let squares = _mm512_fmadd_ps(d, d, _mm512_fmadd_ps(c, c, squares));
                (_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)), squares)
            };
            let ((low, low_squares), (high, high_squares)) = (four(0), four(4));
            for (to, more) in [
                (sums.as_mut_ptr().add(at), _mm512_add_ps(low, high)),
                (squares.as_mut_ptr().add(at), _mm512_add_ps(low_squares, high_squares)),
            ] {
                _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), more));
            }
        }
    }
}
