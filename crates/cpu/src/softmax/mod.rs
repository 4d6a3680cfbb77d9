//! Softmax and log-softmax with their gradients, over the middle of three contiguous dimensions.
//!
//! A row is read from memory once: its maximum, its exponentials and their sum come from L1 or L2. Where the dimension
//! is innermost, loops run along the row; else along neighbouring rows, side by side. Rows too long for a cache are cut
//! into pieces, in parallel, and neighbours too long for one are gone through twice (`tall.rs`). Halves are computed in
//! `f32`.

mod columns;
#[cfg(target_arch = "x86_64")]
mod overlapped;
#[cfg(target_arch = "x86_64")]
mod overlapped_gradient;
mod short;
mod tall;
#[cfg(test)]
mod tests;
mod turned;

use crate::buffer::{Scratch, aligned};
use crate::copy::stream;
#[cfg(target_arch = "x86_64")]
use crate::math::Level;
use crate::math::{Float, Isa, Kernel, Number, entry, level, select};
#[cfg(target_arch = "x86_64")]
use crate::norm::beside;
use crate::norm::results::{Past, put_results};
use crate::norm::rows::{BLOCK, LANES, LINE_BYTES, Rows, compute, compute_dtype, largest, ones_from, total};
use crate::prefetch::prefetch_near;
use crate::reduce::Operand;
use columns::{Columns, Lines};
use flambeau_base::fast_paths::FastPath;
use flambeau_base::parallel::{in_parallel_region, num_threads, parallel_for};
use flambeau_base::{DType, Element};
use half::{bf16, f16};
use short::{SHORT, ShortRows};
use std::marker::PhantomData;
pub(crate) use tall::{LINES, relative};

/// The sizes before, of, and after the dimension.
#[derive(Clone, Copy, Debug)]
pub struct SoftmaxShape {
    /// The product of the sizes before.
    pub outer: usize,
    /// The size of the dimension.
    pub dim: usize,
    /// The product of the sizes after.
    pub inner: usize,
}

/// Elements of work worth a parallel task.
const TASK: usize = 1 << 14;

/// Rows longer than this are cut into pieces of this length.
const LONG: usize = 1 << 16;

/// The most rows side by side.
const TILE: usize = 256;

/// Fewer neighbouring rows than this are not worth vectorising across.
const NARROW: usize = 16;

/// Tiles of columns for each thread, so that all are done at about the same time.
const PIECES_OF_THREAD: usize = 4;

/// Elements of a block of short rows: they stay in L1.
const SHORT_BLOCK: usize = 2048;

/// Elements of a tile of rows side by side: 256 KiB of `f32`, for L2.
const TILE_ELEMENTS: usize = 1 << 16;

/// Lines of columns whose results had better go past the caches, if those of all do not stay there: so many pages are more than
/// are stored to side by side (64 lines: half the time; 16: a fourth more).
const MANY: usize = 48;

/// Elements of a tile where results go past the caches: parts of cache lines at either end are more of a narrow tile.
const PAST_ELEMENTS: usize = 1 << 17;

/// Softmax (`log`: its logarithm) of `x`, any real dtype, to `out`, any float dtype.
///
/// # Safety
/// Both must be valid for all elements. They may be equal, but not otherwise overlap.
pub unsafe fn softmax(log: bool, shape: SoftmaxShape, x: Operand, out: Operand) {
    compute!(compute_dtype(&[x.dtype, out.dtype]), T => {
        // SAFETY: the caller's contract; the second operand stands in for none.
        unsafe {
            if log {
                run::<T, LogSoftmax>(shape, x, x, out)
            } else {
                run::<T, Softmax>(shape, x, x, out)
            }
        }
    })
}

/// The logarithm of [`softmax`] as PyTorch has it along the last dimension of halves: their sum and its logarithm are
/// rounded to halves.
///
/// # Safety
/// As [`softmax`].
pub unsafe fn log_softmax_of_halves(shape: SoftmaxShape, x: Operand, out: Operand) {
    // SAFETY: the caller's contract.
    unsafe {
        match x.dtype {
            DType::F16 => run::<f32, LogSoftmaxOf<f16>>(shape, x, x, out),
            DType::BF16 => run::<f32, LogSoftmaxOf<bf16>>(shape, x, x, out),
            _ => softmax(true, shape, x, out),
        }
    }
}

