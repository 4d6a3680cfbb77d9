//! Layer norm and RMS norm: statistics of each row. RMS norm is layer norm with the mean taken for zero.

use super::results::{Joint, Past, put_results};
use super::rows::{LANES, LongDeviations, Rows, compute, compute_dtype, deviations, store, sums, values};
use super::turned;
#[cfg(target_arch = "x86_64")]
use super::{beside, overlapped, overlapped_gradient};
use crate::buffer::Scratch;
use crate::copy::{Shared, stream};
#[cfg(target_arch = "x86_64")]
use crate::math::Level;
use crate::math::{Float, Isa, Kernel, Number, entry, level, run, select};
use crate::prefetch::streams_are_asked_for;
use crate::reduce::Operand;
use flambeau_base::DType;
use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::parallel_for;
use std::marker::PhantomData;

/// Elements of work worth a parallel task.
pub(super) const TASK: usize = 1 << 15;

/// Rows whose parameter gradients are summed before the sums are added up in `f64`.
pub(super) const PIECE_ROWS: usize = 128;

/// Normalises each of `rows` rows of `n` elements to mean 0 and variance 1 (`eps` added to the variance), times
/// `weight`, plus `bias` (`n` elements each). Writes each row's mean and reciprocal standard deviation where asked.
///
/// # Safety
/// Operands must be valid for their elements; `out` may equal `x`, and nothing else may overlap.
pub unsafe fn layer_norm(
    (rows, n): (usize, usize),
    eps: f64,
    x: Operand,
    weight: Option<Operand>,
    bias: Option<Operand>,
    out: Operand,
    (mean, rstd): (Option<Operand>, Option<Operand>),
) {
    // SAFETY: the caller's contract.
    compute!(compute_dtype(&[x.dtype, out.dtype]), T => unsafe {
        forward::<T, true>((rows, n), eps, x, weight, bias, out, (mean, rstd))
    })
}

/// Divides each of `rows` rows of `n` elements by its root mean square (`eps` added to the mean), times `weight`.
/// Writes the reciprocal of the root where asked.
///
/// # Safety
/// As [`layer_norm`].
pub unsafe fn rms_norm(
    (rows, n): (usize, usize),
    eps: f64,
    x: Operand,
    weight: Option<Operand>,
    out: Operand,
    rstd: Option<Operand>,
) {
    // SAFETY: the caller's contract.
    compute!(compute_dtype(&[x.dtype, out.dtype]), T => unsafe {
        forward::<T, false>((rows, n), eps, x, weight, None, out, (None, rstd))
    })
}

/// Where gradients go; each is computed only if wanted. The parameters' gradients have `n` elements (or one per
/// channel).
#[derive(Clone, Copy, Debug, Default)]
pub struct NormGradients {
    /// Of the input.
    pub input: Option<Operand>,
    /// Of the weight.
    pub weight: Option<Operand>,
    /// Of the bias.
    pub bias: Option<Operand>,
}

/// The gradients of [`layer_norm`], from what it saved.
///
/// # Safety
/// Operands must be valid for their elements; `gradients.input` may equal `grad`, and nothing else may overlap.
pub unsafe fn layer_norm_backward(
    (rows, n): (usize, usize),
    grad: Operand,
    x: Operand,
    (mean, rstd): (Operand, Operand),
    weight: Option<Operand>,
    gradients: NormGradients,
) {
    // SAFETY: the caller's contract.
    compute!(compute_dtype(&[grad.dtype, x.dtype]), T => unsafe {
        backward::<T, true>((rows, n), grad, x, (Some(mean), rstd), weight, gradients)
    })
}

/// The gradients of [`rms_norm`], from what it saved.
///
/// # Safety
/// As [`layer_norm_backward`].
pub unsafe fn rms_norm_backward(
    (rows, n): (usize, usize),
    grad: Operand,
    x: Operand,
    rstd: Operand,
    weight: Option<Operand>,
    gradients: NormGradients,
) {
    // SAFETY: the caller's contract.
    compute!(compute_dtype(&[grad.dtype, x.dtype]), T => unsafe {
        backward::<T, false>((rows, n), grad, x, (None, rstd), weight, gradients)
    })
}

