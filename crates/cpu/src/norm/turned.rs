//! Layer norm and RMS norm of rows of few elements, with columns of rows made of them: what belongs to a row is then in one
//! lane of a vector, and no vector is summed across.

use super::layer::{Inputs, PIECE_ROWS, TASK, moments_of};
use super::rows::{LANES, Rows, together};
use crate::buffer::{Scratch, aligned};
use crate::copy::transpose::turn;
use crate::copy::{Shared, stream};
use crate::math::{Float, Isa, Kernel, Number, entry, level};
use flambeau_base::parallel::parallel_for;
use std::marker::PhantomData;

/// Elements of a row that are summed in their own dtype: so few lose nothing by it.
const PART: usize = 8;

/// Whether rows are to be turned: they are short, and so many that [`LANES`] at once are no waste. (Rows of full length
/// without a centre are as fast as they are.)
pub(super) fn is_short<const CENTRE: bool>(rows: usize, n: usize) -> bool {
    (1..LANES + CENTRE as usize).contains(&n) && rows >= n / 2 + 4
}

/// The same, for their gradients.
pub(super) fn is_short_backward(rows: usize, n: usize) -> bool {
    (1..LANES).contains(&n) && rows >= n + 8
}

/// Lines of one element of each of [`LANES`] rows.
type Line<T> = [T; LANES];

/// Sums of terms of `n` lines, for each lane: the term of element `l` of line `d` is `term(d, l)`.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loops' bounds constant.
fn sums_of_lines<T: Float, const K: usize>(n: usize, term: impl Fn(usize, usize) -> [T; K]) -> [[f64; LANES]; K] {
    let mut sums = [[0.0; LANES]; K];
    for first in (0..n).step_by(PART) {
        let mut part = [[<T as Number>::ZERO; LANES]; K];
        for d in first..n.min(first + PART) {
            for l in 0..LANES {
                let terms = term(d, l);
                for k in 0..K {
                    part[k][l] += terms[k];
                }
            }
        }
        for k in 0..K {
            for l in 0..LANES {
                sums[k][l] += part[k][l].to_f64();
            }
        }
    }
    sums
}

/// [`LANES`] rows in columns, normalised where they are.
struct ForwardLines<T, const CENTRE: bool>(PhantomData<T>);
impl<T: Float, const CENTRE: bool> Kernel for ForwardLines<T, CENTRE> {
    /// Lines, their number, weights, biases, eps.
    type Args = (*mut Line<T>, usize, *const T, *const T, f64);
    /// Means and reciprocal deviations.
    type Output = [[f64; LANES]; 2];
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // As above.
    unsafe fn run<I: Isa>((lines, n, weight, bias, eps): Self::Args) -> [[f64; LANES]; 2] {
        let share = 1.0 / n as f64;
        // SAFETY: `d < n` and `l < LANES`, of the caller's lines.
        let at = |d: usize, l: usize| unsafe { (*lines.add(d))[l] };
        let mut centre = [<T as Number>::ZERO; LANES];
        if CENTRE {
            let [sums] = sums_of_lines(n, |d, l| [at(d, l)]);
            for l in 0..LANES {
                centre[l] = T::from_f64(sums[l] * share);
            }
        }
        let [squares, rest] = if CENTRE {
            sums_of_lines(n, |d, l| {
                let difference = at(d, l) - centre[l];
                [difference * difference, difference]
            })
        } else {
            let [squares] = sums_of_lines(n, |d, l| [at(d, l) * at(d, l)]);
            [squares, [0.0; LANES]]
        };
        let (mut mean, mut rstd) = ([0.0; LANES], [0.0; LANES]);
        let (mut m, mut r) = ([<T as Number>::ZERO; LANES], [<T as Number>::ZERO; LANES]);
        for l in 0..LANES {
            (mean[l], rstd[l]) = moments_of::<CENTRE>(centre[l].to_f64(), squares[l], rest[l], share, eps);
            (m[l], r[l]) = (T::from_f64(mean[l]), T::from_f64(rstd[l]));
        }
        for d in 0..n {
            // SAFETY: the caller's lines, and a weight and a bias of each.
            let (line, w, b) = unsafe { (&mut *lines.add(d), *weight.add(d), *bias.add(d)) };
            for l in 0..LANES {
                line[l] = ((line[l] - m[l]) * r[l]).mul_add::<I>(w, b);
            }
        }
        [mean, rstd]
    }
}

