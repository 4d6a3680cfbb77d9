//! Columns side by side, of few enough lines for a cache to keep what is computed of some columns at a time.

use super::tall::PART;
use super::{LANES, NARROW, RowFunction, TILE, terms_of};
use crate::math::{Float, Isa, Kernel, Number, select};
use crate::norm::results::{Past, put_results};
use crate::prefetch::prefetch;
use std::marker::PhantomData;

/// Lines, some elements apart.
#[derive(Clone, Copy)]
pub(super) struct Lines<T> {
    pub(super) first: *mut T,
    pub(super) stride: usize,
}

impl<T: Copy> Lines<T> {
    /// Element `at` of line `d`.
    #[inline(always)]
    fn at(self, d: usize, at: usize) -> *mut T {
        self.first.wrapping_add(d * self.stride + at)
    }

    /// The lines from element `at` on.
    #[inline(always)]
    fn from(self, at: usize) -> Self {
        Self { first: self.at(0, at), ..self }
    }
}

/// Elements of [`Columns::Args`]' room that `dim` lines of `cols` elements need.
pub(super) fn room(dim: usize, cols: usize, past: bool) -> usize {
    dim * if past { cols.next_multiple_of(NARROW) } else { LANES }
}

/// Whether lines some bytes apart push one another, and as many of results, out of a second-level cache of 8 lines for each
/// of its sets, which repeat every 128 KiB: those whose distance is a multiple of a great power of two.
fn fall_together(lines: usize, distance: usize) -> bool {
    const SETS_BYTES: usize = 128 << 10;
    const WAYS: usize = 8;
    2 * lines > WAYS * (SETS_BYTES >> distance.trailing_zeros().min(SETS_BYTES.trailing_zeros()))
}

/// A function of some columns.
pub(super) struct Columns<T, F>(PhantomData<(T, F)>);
impl<T: Float, F: RowFunction> Kernel for Columns<T, F> {
    /// The inputs and the output, how many lines and columns, at most [`TILE`], and, if there is a maximum to be found, a
    /// [`room`] and whether results go past the caches ([`finish`](crate::copy::stream::finish) follows before others read
    /// them).
    type Args = ([Lines<T>; 2], Lines<T>, (usize, usize), *mut T, bool);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>(([a, b], out, (dim, cols), room, past): Self::Args) {
        // SAFETY: the caller's contract.
        unsafe {
            if !F::MAX {
                Self::gradients::<I>([a, b], out, (dim, cols));
            } else if past {
                Self::run_past::<I>(a, out, (dim, cols), room);
            } else {
                Self::run_kept::<I>(a, out, (dim, cols), room);
            }
        }
    }
}

impl<T: Float, F: RowFunction> Columns<T, F> {
    /// A function of one input.
    ///
    /// # Safety
    /// As [`Columns`].
    #[inline(always)]
    unsafe fn run_kept<I: Isa>(a: Lines<T>, out: Lines<T>, (dim, cols): (usize, usize), room: *mut T) {
        let apart = fall_together(dim, a.stride * size_of::<T>());
        let mut start = 0;
        // SAFETY: the caller's contract, of columns that there are.
        unsafe {
            while start + LANES <= cols {
                let room = apart.then_some(Lines { first: room, stride: LANES });
                Self::chunk::<I, LANES>(a.from(start), out.from(start), (dim, LANES), room);
                start += LANES;
            }
            while start < cols {
                let n = NARROW.min(cols - start);
                let room = (apart || n < NARROW).then_some(Lines { first: room, stride: NARROW });
                Self::chunk::<I, NARROW>(a.from(start), out.from(start), (dim, n), room);
                start += n;
            }
        }
    }

    /// `n` columns, at most `W`. Elements and terms stay where they lie, or wait in the room, as fewer than `W` must.
    ///
    /// # Safety
    /// As [`Columns`].
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // An index keeps the loops' bounds constant.
    unsafe fn chunk<I: Isa, const W: usize>(
        a: Lines<T>,
        out: Lines<T>,
        (dim, n): (usize, usize),
        room: Option<Lines<T>>,
    ) {
        // SAFETY: `n` elements of every line, and `W` of the room; what is left of a line fills part of an array.
        unsafe {
            let (max, scale) = Self::summarise::<I, W>(a, room.unwrap_or(out), room.is_some(), (dim, n));
            let from = room.unwrap_or(if F::SCALED_TERM { out } else { a });
            for d in 0..dim {
                let x = from.at(d, 0).cast::<[T; W]>().read_unaligned();
                let mut results = [<T as Number>::ZERO; W];
                for l in 0..W {
                    results[l] = Self::result::<I>(x[l], max[l], scale[l]);
                }
                if n == W {
                    out.at(d, 0).cast::<[T; W]>().write_unaligned(results);
                } else {
                    std::ptr::copy_nonoverlapping(results.as_ptr(), out.at(d, 0), n);
                }
            }
        }
    }