/// Mean and reciprocal standard deviation of a row (root mean square, if not `CENTRE`).
///
/// # Safety
/// `x` must be valid for `len` elements.
#[inline(always)]
pub(super) unsafe fn moments<I: Isa, T: Float, const CENTRE: bool>(x: *const T, len: usize, eps: f64) -> (f64, f64) {
    let shares = Shares::of(len);
    // SAFETY: `len` elements by the caller's contract.
    let [centre, squares, rest] = unsafe { row_sums::<I, T, CENTRE>(x, len, pilot::<I, T, CENTRE>(x, shares), shares) };
    moments_of::<CENTRE>(centre, squares, rest, shares.all, eps)
}

/// What an element is of a row, and of those whose mean is its pilot. (Divisions of doubles are a good part of a short row.)
#[derive(Clone, Copy)]
struct Shares {
    piloting: usize,
    of_piloting: f64,
    all: f64,
}

impl Shares {
    #[inline(always)]
    fn of(len: usize) -> Shares {
        // The sums of some of a shorter row's elements would take as long as those of all.
        let piloting = if len < 4 * LANES { len } else { LANES };
        Shares { piloting, of_piloting: 1.0 / piloting as f64, all: 1.0 / len as f64 }
    }
}

/// The mean of a row's first elements, which is near enough to that of all for most rows; zero if not `CENTRE`.
///
/// # Safety
/// As [`moments`].
#[inline(always)]
unsafe fn pilot<I: Isa, T: Float, const CENTRE: bool>(x: *const T, shares: Shares) -> T {
    if !CENTRE {
        return <T as Number>::ZERO;
    }
    // SAFETY: at most `len` elements.
    T::from_f64(sums::<I, T, _>(shares.piloting, |i| [unsafe { *x.add(i) }])[0] * shares.of_piloting)
}

/// Elements of a row from which on they are gone over by a loop of its own.
const LONG: usize = 2048;

/// A centre of a row, and the sums of squared differences and of differences from it, in one pass if the pilot will do
/// (Chan, Golub & LeVeque, 1983, "shifted data"), in three if it is far from the mean.
///
/// # Safety
/// As [`moments`].
#[inline(always)]
unsafe fn row_sums<I: Isa, T: Float, const CENTRE: bool>(
    x: *const T,
    len: usize,
    pilot: T,
    shares: Shares,
) -> [f64; 3] {
    // SAFETY: `i < len`.
    let at = |i: usize| unsafe { *x.add(i) };
    if !CENTRE {
        return [0.0, sums::<I, T, _>(len, |i| [at(i) * at(i)])[0], 0.0];
    }
    let mut centre = pilot;
    let mut is_mean = shares.piloting == len;
    loop {
        let [squares, rest] = if const { !I::COMPACT } && len >= LONG {
            // SAFETY: the caller's elements; the machine has its level.
            unsafe { run::<LongDeviations<T>>((x, len, centre)) }
        } else {
            deviations::<I, T>(len, centre, at)
        };
        // What the mean's distance takes from the squares leaves at least half of them, which costs a bit at most.
        if is_mean || rest.is_finite() && 2.0 * rest * rest * shares.all <= squares {
            return [centre.to_f64(), squares, rest];
        }
        centre = T::from_f64(sums::<I, T, _>(len, |i| [at(i)])[0] * shares.all);
        is_mean = true;
    }
}

/// Mean and reciprocal standard deviation, from the sums of squared differences and of differences from a centre: the mean
/// as it was summed, and rounded.
#[inline(always)]
pub(super) fn moments_of<const CENTRE: bool>(centre: f64, squares: f64, rest: f64, share: f64, eps: f64) -> (f64, f64) {
    // What rounding left of the mean corrects it and the squares (Chan, Golub & LeVeque, 1983, "corrected two-pass").
    let corrects = CENTRE && rest.is_finite();
    let mean = select(corrects, centre + rest * share, centre);
    let squares = select(corrects, squares - rest * rest * share, squares);
    (mean, 1.0 / (squares * share + eps).sqrt())
}

/// Rows that are normalised together: what is made of the sums of one would wait for the one before.
const TOGETHER: usize = 16;