/// Makes columns of `count` rows of `n` elements; the columns that are left are zero.
///
/// # Safety
/// The rows must be valid for reads, the lines for writes of `n`.
unsafe fn turn_in<T: Float>(rows: *const T, lines: *mut Line<T>, n: usize, count: usize) {
    // SAFETY: the caller's contract.
    unsafe {
        if count < LANES {
            std::slice::from_raw_parts_mut(lines, n).fill([<T as Number>::ZERO; LANES]);
        }
        turn(rows, n, lines.cast(), LANES, (count, n));
    }
}

/// Normalises rows, as [`super::layer_norm`] has it. What no cache holds is read and written in order, by way of one: rows
/// that are turned are not.
///
/// # Safety
/// The rows must be valid for all elements, `statistics` for one of each row. No input may be the output if `in_order`.
pub(super) unsafe fn forward<T: Float, const CENTRE: bool>(
    (rows, n): (usize, usize),
    eps: f64,
    in_order: bool,
    (x, out): (Rows<T>, Rows<T>),
    (weight, bias): (&[T], &[T]),
    statistics: [Option<Rows<f64>>; 2],
) {
    let normalise = entry::<ForwardLines<T, CENTRE>>(level());
    parallel_for(rows.div_ceil(LANES), (TASK / (LANES * n)).max(1), &|range| {
        let (lines, scratch) = (Scratch::<Line<T>>::new(n), Scratch::<T>::new(LANES * n));
        for first in range.map(|i| i * LANES) {
            let count = LANES.min(rows - first);
            // SAFETY: `count` rows of `n` elements; the scratch memory holds as many.
            unsafe {
                let read = if in_order { Rows::read_in_order } else { Rows::read };
                turn_in(read(&x, first * n, count * n, scratch.get()), lines.get(), n, count);
                let found = normalise((lines.get(), n, weight.as_ptr(), bias.as_ptr(), eps));
                let to = if in_order { scratch.get() } else { out.target(first * n, scratch.get()) };
                turn(lines.get().cast(), LANES, to, n, (n, count));
                let write = if in_order { Rows::write_past } else { Rows::written };
                write(&out, first * n, count * n, to);
                for (operand, of) in statistics.iter().zip(&found) {
                    operand.inspect(|o| o.write_strided(first, 1, count, of.as_ptr()));
                }
            }
        }
        if in_order {
            stream::finish();
        }
    });
}

/// The gradients of [`LANES`] rows in columns: the input's take the place of the output's.
struct BackwardLines<T, const CENTRE: bool>(PhantomData<T>);
impl<T: Float, const CENTRE: bool> Kernel for BackwardLines<T, CENTRE> {
    /// Gradients and inputs, how many lines, weights, means and reciprocal deviations, and lines that the parameters'
    /// gradients are added to: the weight's and the bias's.
    type Args = (*mut Line<T>, *const Line<T>, usize, *const T, [Line<T>; 2], Option<[*mut Line<T>; 2]>);
    type Output = ();
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // As above.
    unsafe fn run<I: Isa>((grads, inputs, n, weight, [mean, rstd], parameters): Self::Args) {
        let (mean, rstd) = (aligned(mean), aligned(rstd));
        if let Some([by_weight, by_bias]) = parameters {
            for d in 0..n {
                // SAFETY: the caller's lines, of which none overlap.
                unsafe {
                    let (grad, x, dw, db) =
                        (&*grads.add(d), &*inputs.add(d), &mut *by_weight.add(d), &mut *by_bias.add(d));
                    for l in 0..LANES {
                        dw[l] = grad[l].mul_add::<I>((x[l] - mean[l]) * rstd[l], dw[l]);
                        db[l] += grad[l];
                    }
                }
            }
        }
        // SAFETY: `d < n` and `l < LANES`, of the caller's lines and weights.
        let at = |d: usize, l: usize| unsafe {
            let normal = ((*inputs.add(d))[l] - mean[l]) * rstd[l];
            ((*grads.add(d))[l] * *weight.add(d), normal)
        };
        let [sum, dot] = sums_of_lines(n, |d, l| {
            let (g, normal) = at(d, l);
            [g, g * normal]
        });
        let share = 1.0 / n as f64;
        let (mut c, mut e) = ([<T as Number>::ZERO; LANES], [<T as Number>::ZERO; LANES]);
        for l in 0..LANES {
            c[l] = T::from_f64(if CENTRE { sum[l] * share } else { 0.0 });
            e[l] = T::from_f64(dot[l] * share);
        }
        for d in 0..n {
            let mut results = [<T as Number>::ZERO; LANES];
            for l in 0..LANES {
                let (g, normal) = at(d, l);
                results[l] = (g - c[l] - normal * e[l]) * rstd[l];
            }
            // SAFETY: as above.
            unsafe { *grads.add(d) = results };
        }
    }
}