/// The gradient of [`softmax`]'s input from its output and the output's gradient.
///
/// # Safety
/// As [`softmax`], with two inputs.
pub unsafe fn softmax_backward(log: bool, shape: SoftmaxShape, grad: Operand, output: Operand, grad_input: Operand) {
    compute!(compute_dtype(&[grad.dtype, output.dtype, grad_input.dtype]), T => {
        // SAFETY: the caller's contract.
        unsafe {
            if log {
                run::<T, LogSoftmaxBackward>(shape, grad, output, grad_input)
            } else {
                run::<T, SoftmaxBackward>(shape, grad, output, grad_input)
            }
        }
    })
}

/// What a row is reduced to: a maximum and a sum, of which gradients use the sum.
#[derive(Clone, Copy)]
struct Summary {
    max: f64,
    sum: f64,
}

/// One of the four functions, of one or two inputs.
trait RowFunction: Copy + 'static {
    /// Whether terms of the sum are exponentials of elements less their maximum.
    const MAX: bool;
    /// The term of the sum, if it is another.
    #[inline(always)]
    fn term<T: Float>(a: T, _: T) -> T {
        a
    }
    /// The result, given the maximum and [`RowFunction::scale`] of the sum.
    fn apply<I: Isa, T: Float>(a: T, b: T, max: T, scale: T) -> T;
    /// What the results need of the sum.
    fn scale(sum: f64) -> f64;
    /// [`RowFunction::scale`] in the dtype of the sum, for short rows, of which there are many.
    #[inline(always)]
    fn scale_short<I: Isa, T: Float>(sum: T) -> T {
        T::from_f64(Self::scale(sum.to_f64()))
    }
    /// [`RowFunction::scale`] in the dtype of the results, for rows side by side.
    #[inline(always)]
    fn scale_side<I: Isa, T: Float>(sum: f64) -> T {
        T::from_f64(Self::scale(sum))
    }
    /// Whether the result is the term times the scale.
    const SCALED_TERM: bool = false;
    /// Whether it is the gradient of the logarithm.
    const OF_LOGARITHM: bool = false;
}

#[derive(Clone, Copy)]
struct Softmax;
impl RowFunction for Softmax {
    const MAX: bool = true;
    const SCALED_TERM: bool = true;
    #[inline(always)]
    fn apply<I: Isa, T: Float>(a: T, _: T, max: T, scale: T) -> T {
        (a - max).exp_not_positive::<I>() * scale
    }
    #[inline(always)]
    fn scale(sum: f64) -> f64 {
        1.0 / sum
    }
}

#[derive(Clone, Copy)]
struct LogSoftmax;
impl RowFunction for LogSoftmax {
    const MAX: bool = true;
    #[inline(always)]
    fn apply<I: Isa, T: Float>(a: T, _: T, max: T, scale: T) -> T {
        (a - max) - scale
    }
    #[inline(always)]
    fn scale(sum: f64) -> f64 {
        sum.ln()
    }
    #[inline(always)]
    fn scale_short<I: Isa, T: Float>(sum: T) -> T {
        sum.log::<I>()
    }
    #[inline(always)]
    fn scale_side<I: Isa, T: Float>(sum: f64) -> T {
        // What rounding to `T` loses counts where the sum is near 1, and its logarithm near 0.
        let rounded = T::from_f64(sum);
        rounded.log::<I>() + T::from_f64(sum - rounded.to_f64()) / rounded
    }
}

/// With the sum and its logarithm rounded to `H`.
#[derive(Clone, Copy)]
struct LogSoftmaxOf<H>(PhantomData<H>);
impl<H: Element> RowFunction for LogSoftmaxOf<H> {
    const MAX: bool = true;
    #[inline(always)]
    fn apply<I: Isa, T: Float>(a: T, b: T, max: T, scale: T) -> T {
        LogSoftmax::apply::<I, T>(a, b, max, scale)
    }
    #[inline(always)]
    fn scale(sum: f64) -> f64 {
        H::from_f64(H::from_f64(sum).to_f64().ln()).to_f64()
    }
    #[inline(always)]
    fn scale_short<I: Isa, T: Float>(sum: T) -> T {
        let rounded = T::from_f64(H::from_f64(sum.to_f64()).to_f64());
        T::from_f64(H::from_f64(rounded.log::<I>().to_f64()).to_f64())
    }
}

