//! Columns of more lines than a cache keeps, in two passes over whole lines, in the order in which they lie.
//!
//! The first keeps a running maximum of every column and a sum of exponentials relative to it, which is scaled where the
//! maximum grows (Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018); the second computes the
//! results. Two exponentials of an element take less time than lines that are read in short stretches.

use super::{RowFunction, SoftmaxShape, terms_of, tile_for_threads};
use crate::buffer::Scratch;
use crate::copy::{Shared, stream};
use crate::math::{Float, Isa, Kernel, Number, entry, level, select};
use crate::norm::rows::{LANES, LINE_BYTES, Rows};
use crate::prefetch::prefetch_run;
use flambeau_base::parallel::parallel_for;
use std::marker::PhantomData;
use std::ops::Range;

/// Bytes of `LANES` columns above which they are tall.
const TALL_BYTES: usize = 1 << 18;

/// The most columns of a tile, and the fewest if there are as many.
const TILE: usize = 2048;
const LEAST: usize = 256;

/// Columns whose terms are computed together.
const TOGETHER: usize = 32;

/// Elements between those that results are computed of and those that are asked for.
const AHEAD: usize = 512;

/// Lines whose terms are added up relative to one maximum: what scaling the sums costs is little beside so many.
pub(crate) const LINES: usize = 32;

/// Lines whose terms are added up in their own dtype: so few lose nothing by it.
pub(super) const PART: usize = 8;

/// Elements of a piece of columns, and its most lines if they are many.
const PIECE: usize = 1 << 16;
const PIECE_LINES: usize = 1024;

/// The fewest columns that are computed together.
const FEW: usize = 16;

/// Whether columns of a shape are tall.
pub(super) fn is_tall<T>(shape: &SoftmaxShape) -> bool {
    shape.dim * LANES * size_of::<T>() > TALL_BYTES
}

/// Adds [`LINES`] lines at most, `stride` elements apart, to the maximum of every column and its sum of terms relative to
/// that (to zero, where it is negative infinity).
///
/// # Safety
/// `x` must be valid for `lines` lines of `cols` elements, `max` and `sums` for `cols` values.
#[inline(always)]
pub(super) unsafe fn add_lines<I: Isa, T: Float, F: RowFunction>(
    x: *const T,
    (lines, stride): (usize, isize),
    cols: usize,
    max: *mut T,
    sums: *mut f64,
) {
    let mut done = 0;
    // SAFETY: parts of the caller's columns; those of an array are as many as its length.
    unsafe {
        while done + TOGETHER <= cols {
            let (max, sums) = (max.add(done).cast(), sums.add(done).cast());
            add_to_columns::<I, T, F, TOGETHER>(x.wrapping_add(done), (lines, stride), &mut *max, &mut *sums);
            done += TOGETHER;
        }
        // What is left is completed by columns of zeros.
        while done < cols {
            let n = FEW.min(cols - done);
            let mut block = [[<T as Number>::ZERO; FEW]; LINES];
            let (mut some_max, mut some_sums) = ([<T as Number>::ZERO; FEW], [0.0; FEW]);
            for (d, line) in block[..lines].iter_mut().enumerate() {
                std::ptr::copy_nonoverlapping(
                    x.wrapping_offset(d as isize * stride).wrapping_add(done),
                    line.as_mut_ptr(),
                    n,
                );
            }
            std::ptr::copy_nonoverlapping(max.add(done), some_max.as_mut_ptr(), n);
            std::ptr::copy_nonoverlapping(sums.add(done), some_sums.as_mut_ptr(), n);
            let lines = (lines, FEW as isize);
            add_to_columns::<I, T, F, FEW>(block.as_ptr().cast(), lines, &mut some_max, &mut some_sums);
            std::ptr::copy_nonoverlapping(some_max.as_ptr(), max.add(done), n);
            std::ptr::copy_nonoverlapping(some_sums.as_ptr(), sums.add(done), n);
            done += n;
        }
    }
}