/// Whether of rows of `n` elements the next is gone over before the results of one are written. (Rows of more than 4 KiB that
/// come from memory took up to 1.7 times as long so.)
const fn overlaps<T: Float>(n: usize) -> bool {
    matches!(T::DTYPE, DType::F32) && n >= 512 && n < 1024
}

/// Elements of rows that are normalised together: they stay in L1.
const TOGETHER_ELEMENTS: usize = 2048;

/// The same where memory is waited for: the less is read and written at once, the more is computed meanwhile (2000 elements
/// take 1.25 of the time of 1000).
const STREAMED_ELEMENTS: usize = 1024;

/// Some rows, at most [`TOGETHER`].
struct ForwardRows<T, const CENTRE: bool>(PhantomData<T>);
impl<T: Float, const CENTRE: bool> Kernel for ForwardRows<T, CENTRE> {
    /// Input, output, how many rows and their length, weight, bias, eps, and what the rows before left, if results go past the
    /// caches.
    type Args = (*const T, *mut T, (usize, usize), Option<*const T>, Option<*const T>, f64, Option<*mut Joint<T>>);
    /// Means and reciprocal deviations.
    type Output = [[f64; TOGETHER]; 2];
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // An index keeps the loops' bounds constant.
    unsafe fn run<I: Isa>((x, out, (rows, n), weight, bias, eps, joint): Self::Args) -> [[f64; TOGETHER]; 2] {
        let shares = Shares::of(n);
        let (mut pilots, mut sums) = ([<T as Number>::ZERO; TOGETHER], [[0.0; 3]; TOGETHER]);
        let (mut mean, mut rstd) = ([0.0; TOGETHER], [0.0; TOGETHER]);
        // What is waited for, sums across lanes and what is made of them, is computed beside what is done to other rows: of most
        // all that are here, of some the next, and the pilot of the one after it.
        let (at_once, ahead) = if overlaps::<T>(n) { (1, 1) } else { (rows, 0) };
        // What is read next is as far on from a row whose results are written as are those that were read with it or since.
        let next = if streams_are_asked_for() { Some(n * if ahead == 0 { rows } else { 1 + ahead }) } else { None };
        let (mut piloted, mut known) = (0, 0);
        for row in 0..rows {
            // SAFETY: `n` elements of each of the caller's rows, and as many results.
            unsafe {
                while known < rows.min(row + 1 + ahead) {
                    let end = rows.min(known + at_once);
                    while piloted < rows.min(end + ahead) {
                        pilots[piloted] = pilot::<I, T, CENTRE>(x.add(piloted * n), shares);
                        piloted += 1;
                    }
                    for row in known..end {
                        sums[row] = row_sums::<I, T, CENTRE>(x.add(row * n), n, pilots[row], shares);
                    }
                    for row in known..end {
                        let [centre, squares, rest] = sums[row];
                        (mean[row], rstd[row]) = moments_of::<CENTRE>(centre, squares, rest, shares.all, eps);
                    }
                    known = end;
                }
                let found = (T::from_f64(mean[row]), T::from_f64(rstd[row]));
                let x = x.add(row * n);
                let ask = next.map_or(std::ptr::null(), |next| x.wrapping_add(next));
                let past = Past::if_joined(joint, n, ask);
                put_row::<I, T>(x, out.add(row * n), n, (weight, bias), found, past);
            }
        }
        [mean, rstd]
    }
}

/// Writes a row's results.
///
/// # Safety
/// As [`ForwardRows`], of one row.
#[inline(always)]
unsafe fn put_row<I: Isa, T: Float>(
    x: *const T,
    out: *mut T,
    n: usize,
    (weight, bias): (Option<*const T>, Option<*const T>),
    (m, r): (T, T),
    past: Option<Past<T>>,
) {
    // SAFETY: `n` elements each by the caller's contract.
    unsafe {
        match (weight, bias) {
            (Some(w), Some(b)) => {
                put_results::<I, T>(out, n, past, |i| ((*x.add(i) - m) * r).mul_add::<I>(*w.add(i), *b.add(i)))
            }
            (Some(w), None) => {
                put_results::<I, T>(out, n, past, |i| (*x.add(i) - m) * r * *w.add(i));
            }
            (None, Some(b)) => {
                put_results::<I, T>(out, n, past, |i| (*x.add(i) - m) * r + *b.add(i));
            }
            (None, None) => put_results::<I, T>(out, n, past, |i| (*x.add(i) - m) * r),
        }
    }
}