    /// A function of one input whose results go past the caches, line by line, when all columns' terms are computed. (A few
    /// whole cache lines of every line, and parts of two, would be stored at once otherwise.)
    ///
    /// # Safety
    /// As [`Columns`].
    #[inline(always)]
    unsafe fn run_past<I: Isa>(a: Lines<T>, out: Lines<T>, (dim, cols): (usize, usize), room: *mut T) {
        let room = Lines { first: room, stride: cols.next_multiple_of(NARROW) };
        let mut known = [[<T as Number>::ZERO; TILE]; 2];
        // (Whether each index is within bounds is not asked.)
        let [max, scale] = known.each_mut().map(|known| known.as_mut_ptr());
        let mut start = 0;
        // SAFETY: the caller's contract, of columns that there are, at most `TILE`; what they are completed by has room, too.
        unsafe {
            while start + LANES <= cols {
                let known = Self::summarise::<I, LANES>(a.from(start), room.from(start), true, (dim, LANES));
                (*max.add(start).cast(), *scale.add(start).cast()) = known;
                start += LANES;
            }
            while start < cols {
                let n = NARROW.min(cols - start);
                let known = Self::summarise::<I, NARROW>(a.from(start), room.from(start), true, (dim, n));
                (*max.add(start).cast(), *scale.add(start).cast()) = known;
                start += n;
            }
            for d in 0..dim {
                let x = room.at(d, 0);
                put_results::<I, T>(out.at(d, 0), cols, Past::if_streams(true, out.stride), |i| {
                    Self::result::<I>(*x.add(i), *max.add(i), *scale.add(i))
                });
            }
        }
    }

    /// The maximum and the scale of each of `n` columns, at most `W`. Their terms, if the results are made of them, are left in
    /// lines of `W`, or else the elements, if those are copied before more is done.
    ///
    /// # Safety
    /// `n` elements of every line of `a` and `W` of `kept` must be valid; fewer than `W` must be copied.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // As above.
    unsafe fn summarise<I: Isa, const W: usize>(
        a: Lines<T>,
        kept: Lines<T>,
        copies: bool,
        (dim, n): (usize, usize),
    ) -> ([T; W], [T; W]) {
        let zero = <T as Number>::ZERO;
        // SAFETY: the caller's elements; what is left of a line fills part of an array.
        unsafe {
            let mut max = [T::NEG_INFINITY; W];
            for d in 0..dim {
                let mut x = [zero; W];
                if n == W {
                    x = a.at(d, 0).cast::<[T; W]>().read_unaligned();
                } else {
                    std::ptr::copy_nonoverlapping(a.at(d, 0), x.as_mut_ptr(), n);
                }
                for l in 0..W {
                    max[l] = select(x[l] > max[l], x[l], max[l]);
                }
                if copies {
                    kept.at(d, 0).cast::<[T; W]>().write_unaligned(x);
                }
            }
            let from = if copies { kept } else { a };
            let mut sums = [0.0f64; W];
            for first in (0..dim).step_by(PART) {
                let mut part = [zero; W];
                for d in first..dim.min(first + PART) {
                    for next in (0..W).step_by(64 / size_of::<T>()) {
                        prefetch(a.at(d, W + next).cast_const().cast());
                    }
                    let x = from.at(d, 0).cast::<[T; W]>().read_unaligned();
                    let terms = terms_of::<I, T, F, W>(&x, &x, |l| max[l]);
                    for l in 0..W {
                        part[l] += terms[l];
                    }
                    if F::SCALED_TERM {
                        kept.at(d, 0).cast::<[T; W]>().write_unaligned(terms);
                    }
                }
                for l in 0..W {
                    sums[l] += part[l].to_f64();
                }
            }
            let mut scale = [zero; W];
            for l in 0..W {
                scale[l] = F::scale_side::<I, T>(sums[l]);
            }
            (max, scale)
        }
    }

    /// A result, of what [`summarise`](Self::summarise) left.
    #[inline(always)]
    fn result<I: Isa>(left: T, max: T, scale: T) -> T {
        if F::SCALED_TERM { left * scale } else { F::apply::<I, T>(left, <T as Number>::ZERO, max, scale) }
    }

    /// A function of two inputs, without a maximum, line by line.
    ///
    /// # Safety
    /// As [`Columns`], with at most [`TILE`] columns.
    #[inline(always)]
    unsafe fn gradients<I: Isa>([a, b]: [Lines<T>; 2], out: Lines<T>, (dim, cols): (usize, usize)) {
        let zero = <T as Number>::ZERO;
        let (mut sum, mut scale) = ([0.0f64; TILE], [zero; TILE]);
        let (sum, scale) = (&mut sum[..cols], &mut scale[..cols]);
        // SAFETY: `dim` lines of `cols` elements each; not slices, because the output may be an input.
        unsafe {
            for d in 0..dim {
                let (a, b) = (a.at(d, 0), b.at(d, 0));
                for (j, sum) in sum.iter_mut().enumerate() {
                    *sum += F::term(*a.add(j), *b.add(j)).to_f64();
                }
            }
            for (scale, &sum) in scale.iter_mut().zip(sum.iter()) {
                *scale = F::scale_side::<I, T>(sum);
            }
            for d in 0..dim {
                let (a, b, out) = (a.at(d, 0), b.at(d, 0), out.at(d, 0));
                for (j, &scale) in scale.iter().enumerate() {
                    *out.add(j) = F::apply::<I, T>(*a.add(j), *b.add(j), zero, scale);
                }
            }
        }
    }
}