/// [`add_lines`] of `W` columns.
///
/// # Safety
/// As there.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loops' bounds constant.
unsafe fn add_to_columns<I: Isa, T: Float, F: RowFunction, const W: usize>(
    x: *const T,
    (lines, stride): (usize, isize),
    max: &mut [T; W],
    sums: &mut [f64; W],
) {
    let zero = <T as Number>::ZERO;
    let (before, mut now) = (*max, *max);
    // SAFETY: `W` elements of every line.
    let line = |d: usize| unsafe { x.wrapping_offset(d as isize * stride).cast::<[T; W]>().read_unaligned() };
    for d in 0..lines {
        prefetch_run(x.wrapping_offset((d + LINES) as isize * stride).cast(), size_of::<[T; W]>());
        let x = line(d);
        for l in 0..W {
            now[l] = select(x[l] > now[l], x[l], now[l]);
        }
    }
    let (mut shift, mut grown, mut sum) = ([zero; W], 0u32, *sums);
    for l in 0..W {
        shift[l] = select(now[l] == T::NEG_INFINITY, zero, now[l]);
        grown |= (now[l] != before[l]) as u32;
    }
    if grown != 0 {
        for l in 0..W {
            sum[l] = relative::<I>(sum[l], before[l].to_f64(), now[l].to_f64());
        }
    }
    for first in (0..lines).step_by(PART) {
        let mut part = [zero; W];
        for d in first..lines.min(first + PART) {
            let x = line(d);
            let terms = terms_of::<I, T, F, W>(&x, &x, |l| shift[l]);
            for l in 0..W {
                part[l] += terms[l];
            }
        }
        for l in 0..W {
            sum[l] += part[l].to_f64();
        }
    }
    (*max, *sums) = (now, sum);
}

/// A sum of exponentials relative to one maximum, relative to another.
#[inline(always)]
pub(crate) fn relative<I: Isa>(sum: f64, max: f64, other: f64) -> f64 {
    sum * select(max == other, 1.0, Float::exp::<I>(max - other))
}

/// [`add_lines`], compiled for a level.
struct AddLines<T, F>(PhantomData<(T, F)>);
impl<T: Float, F: RowFunction> Kernel for AddLines<T, F> {
    type Args = (*const T, (usize, isize), usize, *mut T, *mut f64);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((x, lines, cols, max, sums): Self::Args) {
        // SAFETY: the caller's contract.
        unsafe { add_lines::<I, T, F>(x, lines, cols, max, sums) }
    }
}

/// Adds the maxima and sums of columns to others.
struct Merge<T>(PhantomData<T>);
impl<T: Float> Kernel for Merge<T> {
    /// What is added to, what is added, and of how many columns.
    type Args = ((*mut T, *mut f64), (*mut T, *mut f64), usize);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((all, some, cols): Self::Args) {
        for j in 0..cols {
            // SAFETY: the caller's columns.
            unsafe {
                let (a, b) = (*all.0.add(j), *some.0.add(j));
                let max = select(b > a, b, a);
                let relative = |sum: f64, of: T| relative::<I>(sum, of.to_f64(), max.to_f64());
                *all.1.add(j) = relative(*all.1.add(j), a) + relative(*some.1.add(j), b);
                *all.0.add(j) = max;
            }
        }
    }
}

/// What the results of columns need of their sums.
struct Scales<T, F>(PhantomData<(T, F)>);
impl<T: Float, F: RowFunction> Kernel for Scales<T, F> {
    type Args = (*const f64, *mut T, usize);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((sums, scales, n): Self::Args) {
        for i in 0..n {
            // SAFETY: the caller's `n` values.
            unsafe { *scales.add(i) = F::scale_side::<I, T>(*sums.add(i)) };
        }
    }
}