#[derive(Clone, Copy)]
struct SoftmaxBackward;
impl RowFunction for SoftmaxBackward {
    const MAX: bool = false;
    #[inline(always)]
    fn term<T: Float>(grad: T, y: T) -> T {
        grad * y
    }
    #[inline(always)]
    fn apply<I: Isa, T: Float>(grad: T, y: T, _: T, scale: T) -> T {
        (grad - scale) * y
    }
    #[inline(always)]
    fn scale(sum: f64) -> f64 {
        sum
    }
}

#[derive(Clone, Copy)]
struct LogSoftmaxBackward;
impl RowFunction for LogSoftmaxBackward {
    const MAX: bool = false;
    const OF_LOGARITHM: bool = true;
    #[inline(always)]
    fn apply<I: Isa, T: Float>(grad: T, y: T, _: T, scale: T) -> T {
        grad - y.exp::<I>() * scale
    }
    #[inline(always)]
    fn scale(sum: f64) -> f64 {
        sum
    }
}

/// The sum of a piece's terms, which are left in `out` if they are to be kept; whether the next row's are, right behind them.
///
/// # Safety
/// `a`, `b` and, if the terms are kept, `out` must be valid for `n` elements.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loop countable, and its bounds constant.
unsafe fn terms<I: Isa, T: Float, F: RowFunction, const KEEP: bool>(
    a: *const T,
    b: *const T,
    out: *mut T,
    n: usize,
    max: T,
    follows: bool,
) -> f64 {
    let rest = n % LANES;
    let full = n - rest;
    let mut sum = 0.0;
    // SAFETY: `LANES` elements of each from where they are read, or as many of a copy that is filled up with what gives
    // zeros; `out` may be an input, so the end is read before anything is written.
    unsafe {
        let mut last = aligned([<T as Number>::ZERO; LANES]);
        let mut counted = aligned([<T as Number>::ZERO; LANES]);
        if rest > 0 {
            let (mut x, mut y) = (const { [T::NEG_INFINITY; LANES] }, [<T as Number>::ZERO; LANES]);
            let (mut from, mut from_b) = (a.wrapping_add(n).wrapping_sub(LANES), b.wrapping_add(n).wrapping_sub(LANES));
            if full == 0 {
                if !F::MAX {
                    x = [<T as Number>::ZERO; LANES];
                }
                std::ptr::copy_nonoverlapping(a, x.as_mut_ptr(), n);
                std::ptr::copy_nonoverlapping(b, y.as_mut_ptr(), n);
                (from, from_b) = (x.as_ptr(), y.as_ptr());
            }
            *last = terms_of::<I, T, F, LANES>(&*from.cast(), &*from_b.cast(), |_| max);
            // Those that are not part of the rest are counted below.
            let counts = ones_from::<LANES>(if full == 0 { 0 } else { LANES - rest });
            for l in 0..LANES {
                counted[l] = select(counts[l] != 0, last[l], <T as Number>::ZERO);
            }
            if full == 0 {
                sum = total::<I, T>(&counted);
            }
        }
        let mut at = 0;
        while at < full {
            let end = full.min(at + BLOCK);
            let mut lanes = aligned([<T as Number>::ZERO; LANES]);
            while at < end {
                // The next row, which usually follows: its first pass would wait for memory, while this one computes. (What is
                // kept is stored next: it is wanted in the first-level cache.) Of gradients, this is the first pass, and the
                // hints delay it.
                let ahead = if F::MAX { LANES } else { 0 };
                for line in (0..ahead).step_by(64 / size_of::<T>()) {
                    prefetch_near(a.wrapping_add(n + at + line).cast());
                    if KEEP && follows {
                        prefetch_near(out.wrapping_add(n + at + line).cast_const().cast());
                    }
                }
                let (a, b) = (a.add(at).cast::<[T; LANES]>(), b.add(at).cast::<[T; LANES]>());
                let block = aligned(terms_of::<I, T, F, LANES>(&*a, &*b, |_| max));
                for l in 0..LANES {
                    lanes[l] += block[l];
                }
                if KEEP {
                    out.add(at).cast::<[T; LANES]>().write_unaligned(*block);
                }
                at += LANES;
            }
            if at == full && rest > 0 {
                for l in 0..LANES {
                    lanes[l] += counted[l];
                }
            }
            sum += total::<I, T>(&lanes);
        }
        if KEEP && rest > 0 {
            let (to, count) = if full == 0 { (out, n) } else { (out.add(n - LANES), LANES) };
            std::ptr::copy_nonoverlapping(last.as_ptr(), to, count);
        }
    }
    sum
}

