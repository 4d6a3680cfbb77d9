//! Group norm where channels are last: each sample is a batch norm of its own, whose parameters follow from its groups.

use super::batch::{BatchNormShape, ChannelFunction, Transform, apply, channel_sums, pixels_of_row};
use super::group::{GroupNormShape, TASK, store_parameter_gradients};
use super::layer::NormGradients;
use super::rows::{Rows, store, values};
use crate::buffer::Scratch;
use crate::copy::Shared;
use crate::math::{Float, Isa, Kernel, Number, entry, level};
use crate::reduce::Operand;
use flambeau_base::parallel::parallel_for;
use std::marker::PhantomData;

/// The pixels of all samples.
fn as_batch(shape: GroupNormShape) -> BatchNormShape {
    BatchNormShape { outer: shape.batch * shape.spatial, channels: shape.channels, inner: 1 }
}

/// A number for each channel of each sample: `fill` gives those of a group, of which it is told the first channel.
fn of_channels<T: Float>(shape: GroupNormShape, fill: impl Fn(usize, usize, &mut [T])) -> Vec<T> {
    let per_group = shape.per_group();
    let mut all = vec![<T as Number>::ZERO; shape.batch * shape.channels];
    for (group, numbers) in all.chunks_mut(per_group.max(1)).enumerate() {
        fill(group, group % shape.groups * per_group, numbers);
    }
    all
}

/// A group's number for each of its channels.
fn of_groups<T: Float>(shape: GroupNormShape, of: impl Fn(usize) -> T) -> Vec<T> {
    of_channels(shape, |group, _, numbers| numbers.fill(of(group)))
}

/// A group's number times its channels' weights.
fn weighted<T: Float>(shape: GroupNormShape, weight: &[T], of: impl Fn(usize) -> T) -> Vec<T> {
    of_channels(shape, |group, first, numbers| {
        let factor = of(group);
        for (number, &weight) in numbers.iter_mut().zip(&weight[first..]) {
            *number = factor * weight;
        }
    })
}

/// The sum of `n` terms, in lanes.
fn sum_of(n: usize, term: impl Fn(usize) -> f64) -> f64 {
    const LANES: usize = 8;
    let mut lanes = [0.0; LANES];
    let whole = n / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        for (l, lane) in lanes.iter_mut().enumerate() {
            *lane += term(at + l);
        }
    }
    (whole..n).map(term).sum::<f64>() + lanes.iter().sum::<f64>()
}

/// Normalises each group of each sample.
///
/// # Safety
/// As [`super::group_norm`].
pub(super) unsafe fn forward<T: Float>(
    shape: GroupNormShape,
    eps: f64,
    x: Operand,
    weight: Option<Operand>,
    bias: Option<Operand>,
    out: Operand,
    (mean, rstd): (Option<Operand>, Option<Operand>),
) {
    let GroupNormShape { batch, channels, spatial, .. } = shape;
    if batch * channels * spatial == 0 {
        return;
    }
    // SAFETY: the caller's contract.
    let (moments, weight, bias) = unsafe {
        let weight = values::<T>(weight, channels, T::ONE);
        (group_moments::<T>(shape, x), weight, values::<T>(bias, channels, <T as Number>::ZERO))
    };
    let means: Vec<f64> = moments.iter().map(|m| m.0).collect();
    let rstds: Vec<f64> = moments.iter().map(|m| 1.0 / (m.1 + eps).sqrt()).collect();
    let centre = of_groups(shape, |group| T::from_f64(means[group]));
    let scale = weighted(shape, &weight, |group| T::from_f64(rstds[group]));
    let shift = of_channels(shape, |_, first, numbers| numbers.copy_from_slice(&bias[first..][..numbers.len()]));
    // SAFETY: the caller's contract.
    unsafe {
        apply::<T, Transform>(as_batch(shape), batch, x, x, out, [&centre, &scale, &shift, &shift]);
        mean.inspect(|o| store(*o, 0, &means));
        rstd.inspect(|o| store(*o, 0, &rstds));
    }
}

/// Rows whose differences from their own mean are summed: they are read twice, the second time from a cache.
const PIECE_ROWS: usize = 64;

/// Rows that one task adds up.
const SPAN: usize = 16 * PIECE_ROWS;

/// Columns that are summed together.
const COLUMNS: usize = 32;

