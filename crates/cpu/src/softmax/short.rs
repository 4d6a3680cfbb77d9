//! Rows that fit a few vectors: each is one array of constant length, so that its maximum, terms and sum stay in registers.

use super::{RowFunction, terms_of};
use crate::math::{Float, Isa, Kernel, Number, select};
use crate::norm::rows::{ones_from, together};
use std::marker::PhantomData;

/// The longest rows that count as short.
pub(super) const SHORT: usize = 64;

/// Rows whose sums are made use of together.
const TOGETHER: usize = 16;

/// Contiguous rows of up to `W` elements: the inputs, the output (which may be an input), the length and number of rows.
pub(super) struct ShortRows<T, F, const W: usize>(PhantomData<(T, F)>);

impl<T: Float, F: RowFunction, const W: usize> Kernel for ShortRows<T, F, W> {
    type Args = ([*const T; 2], *mut T, usize, usize);
    type Output = ();
    const FAST_PATH: bool = true;

    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // An index keeps the loops' bounds constant.
    unsafe fn run<I: Isa>(([a, b], out, n, rows): Self::Args) {
        let apart = !std::ptr::eq(a, out) && !std::ptr::eq(b, out);
        // Whole arrays may be read, and written if nobody reads there any more, where rows follow.
        let follows = |row: usize| row * n + W <= rows * n;
        // SAFETY: `n` elements of each row by the caller's contract, `W` where rows follow.
        let load = |p: *const T, row: usize| unsafe {
            if follows(row) {
                p.add(row * n).cast::<[T; W]>().read_unaligned()
            } else {
                let mut x = [<T as Number>::ZERO; W];
                std::ptr::copy_nonoverlapping(p.add(row * n), x.as_mut_ptr(), n);
                x
            }
        };
        // SAFETY: as above.
        let store = |result: [T; W], row: usize| unsafe {
            let to = out.add(row * n);
            if n == W || (follows(row) && apart) {
                to.cast::<[T; W]>().write_unaligned(result);
            } else {
                std::ptr::copy_nonoverlapping(result.as_ptr(), to, n);
            }
        };
        if F::SCALED_TERM {
            for row in 0..rows {
                let (_, terms) = Self::terms::<I>(&load(a, row), &load(b, row), n);
                let scale = F::scale_short::<I, T>(together::<I, T, W, false>(terms));
                store(terms.map(|term| term * scale), row);
            }
            return;
        }
        // What is made of the sums of several rows is made of all at once: one after the other, each would wait for the
        // one before.
        for first in (0..rows).step_by(TOGETHER) {
            let count = TOGETHER.min(rows - first);
            let (mut max, mut scale) = ([<T as Number>::ZERO; TOGETHER], [<T as Number>::ZERO; TOGETHER]);
            for i in 0..count {
                let (largest, terms) = Self::terms::<I>(&load(a, first + i), &load(b, first + i), n);
                (max[i], scale[i]) = (largest, together::<I, T, W, false>(terms));
            }
            for scale in &mut scale {
                *scale = F::scale_short::<I, T>(*scale);
            }
            for i in 0..count {
                let (a, b) = (load(a, first + i), load(b, first + i));
                let mut results = [<T as Number>::ZERO; W];
                for l in 0..W {
                    results[l] = F::apply::<I, T>(a[l], b[l], max[i], scale[i]);
                }
                store(results, first + i);
            }
        }
    }
}

impl<T: Float, F: RowFunction, const W: usize> ShortRows<T, F, W> {
    /// The maximum and the terms of the first `n` elements; what follows is zero.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // An index keeps the loops' bounds constant.
    fn terms<I: Isa>(a: &[T; W], b: &[T; W], n: usize) -> (T, [T; W]) {
        let zero = <T as Number>::ZERO;
        let fills = ones_from::<W>(n);
        let mut max = zero;
        if F::MAX {
            let mut lanes = [zero; W];
            for l in 0..W {
                lanes[l] = select(fills[l] == 0, a[l], T::NEG_INFINITY);
            }
            max = together::<I, T, W, true>(lanes);
        }
        // In a row of negative infinities alone the terms must be zero, not NaN, if they are not the results.
        let shift = select(!F::SCALED_TERM && max == T::NEG_INFINITY, zero, max);
        let mut x = [zero; W];
        for l in 0..W {
            // What fills the array up is a common element.
            x[l] = select(fills[l] == 0, a[l], shift);
        }
        let mut terms = terms_of::<I, T, F, W>(&x, b, |_| shift);
        for l in 0..W {
            terms[l] = select(fills[l] == 0, terms[l], zero);
        }
        (max, terms)
    }
}