/// The results of one line, given the maximum and the scale of every column.
struct ApplyLine<T, F>(PhantomData<(T, F)>);
impl<T: Float, F: RowFunction> Kernel for ApplyLine<T, F> {
    /// Where from and to, how many columns, what is known of them, and whether results go past the caches
    /// ([`stream::finish`] follows before others read them).
    type Args = (*const T, *mut T, usize, [*const T; 2], bool);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((x, out, cols, known, streams): Self::Args) {
        // Whole cache lines begin after the first few.
        let lead = if streams { out.addr().wrapping_neg() % LINE_BYTES / size_of::<T>() } else { 0 }.min(cols);
        let mut at = 0;
        // SAFETY: `cols` elements and values of the caller's.
        unsafe {
            if lead > 0 {
                some_results::<I, T, F>(x, out, 0..lead, known);
                at = lead;
            }
            while at + TOGETHER <= cols {
                prefetch_run(x.wrapping_add(at + AHEAD).cast(), size_of::<[T; TOGETHER]>());
                let read = |from: *const T| from.add(at).cast::<[T; TOGETHER]>().read_unaligned();
                let results = results_of::<I, T, F, TOGETHER>(read(x), known.map(read));
                match streams {
                    true => stream::store::<I, _, TOGETHER>(out.add(at), &results),
                    false => out.add(at).cast::<[T; TOGETHER]>().write_unaligned(results),
                }
                at += TOGETHER;
            }
            while at < cols {
                let end = cols.min(at + FEW);
                some_results::<I, T, F>(x, out, at..end, known);
                at = end;
            }
        }
    }
}

/// Results of some columns of a line, given the maximum and the scale of each.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // As above.
fn results_of<I: Isa, T: Float, F: RowFunction, const W: usize>(x: [T; W], [max, scale]: [[T; W]; 2]) -> [T; W] {
    let mut results = [<T as Number>::ZERO; W];
    if F::SCALED_TERM {
        let terms = terms_of::<I, T, F, W>(&x, &x, |l| max[l]);
        for l in 0..W {
            results[l] = terms[l] * scale[l];
        }
    } else {
        for l in 0..W {
            results[l] = F::apply::<I, T>(x[l], <T as Number>::ZERO, max[l], scale[l]);
        }
    }
    results
}

/// [`results_of`] at most [`FEW`] columns, which are completed by columns of zeros.
///
/// # Safety
/// They must be valid for the columns.
#[inline(always)]
unsafe fn some_results<I: Isa, T: Float, F: RowFunction>(
    x: *const T,
    out: *mut T,
    columns: Range<usize>,
    known: [*const T; 2],
) {
    let (first, n) = (columns.start, columns.len().min(FEW));
    // SAFETY: as many of the caller's columns as an array holds.
    unsafe {
        let read = |from: *const T| {
            let mut some = [<T as Number>::ZERO; FEW];
            std::ptr::copy_nonoverlapping(from.add(first), some.as_mut_ptr(), n);
            some
        };
        let results = results_of::<I, T, F, FEW>(read(x), known.map(read));
        std::ptr::copy_nonoverlapping(results.as_ptr(), out.add(first), n);
    }
}

/// How many of `dim` lines of `inner` elements are a piece, and how many pieces there are. They depend on sizes alone: where
/// they are cut decides about bits.
pub(super) fn pieces(dim: usize, inner: usize) -> (usize, usize) {
    let most = (PIECE / inner.min(TILE)).max(PIECE_LINES);
    let piece = dim.div_ceil(dim.div_ceil(most)).next_multiple_of(LINES);
    (piece, dim.div_ceil(piece))
}