/// Adds a piece of at most [`PIECE_ROWS`] rows to the means and the sums of squared differences from it of every column.
struct AddMoments<T>(PhantomData<T>);
impl<T: Float> Kernel for AddMoments<T> {
    /// The rows' elements, how many rows and columns, how many rows have been added before, means and sums of squares.
    type Args = (*const T, (usize, usize), usize, *mut f64, *mut f64);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((x, (rows, n), before, means, squares): Self::Args) {
        let mut at = 0;
        // SAFETY: the caller's columns; those of an array are as many as its length.
        unsafe {
            while at + COLUMNS <= n {
                let (means, squares) = (&mut *means.add(at).cast(), &mut *squares.add(at).cast());
                add_columns(x.add(at), (rows, n), before, means, squares);
                at += COLUMNS;
            }
            if at < n {
                // What is left is completed by columns of zeros.
                let left = n - at;
                let mut block = [[<T as Number>::ZERO; COLUMNS]; PIECE_ROWS];
                let (mut some_means, mut some_squares) = ([0.0; COLUMNS], [0.0; COLUMNS]);
                for (r, line) in block[..rows].iter_mut().enumerate() {
                    std::ptr::copy_nonoverlapping(x.add(r * n + at), line.as_mut_ptr(), left);
                }
                std::ptr::copy_nonoverlapping(means.add(at), some_means.as_mut_ptr(), left);
                std::ptr::copy_nonoverlapping(squares.add(at), some_squares.as_mut_ptr(), left);
                let lines = (rows, COLUMNS);
                add_columns(block.as_ptr().cast::<T>(), lines, before, &mut some_means, &mut some_squares);
                std::ptr::copy_nonoverlapping(some_means.as_ptr(), means.add(at), left);
                std::ptr::copy_nonoverlapping(some_squares.as_ptr(), squares.add(at), left);
            }
        }
    }
}

/// [`AddMoments`] of some columns, of rows `stride` elements apart.
///
/// # Safety
/// `x` must be valid for the columns of all rows.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loops' bounds constant.
unsafe fn add_columns<T: Float>(
    x: *const T,
    (rows, stride): (usize, usize),
    before: usize,
    means: &mut [f64; COLUMNS],
    squares: &mut [f64; COLUMNS],
) {
    const ZEROS: [f64; COLUMNS] = [0.0; COLUMNS];
    // SAFETY: columns of the caller's rows.
    let row = |r: usize| unsafe { x.add(r * stride).cast::<[T; COLUMNS]>().read_unaligned() };
    let share = 1.0 / rows as f64;
    let mut centre = [<T as Number>::ZERO; COLUMNS];
    for r in 0..rows {
        let x = row(r);
        for l in 0..COLUMNS {
            centre[l] += x[l];
        }
    }
    let factor = T::from_f64(share);
    for l in 0..COLUMNS {
        centre[l] *= factor;
    }
    let (mut square, mut rest) = ([<T as Number>::ZERO; COLUMNS], [<T as Number>::ZERO; COLUMNS]);
    for r in 0..rows {
        let x = row(r);
        for l in 0..COLUMNS {
            let d = x[l] - centre[l];
            square[l] += d * d;
            rest[l] += d;
        }
    }
    // What rounding left of the mean corrects it and the squares, as in `moments`; and the piece is added to those before
    // (Chan, Golub & LeVeque, 1983).
    let (all, of_piece) = ((before + rows) as f64, rows as f64);
    let (part, product) = (of_piece / all, before as f64 * of_piece / all);
    let (mut new_means, mut new_squares) = (ZEROS, ZEROS);
    for l in 0..COLUMNS {
        let rest = rest[l].to_f64();
        let mean = centre[l].to_f64() + rest * share;
        let delta = mean - means[l];
        new_means[l] = means[l] + delta * part;
        new_squares[l] = squares[l] + (square[l].to_f64() - rest * rest * share) + delta * delta * product;
    }
    (*means, *squares) = (new_means, new_squares);
}