unsafe fn forward<T: Float, const CENTRE: bool>(
    (rows, n): (usize, usize),
    eps: f64,
    x: Operand,
    weight: Option<Operand>,
    bias: Option<Operand>,
    out: Operand,
    (mean, rstd): (Option<Operand>, Option<Operand>),
) {
    let statistics = [mean, rstd].map(|operand| operand.map(Rows::<f64>::new));
    let in_place = x.data == out.data;
    #[cfg(target_arch = "x86_64")]
    let operands = [x, out];
    let (x, out) = (Rows::<T>::new(x), Rows::<T>::new(out));
    let streams = !in_place && out.is_direct() && stream::streams(2 * rows * n * size_of::<T>());
    // (Whole vectors of a row past the caches are faster than to turn them.)
    let whole = streams && size_of::<T>() == 4 && n == LANES;
    // To add negative zero leaves every number as it is.
    // SAFETY: the caller's contract.
    let parameters = || unsafe { (values::<T>(weight, n, T::ONE), values::<T>(bias, n, T::from_f64(-0.0))) };
    if turned::is_short::<CENTRE>(rows, n) && !whole {
        let (weight, bias) = parameters();
        let in_order = streams && n * size_of::<T>() > 64;
        // SAFETY: the caller's contract.
        return unsafe {
            turned::forward::<T, CENTRE>((rows, n), eps, in_order, (x, out), (&weight, &bias), statistics)
        };
    }
    #[cfg(target_arch = "x86_64")]
    if matches!(T::DTYPE, DType::F32)
        && beside::suits(n, operands)
        && level() == Level::Avx512
        && FastPath::NormOverlapped.is_on()
    {
        let (weight, bias) = parameters();
        let parameters = [weight.as_ptr().cast(), bias.as_ptr().cast()];
        // SAFETY: the caller's contract; the machine has AVX-512.
        return unsafe { overlapped::run::<CENTRE>((rows, n), eps, operands, parameters, &statistics) };
    }
    let direct = x.is_direct() && out.is_direct();
    let normalise = entry::<ForwardRows<T, CENTRE>>(level());
    // SAFETY: the caller's contract.
    let (w, b) = unsafe {
        (weight.map(|w| values::<T>(Some(w), n, T::ONE)), bias.map(|b| values::<T>(Some(b), n, <T as Number>::ZERO)))
    };
    let together = match (direct && overlaps::<T>(n), streams) {
        (true, _) => TOGETHER,
        (false, true) => (STREAMED_ELEMENTS / n.max(1)).clamp(1, TOGETHER),
        (false, false) => (TOGETHER_ELEMENTS / n.max(1)).clamp(1, TOGETHER),
    };
    parallel_for(rows, (TASK / n.max(1)).max(1), &|range| {
        let scratch = Scratch::<T>::new(if direct { 0 } else { 2 * together * n });
        let (w, b) = (w.as_ref().map(|w| w.as_ptr()), b.as_ref().map(|b| b.as_ptr()));
        let mut joint = Joint::new();
        for first in range.clone().step_by(together) {
            let count = together.min(range.end - first);
            // SAFETY: `count` rows of `n` elements; the scratch memory holds twice as many; one element of statistics per row.
            unsafe {
                let from = x.read(first * n, count * n, scratch.get());
                let to = out.target(first * n, scratch.get().add(together * n));
                let joint = streams.then_some(&raw mut joint);
                let found = normalise((from, to, (count, n), w, b, eps, joint));
                out.written(first * n, count * n, to);
                for (operand, of) in statistics.iter().zip(&found) {
                    operand.inspect(|o| o.write_strided(first, 1, count, of.as_ptr()));
                }
            }
        }
        if streams {
            // SAFETY: the end of the last row.
            unsafe { joint.finish(out.target(range.end * n, std::ptr::null_mut())) };
            stream::finish();
        }
    });
}