/// A function of one input, with a maximum, of tall columns.
///
/// # Safety
/// The rows must be valid for all elements of the shape; they may be equal, but not otherwise overlap.
pub(super) unsafe fn run<T: Float, F: RowFunction>(shape: SoftmaxShape, a: Rows<T>, out: Rows<T>) {
    let SoftmaxShape { outer, dim, inner } = shape;
    let (piece, pieces) = pieces(dim, inner);
    // (Narrow tiles have more parts of cache lines: 4096 x 1000 takes a tenth to a third longer by halves.)
    let tile = tile_for_threads(inner, (LEAST, TILE), outer * pieces, 1);
    let tiles = inner.div_ceil(tile);
    let (add_lines, apply) = (entry::<AddLines<T, F>>(level()), entry::<ApplyLine<T, F>>(level()));
    let in_place = a.target(0, std::ptr::null_mut()) == out.target(0, std::ptr::null_mut());
    let streams = !in_place && stream::streams(2 * outer * dim * inner * size_of::<T>());
    // A maximum and a sum of every column of a piece; those of all pieces are put together in the first.
    let maxima = Scratch::<T>::new(outer * pieces * inner);
    let sums = Scratch::<f64>::new(outer * pieces * inner);
    let scales = Scratch::<T>::new(outer * inner);
    let (maxima, sums, scales) = (Shared(maxima.get()), Shared(sums.get()), Shared(scales.get()));
    // The columns of tile `t`, and the lines of piece `p`.
    let columns = |t: usize| (t * tile, tile.min(inner - t * tile));
    let lines = |p: usize| (p * piece, piece.min(dim - p * piece));
    parallel_for(outer * pieces * tiles, 1, &|range| {
        let block = Scratch::<T>::new(if a.is_direct() { 0 } else { LINES * tile });
        for i in range {
            let (o, p, (start, cols)) = (i / tiles / pieces, i / tiles % pieces, columns(i % tiles));
            let (first, count) = lines(p);
            let at = (o * pieces + p) * inner + start;
            // SAFETY: the summaries of this piece's columns, lines of the caller's, and a block that holds as many.
            unsafe {
                let (max, sums) = (maxima.get().add(at), sums.get().add(at));
                std::slice::from_raw_parts_mut(max, cols).fill(T::NEG_INFINITY);
                std::slice::from_raw_parts_mut(sums, cols).fill(0.0);
                for d in (first..first + count).step_by(LINES) {
                    let (n, from) = (LINES.min(first + count - d), (o * dim + d) * inner + start);
                    if a.is_direct() {
                        add_lines((a.read(from, 0, block.get()), (n, inner as isize), cols, max, sums));
                        continue;
                    }
                    for line in 0..n {
                        a.read(from + line * inner, cols, block.get().add(line * cols));
                    }
                    add_lines((block.get(), (n, cols as isize), cols, max, sums));
                }
            }
        }
    });
    let (merge, scale) = (entry::<Merge<T>>(level()), entry::<Scales<T, F>>(level()));
    parallel_for(outer * tiles, 1, &|range| {
        for i in range {
            let (o, (start, cols)) = (i / tiles, columns(i % tiles));
            // SAFETY: the summaries of these columns.
            unsafe {
                for p in 1..pieces {
                    let [all, some] = [0, p].map(|p| {
                        let at = (o * pieces + p) * inner + start;
                        (maxima.get().add(at), sums.get().add(at))
                    });
                    merge((all, some, cols));
                }
                scale((sums.get().add(o * pieces * inner + start), scales.get().add(o * inner + start), cols));
            }
        }
    });
    parallel_for(outer * pieces * tiles, 1, &|range| {
        let block = Scratch::<T>::new(if a.is_direct() && out.is_direct() { 0 } else { tile });
        for i in range {
            let (o, p, (start, cols)) = (i / tiles / pieces, i / tiles % pieces, columns(i % tiles));
            let (first, count) = lines(p);
            for d in first..first + count {
                let at = (o * dim + d) * inner + start;
                // SAFETY: a line of the caller's, what is known of its columns, and a block that holds as many.
                unsafe {
                    let (max, scale) =
                        (maxima.get().add(o * pieces * inner + start), scales.get().add(o * inner + start));
                    let (x, to) = (a.read(at, cols, block.get()), out.target(at, block.get()));
                    apply((x, to, cols, [max, scale], streams && out.is_direct()));
                    out.written(at, cols, to);
                }
            }
        }
        if streams {
            stream::finish();
        }
    });
}