/// The terms of `W` elements, given the maximum that belongs to each.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loops' bounds constant.
fn terms_of<I: Isa, T: Float, F: RowFunction, const W: usize>(
    a: &[T; W],
    b: &[T; W],
    max: impl Fn(usize) -> T,
) -> [T; W] {
    let mut terms = [<T as Number>::ZERO; W];
    if !F::MAX {
        for l in 0..W {
            terms[l] = F::term(a[l], b[l]);
        }
        return terms;
    }
    for l in 0..W {
        terms[l] = a[l] - max(l);
    }
    exponentials::<I, T, W>(terms)
}

/// The exponentials of numbers that are not positive, or NaN.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // As above.
fn exponentials<I: Isa, T: Float, const W: usize>(x: [T; W]) -> [T; W] {
    if let Some(results) = T::exp_not_positive_vectors::<I, W>(x) {
        return results;
    }
    let mut rare = 0u32;
    for l in 0..W {
        rare |= !x[l].is_common_exponent() as u32;
    }
    let mut results = [<T as Number>::ZERO; W];
    if rare == 0 {
        for l in 0..W {
            results[l] = x[l].exp_common::<I>();
        }
    } else {
        for l in 0..W {
            results[l] = x[l].exp_not_positive::<I>();
        }
    }
    results
}

/// A piece of a row to its summary.
struct Summarise<T, F>(PhantomData<(T, F)>);
impl<T: Float, F: RowFunction> Kernel for Summarise<T, F> {
    type Args = (*const T, *const T, usize);
    type Output = Summary;
    #[inline(always)]
    unsafe fn run<I: Isa>((a, b, n): Self::Args) -> Summary {
        // SAFETY: `n` elements each by the caller's contract.
        let max = if F::MAX { unsafe { largest::<I, T>(a, n) } } else { <T as Number>::ZERO };
        // In a piece of negative infinities alone the terms must be zero, not NaN.
        let shift = if max == T::NEG_INFINITY { <T as Number>::ZERO } else { max };
        // SAFETY: the same elements.
        let sum = unsafe { terms::<I, T, F, false>(a, b, std::ptr::null_mut(), n, shift, false) };
        Summary { max: max.to_f64(), sum }
    }
}

/// The largest of `n` elements that is not NaN, and the sum of exponentials relative to it (to zero, where it is negative
/// infinity).
///
/// # Safety
/// `x` must be valid for them, and the machine must have `I`.
#[inline(always)]
pub(crate) unsafe fn exponentials_of_row<I: Isa, T: Float>(x: *const T, n: usize) -> (f64, f64) {
    // SAFETY: the caller's contract.
    let Summary { max, sum } = unsafe { Summarise::<T, Softmax>::run::<I>((x, x, n)) };
    (max, sum)
}

/// Adds [`LINES`] lines at most to what [`exponentials_of_row`] is of every column.
///
/// # Safety
/// As [`tall::add_lines`]; the machine must have `I`.
#[inline(always)]
pub(crate) unsafe fn add_exponentials_of_lines<I: Isa, T: Float>(
    x: *const T,
    lines: (usize, isize),
    cols: usize,
    max: *mut T,
    sums: *mut f64,
) {
    // SAFETY: the caller's contract.
    unsafe { tall::add_lines::<I, T, Softmax>(x, lines, cols, max, sums) }
}