/// Sums of lines of a piece's rows, to a vector of as many sums.
struct AcrossLines<T>(PhantomData<T>);
impl<T: Float> Kernel for AcrossLines<T> {
    type Args = (*const Line<T>, *mut T, usize);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((lines, sums, n): Self::Args) {
        for d in 0..n {
            // SAFETY: the caller's lines and sums.
            unsafe { *sums.add(d) = together::<I, T, LANES, false>(*lines.add(d)) };
        }
    }
}

/// The gradients, as [`super::layer_norm_backward`] has them; those of parameters go to `partials`, two vectors for each
/// piece of [`PIECE_ROWS`] rows.
///
/// # Safety
/// The rows must be valid for all elements, the partial sums for the vectors of all pieces if there are any.
pub(super) unsafe fn backward<T: Float, const CENTRE: bool>(
    (rows, n): (usize, usize),
    Inputs { grad, x, weight, mean, rstd }: Inputs<'_, T>,
    input: Option<Rows<T>>,
    partials: Option<Shared<T>>,
) {
    const { assert!(PIECE_ROWS.is_multiple_of(LANES)) };
    let (lines, across) = (entry::<BackwardLines<T, CENTRE>>(level()), entry::<AcrossLines<T>>(level()));
    parallel_for(rows.div_ceil(PIECE_ROWS), (TASK / (PIECE_ROWS * n)).max(1), &|range| {
        let (columns, scratch) = (Scratch::<Line<T>>::new(4 * n), Scratch::<T>::new(LANES * n));
        let [grads, inputs, by_weight, by_bias] = std::array::from_fn(|i| columns.get().wrapping_add(i * n));
        for piece in range {
            let start = piece * PIECE_ROWS;
            // SAFETY: the scratch memory's lines.
            unsafe { std::slice::from_raw_parts_mut(by_weight, 2 * n).fill([<T as Number>::ZERO; LANES]) };
            for first in (start..rows.min(start + PIECE_ROWS)).step_by(LANES) {
                let count = LANES.min(rows - first);
                let mut statistics = [[<T as Number>::ZERO; LANES]; 2];
                statistics[0][..count].copy_from_slice(&mean[first..first + count]);
                statistics[1][..count].copy_from_slice(&rstd[first..first + count]);
                // SAFETY: `count` rows of `n` elements; the scratch memory holds as many.
                unsafe {
                    turn_in(grad.read(first * n, count * n, scratch.get()), grads, n, count);
                    turn_in(x.read(first * n, count * n, scratch.get()), inputs, n, count);
                    let parameters = partials.map(|_| [by_weight, by_bias]);
                    lines((grads, inputs, n, weight.as_ptr(), statistics, parameters));
                    if let Some(out) = &input {
                        let to = out.target(first * n, scratch.get());
                        turn(grads.cast(), LANES, to, n, (n, count));
                        out.written(first * n, count * n, to);
                    }
                }
            }
            if let Some(partials) = partials {
                // SAFETY: each piece has its own partial sums, of both vectors, which lie end to end like the lines.
                unsafe { across((by_weight, partials.get().add(piece * 2 * n), 2 * n)) };
            }
        }
    });
}