/// What gradients are made of.
pub(super) struct Inputs<'a, T> {
    pub grad: Rows<T>,
    pub x: Rows<T>,
    pub weight: &'a [T],
    pub mean: &'a [T],
    pub rstd: &'a [T],
}

struct BackwardRow<T, const CENTRE: bool>(PhantomData<T>);
impl<T: Float, const CENTRE: bool> Kernel for BackwardRow<T, CENTRE> {
    /// Gradient, input, output, weight, length, mean, reciprocal deviation, and what the row before left, if results go
    /// past the caches.
    type Args = (*const T, *const T, *mut T, *const T, usize, [T; 2], Option<*mut Joint<T>>);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((grad, x, out, weight, n, [mean, rstd], joint): Self::Args) {
        // SAFETY: `n` elements each by the caller's contract, in all that follows.
        unsafe {
            let [sum, dot] = sums::<I, T, _>(n, |i| {
                let g = *grad.add(i) * *weight.add(i);
                [g, g * ((*x.add(i) - mean) * rstd)]
            });
            let c = T::from_f64(if CENTRE { sum / n as f64 } else { 0.0 });
            let d = T::from_f64(dot / n as f64);
            let past = Past::if_joined(joint, n, std::ptr::null());
            put_results::<I, T>(out, n, past, |i| {
                let normal = (*x.add(i) - mean) * rstd;
                let g = *grad.add(i) * *weight.add(i);
                (g - c - normal * d) * rstd
            });
        }
    }
}

/// Adds a row's share of the parameters' gradients.
struct ParameterRow<T>(PhantomData<T>);
impl<T: Float> Kernel for ParameterRow<T> {
    /// Gradient, input, weight's and bias's gradient, length, mean, reciprocal deviation.
    type Args = (*const T, *const T, *mut T, *mut T, usize, T, T);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((grad, x, weight, bias, n, mean, rstd): Self::Args) {
        // SAFETY: `n` elements each, none overlapping, by the caller's contract.
        let (weight, bias) =
            unsafe { (std::slice::from_raw_parts_mut(weight, n), std::slice::from_raw_parts_mut(bias, n)) };
        for i in 0..n {
            // SAFETY: as above.
            let (g, x) = unsafe { (*grad.add(i), *x.add(i)) };
            weight[i] = g.mul_add::<I>((x - mean) * rstd, weight[i]);
            bias[i] += g;
        }
    }
}

unsafe fn backward<T: Float, const CENTRE: bool>(
    (rows, n): (usize, usize),
    grad: Operand,
    x: Operand,
    (mean, rstd): (Option<Operand>, Operand),
    weight: Option<Operand>,
    gradients: NormGradients,
) {
    // SAFETY: the caller's contract.
    let (weight, mean, rstd) = unsafe {
        (
            values::<T>(weight, n, T::ONE),
            values::<T>(mean, rows, <T as Number>::ZERO),
            values::<T>(Some(rstd), rows, T::ONE),
        )
    };
    let in_place = gradients.input.is_some_and(|input| input.data == grad.data || input.data == x.data);
    let operands = gradients.input.map(|input| [grad, x, input]);
    let (grad, x) = (Rows::<T>::new(grad), Rows::<T>::new(x));
    let input = gradients.input.map(Rows::<T>::new);
    let wants_parameters = gradients.weight.is_some() || gradients.bias.is_some();
    let short = turned::is_short_backward(rows, n);
    let piece = if wants_parameters || short { PIECE_ROWS } else { (TASK / n.max(1)).max(1) };
    let pieces = rows.div_ceil(piece);
    // Per piece: the weight's gradient, then the bias's.
    let mut partials = vec![<T as Number>::ZERO; if wants_parameters { pieces * 2 * n } else { 0 }];
    let shared = Shared(partials.as_mut_ptr());
    let inputs = Inputs { grad, x, weight: &weight, mean: &mean, rstd: &rstd };
    let shared = wants_parameters.then_some(shared);
    // SAFETY: the caller's contract; the partial sums have room for all pieces.
    unsafe {
        if short {
            turned::backward::<T, CENTRE>((rows, n), inputs, input, shared);
        } else if !backward_overlapped::<T, CENTRE>((rows, n), piece, operands, &inputs, shared) {
            backward_rows::<T, CENTRE>((rows, n), piece, inputs, input, in_place, shared);
        }
    }
    for (k, operand) in [gradients.weight, gradients.bias].into_iter().enumerate() {
        if let Some(operand) = operand {
            // SAFETY: the caller's contract.
            unsafe { store(operand, 0, &super::add_pieces(&partials, pieces, n, 2, k)) };
        }
    }
}