/// A piece of a row to results, given the summary of the whole row, and whether they go past the caches.
struct Apply<T, F>(PhantomData<(T, F)>);
impl<T: Float, F: RowFunction> Kernel for Apply<T, F> {
    type Args = (*const T, *const T, *mut T, usize, Summary, bool);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((a, b, out, n, summary, streams): Self::Args) {
        let (max, scale) = (T::from_f64(summary.max), T::from_f64(F::scale(summary.sum)));
        // SAFETY: `n` elements each by the caller's contract.
        unsafe {
            put_results::<I, T>(out, n, Past::if_streams(streams, n), |i| {
                F::apply::<I, T>(*a.add(i), *b.add(i), max, scale)
            })
        };
    }
}

/// A whole row, and room for one if results go past the caches.
struct Row<T, F>(PhantomData<(T, F)>);
impl<T: Float, F: RowFunction> Kernel for Row<T, F> {
    type Args = (*const T, *const T, *mut T, usize, Option<*mut T>);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((a, b, out, n, room): Self::Args) {
        // SAFETY: `n` elements each by the caller's contract, in all that follows.
        unsafe {
            if !F::SCALED_TERM {
                let summary = Summarise::<T, F>::run::<I>((a, b, n));
                return Apply::<T, F>::run::<I>((a, b, out, n, summary, room.is_some()));
            }
            // The terms wait for their sum: in the output, or in a cache.
            let max = if F::MAX { largest::<I, T>(a, n) } else { <T as Number>::ZERO };
            let kept = room.unwrap_or(out);
            let sum = terms::<I, T, F, true>(a, b, kept, n, max, room.is_none());
            let scale = T::from_f64(F::scale(sum));
            if room.is_some() {
                put_results::<I, T>(out, n, Past::if_streams(true, n), |i| *kept.add(i) * scale);
            } else {
                for t in std::slice::from_raw_parts_mut(out, n) {
                    *t *= scale;
                }
            }
        }
    }
}