/// Mean and variance of each group of each sample.
///
/// # Safety
/// `x` must be valid for all elements.
unsafe fn group_moments<T: Float>(shape: GroupNormShape, x: Operand) -> Vec<(f64, f64)> {
    let GroupNormShape { batch, channels, spatial, groups, .. } = shape;
    let per_group = shape.per_group();
    let x = Rows::<T>::new(x);
    let add = entry::<AddMoments<T>>(level());
    // Pixels of few channels make a row of more columns; pixels that do not fill a row are one of fewer.
    let pixels_of_row = pixels_of_row(channels, spatial);
    let (n, rows, left) = (pixels_of_row * channels, spatial / pixels_of_row, spatial % pixels_of_row * channels);
    let (piece, spans) = (PIECE_ROWS.min(rows), rows.div_ceil(SPAN));
    // Means and sums of squares of every column, of all spans, and then of the row that is not full.
    let parts = spans + (left > 0) as usize;
    let mut moments = vec![0.0f64; batch * parts * 2 * n];
    let shared = Shared(moments.as_mut_ptr());
    parallel_for(batch * parts, (TASK / (SPAN * n)).max(1), &|range| {
        let scratch = Scratch::<T>::new(if x.is_direct() { 0 } else { piece.max(1) * n });
        for i in range {
            let (sample, part) = (i / parts, i % parts);
            let start = part * SPAN;
            // SAFETY: rows of the caller's sample, for which the scratch memory has room; each part has its own moments.
            unsafe {
                let to = shared.get().add(i * 2 * n);
                let at = |row: usize| sample * spatial * channels + row * n;
                if part == spans {
                    let from = x.read(at(rows), left, scratch.get());
                    add((from, (1, left), 0, to, to.add(n)));
                    continue;
                }
                for first in (start..rows.min(start + SPAN)).step_by(PIECE_ROWS) {
                    let count = PIECE_ROWS.min(rows - first);
                    let from = x.read(at(first), count * n, scratch.get());
                    add((from, (count, n), first - start, to, to.add(n)));
                }
            }
        }
    });
    // The group's columns in a part: how many rows they have, their means and their sums of squares.
    let columns = |sample: usize, part: usize| {
        let (means, squares) = moments[(sample * parts + part) * 2 * n..][..2 * n].split_at(n);
        match part == spans {
            true => (1.0, &means[..left], &squares[..left]),
            false => ((rows - part * SPAN).min(SPAN) as f64, means, squares),
        }
    };
    let count = (per_group * spatial) as f64;
    let group = |i: usize| {
        let (sample, first) = (i / groups, i % groups * per_group);
        let (mut sum, mut square) = (0.0, 0.0);
        for part in 0..parts {
            let (rows, means, _) = columns(sample, part);
            for pixel in means.chunks(channels) {
                let pixel = &pixel[first..first + per_group];
                sum += rows * sum_of(per_group, |c| pixel[c]);
            }
        }
        let mean = sum / count;
        for part in 0..parts {
            let (rows, means, squares) = columns(sample, part);
            for (means, squares) in means.chunks(channels).zip(squares.chunks(channels)) {
                let (means, squares) = (&means[first..first + per_group], &squares[first..first + per_group]);
                square += sum_of(per_group, |c| squares[c] + rows * (means[c] - mean) * (means[c] - mean));
            }
        }
        (mean, square / count)
    };
    (0..batch * groups).map(group).collect()
}

/// [`super::group_norm_backward`] where channels are last.
///
/// # Safety
/// As there.
pub(super) unsafe fn backward<T: Float>(
    shape: GroupNormShape,
    grad: Operand,
    x: Operand,
    (mean, rstd): (Operand, Operand),
    weight: Option<Operand>,
    gradients: NormGradients,
) {
    let GroupNormShape { batch, channels, spatial, groups, .. } = shape;
    let per_group = shape.per_group();
    // SAFETY: the caller's contract.
    let (weight, mean, rstd) = unsafe {
        (
            values::<T>(weight, channels, T::ONE),
            values::<T>(Some(mean), batch * groups, <T as Number>::ZERO),
            values::<T>(Some(rstd), batch * groups, T::ONE),
        )
    };
    let (centre, inverse) = (of_groups(shape, |group| mean[group]), of_groups(shape, |group| rstd[group]));
    // SAFETY: the caller's contract; statistics of every channel.
    let sums = unsafe { channel_sums::<T>(as_batch(shape), batch, grad, x, &centre, &inverse) };
    if let Some(out) = gradients.input {
        let share = 1.0 / (per_group * spatial) as f64;
        // Of each group: what is taken off the gradient, and what times the centred input is.
        let factors: Vec<(T, T)> = (0..batch * groups)
            .map(|group| {
                let (mut sum, mut dot, r) = (0.0, 0.0, rstd[group].to_f64());
                let first = group % groups * per_group;
                for (c, sums) in (first..).zip(&sums[group * per_group..][..per_group]) {
                    let w = weight[c].to_f64();
                    (dot, sum) = (dot + w * sums[0], sum + w * sums[1]);
                }
                (T::from_f64(sum * share * r), T::from_f64(dot * share * r * r))
            })
            .collect();
        let scale = weighted(shape, &weight, |group| rstd[group]);
        let shift = of_groups(shape, |group| factors[group].0);
        let slope = of_groups(shape, |group| factors[group].1);
        // SAFETY: the caller's contract.
        unsafe {
            let parameters: [&[T]; 4] = [&centre, &scale, &shift, &slope];
            apply::<T, GroupGradient>(as_batch(shape), batch, grad, x, out, parameters);
        }
    }
    // SAFETY: the caller's contract.
    unsafe { store_parameter_gradients(shape, &sums, gradients) };
}

/// The gradient by an element: shift and slope have been scaled.
struct GroupGradient;
impl ChannelFunction for GroupGradient {
    #[inline(always)]
    fn of<I: Isa, T: Float>(grad: T, x: T, [mean, scale, shift, slope]: [T; 4]) -> T {
        grad * scale - shift - (x - mean) * slope
    }
}