/// [`backward_rows`] by [`overlapped_gradient`], where it suits. Says whether it did.
///
/// # Safety
/// As there, of these operands.
#[cfg(target_arch = "x86_64")]
unsafe fn backward_overlapped<T: Float, const CENTRE: bool>(
    (rows, n): (usize, usize),
    piece: usize,
    operands: Option<[Operand; 3]>,
    inputs: &Inputs<'_, T>,
    partials: Option<Shared<T>>,
) -> bool {
    let suits = |operands: &[Operand; 3]| {
        matches!(T::DTYPE, DType::F32)
            && beside::suits(n, *operands)
            && level() == Level::Avx512
            && FastPath::NormOverlapped.is_on()
    };
    let Some(operands) = operands.filter(suits) else { return false };
    let rows_of = [inputs.weight, inputs.mean, inputs.rstd].map(|of| of.as_ptr().cast());
    let partials = partials.map(|partials| Shared(partials.get().cast()));
    // SAFETY: the caller's contract; the machine has AVX-512.
    unsafe { overlapped_gradient::run::<CENTRE>((rows, n), piece, operands, rows_of, partials) };
    true
}

/// There is no such way here.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn backward_overlapped<T: Float, const CENTRE: bool>(
    _: (usize, usize),
    _: usize,
    _: Option<[Operand; 3]>,
    _: &Inputs<'_, T>,
    _: Option<Shared<T>>,
) -> bool {
    false
}

/// The gradients of pieces of so many rows; those of parameters go to `partials`, two vectors for each piece.
///
/// # Safety
/// The rows must be valid for all elements, the partial sums for the vectors of all pieces if there are any.
unsafe fn backward_rows<T: Float, const CENTRE: bool>(
    (rows, n): (usize, usize),
    piece: usize,
    Inputs { grad, x, weight, mean, rstd }: Inputs<'_, T>,
    input: Option<Rows<T>>,
    in_place: bool,
    partials: Option<Shared<T>>,
) {
    let direct = input.as_ref().is_some_and(Rows::is_direct);
    let streams = direct && !in_place && stream::streams(3 * rows * n * size_of::<T>());
    let (row, parameter_row) = (entry::<BackwardRow<T, CENTRE>>(level()), entry::<ParameterRow<T>>(level()));
    parallel_for(rows.div_ceil(piece), 1, &|range| {
        let scratch = Scratch::<T>::new(3 * n);
        let mut joint = Joint::new();
        for p in range.clone() {
            for r in p * piece..((p + 1) * piece).min(rows) {
                // SAFETY: rows of `n` elements; the scratch memory holds three; each piece has its own partial sums.
                unsafe {
                    let g = grad.read(r * n, n, scratch.get());
                    let x = x.read(r * n, n, scratch.get().add(n));
                    if let Some(partials) = partials {
                        let sums = partials.get().add(p * 2 * n);
                        parameter_row((g, x, sums, sums.add(n), n, mean[r], rstd[r]));
                    }
                    if let Some(out) = &input {
                        let to = out.target(r * n, scratch.get().add(2 * n));
                        row((g, x, to, weight.as_ptr(), n, [mean[r], rstd[r]], streams.then_some(&raw mut joint)));
                        out.written(r * n, n, to);
                    }
                }
            }
        }
        if let (true, Some(out)) = (streams, &input) {
            // SAFETY: the end of the last row.
            unsafe { joint.finish(out.target(rows.min(range.end * piece) * n, std::ptr::null_mut())) };
            stream::finish();
        }
    });
}