/// # Safety
/// As [`softmax`]; `b` may equal `a`.
unsafe fn run<T: Float, F: RowFunction>(shape: SoftmaxShape, a: Operand, b: Operand, out: Operand) {
    let SoftmaxShape { outer, dim, inner } = shape;
    if outer * dim * inner == 0 {
        return;
    }
    let one_input = std::ptr::eq(a.data, b.data);
    let in_place = out.data == a.data || out.data == b.data;
    let operands = [a, b, out];
    let (a, b, out) = (Rows::<T>::new(a), Rows::<T>::new(b), Rows::<T>::new(out));
    let count = if one_input { 2 } else { 3 };
    let streams = !in_place && out.is_direct() && stream::streams(count * outer * dim * inner * size_of::<T>());
    let read = |at: usize, n: usize, scratch: *mut T| {
        // SAFETY: `n` elements each of the caller's; `scratch` holds them twice.
        unsafe {
            let first = a.read(at, n, scratch);
            (first, if one_input { first } else { b.read(at, n, scratch.add(n)) })
        }
    };
    if inner == 1 && dim > LONG {
        let pieces = dim.div_ceil(LONG);
        let (summarise, apply) = (entry::<Summarise<T, F>>(level()), entry::<Apply<T, F>>(level()));
        let mut summaries = vec![Summary { max: 0.0, sum: 0.0 }; outer * pieces];
        let shared = crate::copy::Shared(summaries.as_mut_ptr());
        let piece = |i: usize| {
            let start = i % pieces * LONG;
            (i / pieces * dim + start, LONG.min(dim - start))
        };
        parallel_for(outer * pieces, 1, &|range| {
            let scratch = Scratch::<T>::new(2 * LONG);
            for i in range {
                let (at, n) = piece(i);
                let (a, b) = read(at, n, scratch.get());
                // SAFETY: `n` elements each; piece `i` writes summary `i`.
                unsafe { *shared.get().add(i) = summarise((a, b, n)) };
            }
        });
        let rows: Vec<Summary> = summaries.chunks(pieces).map(|pieces| merge::<F>(pieces)).collect();
        parallel_for(outer * pieces, 1, &|range| {
            let scratch = Scratch::<T>::new(3 * LONG);
            for i in range {
                let (at, n) = piece(i);
                let (a, b) = read(at, n, scratch.get());
                let to = out.target(at, scratch.get().wrapping_add(2 * LONG));
                // SAFETY: `n` elements each.
                unsafe {
                    apply((a, b, to, n, rows[i / pieces], streams));
                    out.written(at, n, to);
                }
            }
            if streams {
                stream::finish();
            }
        });
    } else if turned::is_short::<T, F>(&shape) && FastPath::SoftmaxShort.is_on() {
        // SAFETY: the caller's contract.
        unsafe { turned::run::<T, F>(shape, a, (!one_input).then_some(b), out) }
    } else if inner == 1 && dim <= SHORT && level().has_fast_paths() && FastPath::SoftmaxShort.is_on() {
        let short = match dim {
            0..=16 => entry::<ShortRows<T, F, 16>>(level()),
            // (Where terms wait for their sum, loops of 32, which are unrolled before they are vectorised, take longer than
            // those of 64.)
            17..=32 if !F::SCALED_TERM => entry::<ShortRows<T, F, 32>>(level()),
            _ => entry::<ShortRows<T, F, SHORT>>(level()),
        };
        let rows_per_block = SHORT_BLOCK / dim;
        parallel_for(outer.div_ceil(rows_per_block), TASK / SHORT_BLOCK, &|range| {
            let scratch = Scratch::<T>::new(3 * SHORT_BLOCK);
            for block in range {
                let start = block * rows_per_block;
                let rows = rows_per_block.min(outer - start);
                let (a, b) = read(start * dim, rows * dim, scratch.get());
                let to = out.target(start * dim, scratch.get().wrapping_add(2 * SHORT_BLOCK));
                // SAFETY: `rows` rows of `dim` elements each.
                unsafe {
                    short(([a, b], to, dim, rows));
                    out.written(start * dim, rows * dim, to);
                }
            }
        });
    } else if inner == 1 && overlaps::<T, F>(operands, dim, streams) && FastPath::SoftmaxOverlapped.is_on() {
        // SAFETY: the caller's contract; the machine has AVX-512.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            let [a, _, out] = operands;
            if const { F::MAX } {
                overlapped::run::<F>((outer, dim), a, out)
            } else {
                overlapped_gradient::run::<F>((outer, dim), operands)
            }
        }
    } else if inner == 1 {
        let row = entry::<Row<T, F>>(level());
        // Converted rows whose terms wait in the output are best computed in place.
        let apart = if F::SCALED_TERM { 0 } else { 2 };
        parallel_for(outer, (TASK / dim).max(1), &|range| {
            let scratch = Scratch::<T>::new(3 * dim + 2 * LINE_BYTES / size_of::<T>());
            for r in range {
                let (a, b) = read(r * dim, dim, scratch.get());
                let to = out.target(r * dim, scratch.get().wrapping_add(apart * dim));
                // What is kept for a line of the output begins with a line, too.
                let room = scratch.get().wrapping_add((2 * dim).next_multiple_of(LINE_BYTES / size_of::<T>()));
                let room = room.wrapping_byte_add(to.addr() % LINE_BYTES);
                // SAFETY: a row of `dim` elements each.
                unsafe {
                    row((a, b, to, dim, streams.then_some(room)));
                    out.written(r * dim, dim, to);
                }
            }
            if streams {
                stream::finish();
            }
        });
    } else if inner < NARROW || !FastPath::SoftmaxColumns.is_on() {
        let row = entry::<Row<T, F>>(level());
        parallel_for(outer * inner, (TASK / dim).max(1), &|range| {
            let scratch = Scratch::<T>::new(3 * dim);
            let first = scratch.get();
            for r in range {
                let at = r / inner * dim * inner + r % inner;
                // SAFETY: a row of `dim` elements each; the scratch memory holds three.
                unsafe {
                    let (second, to) = (if one_input { first } else { first.add(dim) }, first.add(2 * dim));
                    a.read_strided(at, inner, dim, first);
                    if !one_input {
                        b.read_strided(at, inner, dim, second);
                    }
                    row((first, second, to, dim, None));
                    out.write_strided(at, inner, dim, to);
                }
            }
        });
    } else if F::MAX && tall::is_tall::<T>(&shape) && FastPath::SoftmaxTall.is_on() {
        // SAFETY: the caller's contract.
        unsafe { tall::run::<T, F>(shape, a, out) }
    } else {
        // Whole cache lines wide, as wide as keeps a tile in L2 (or as is read fast, where that is too narrow).
        let direct = a.is_direct() && b.is_direct() && out.is_direct();
        let least = if direct && !F::MAX && tall::is_tall::<T>(&shape) { TILE } else { LANES };
        let past = F::MAX && direct && streams && dim >= MANY;
        let elements = if past { PAST_ELEMENTS } else { TILE_ELEMENTS };
        let most = (elements / dim / LANES * LANES).clamp(least, TILE);
        let least = (TASK / 2 / dim).next_multiple_of(LANES).clamp(least, most);
        let tile = tile_for_threads(inner, (least, most), outer, PIECES_OF_THREAD);
        let tiles = inner.div_ceil(tile);
        let columns = entry::<Columns<T, F>>(level());
        parallel_for(outer * tiles, (TASK / (dim * tile)).max(1), &|range| {
            let room = Scratch::<T>::new(if F::MAX { columns::room(dim, tile, past) } else { 0 });
            let scratch = Scratch::<T>::new(if direct { 0 } else { 3 * dim * tile });
            let (room, first) = (room.get(), scratch.get());
            for i in range {
                let start = i % tiles * tile;
                let (at, cols) = (i / tiles * dim * inner + start, tile.min(inner - start));
                let apart = |first: *mut T| Lines { first, stride: cols };
                // SAFETY: `dim` lines of `cols` elements; the scratch memory holds them three times.
                unsafe {
                    if direct {
                        let null = std::ptr::null_mut();
                        let lines = |first: *mut T| Lines { first, stride: inner };
                        let inputs = [a.read(at, 0, null), b.read(at, 0, null)].map(|a| lines(a.cast_mut()));
                        columns((inputs, lines(out.target(at, null)), (dim, cols), room, past));
                        continue;
                    }
                    let (second, to) =
                        (if one_input { first } else { first.add(dim * cols) }, first.add(2 * dim * cols));
                    for d in 0..dim {
                        a.read_strided(at + d * inner, 1, cols, first.add(d * cols));
                        if !one_input {
                            b.read_strided(at + d * inner, 1, cols, second.add(d * cols));
                        }
                    }
                    columns(([first, second].map(apart), apart(to), (dim, cols), room, false));
                    for d in 0..dim {
                        out.write_strided(at + d * inner, 1, cols, to.add(d * cols));
                    }
                }
            }
            if past {
                stream::finish();
            }
        });
    }
}

/// How many of `inner` columns are a tile, within some limits, so that each thread has some tiles; `others` lie beside each.
/// (Bits do not depend on it.)
fn tile_for_threads(inner: usize, (least, most): (usize, usize), others: usize, some: usize) -> usize {
    let wanted = if in_parallel_region() { 1 } else { some * num_threads() };
    let tiles = wanted.div_ceil(others).min(inner / least).max(inner.div_ceil(most));
    inner.div_ceil(tiles).next_multiple_of(LANES).min(inner)
}

/// Whether rows of `n` elements are computed as `overlapped` ones.
#[cfg(target_arch = "x86_64")]
fn overlaps<T: Float, F: RowFunction>([a, b, out]: [Operand; 3], n: usize, streams: bool) -> bool {
    let suits = match F::MAX {
        true => overlapped::suits(n, a, out),
        false => beside::suits(n, [a, b, out]) && overlapped_gradient::is_faster::<F>(n, out.dtype, streams),
    };
    matches!(T::DTYPE, DType::F32) && suits && level() == Level::Avx512
}

/// Whether they are: there is no such way here.
#[cfg(not(target_arch = "x86_64"))]
fn overlaps<T: Float, F: RowFunction>(_: [Operand; 3], _: usize, _: bool) -> bool {
    false
}

/// The summary of a row from those of its pieces.
fn merge<F: RowFunction>(pieces: &[Summary]) -> Summary {
    let max = pieces.iter().fold(f64::NEG_INFINITY, |m, p| if p.max > m { p.max } else { m });
    let scaled = |p: &Summary| if F::MAX && p.max != max { p.sum * (p.max - max).exp() } else { p.sum };
    Summary { max, sum: pieces.iter().map(scaled).sum() }
}
