//! Rows that fit a few vectors: each is one array of constant length, so that its maximum, terms and sum stay in registers.

use super::RowFunction;
use crate::math::{Float, Isa, Kernel, Number, select};
use crate::norm::rows::joined;
use std::marker::PhantomData;

/// The longest rows that count as short.
pub(super) const SHORT: usize = 64;

/// Contiguous rows of up to `W` elements: the inputs, the output (which may be an input), the length and number of rows.
pub(super) struct ShortRows<T, F, const W: usize>(PhantomData<(T, F)>);

impl<T: Float, F: RowFunction, const W: usize> Kernel for ShortRows<T, F, W> {
    type Args = ([*const T; 2], *mut T, usize, usize);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>(([a, b], out, n, rows): Self::Args) {
        let apart = !std::ptr::eq(a, out) && !std::ptr::eq(b, out);
        for at in (0..rows * n).step_by(n) {
            // Whole arrays may be read, and written if nobody reads there any more, where rows follow.
            let follows = at + W <= rows * n;
            // SAFETY: `n` elements of each row by the caller's contract, `W` where rows follow.
            unsafe {
                let load = |p: *const T| match follows {
                    true => p.add(at).cast::<[T; W]>().read_unaligned(),
                    false => {
                        let mut x = [<T as Number>::ZERO; W];
                        std::ptr::copy_nonoverlapping(p.add(at), x.as_mut_ptr(), n);
                        x
                    }
                };
                let result = Self::row::<I>(&load(a), &load(b), n);
                if n == W || (follows && apart) {
                    out.add(at).cast::<[T; W]>().write_unaligned(result);
                } else {
                    std::ptr::copy_nonoverlapping(result.as_ptr(), out.add(at), n);
                }
            }
        }
    }
}

impl<T: Float, F: RowFunction, const W: usize> ShortRows<T, F, W> {
    /// The results of the first `n` elements.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // An index keeps the loops' bounds constant.
    fn row<I: Isa>(a: &[T; W], b: &[T; W], n: usize) -> [T; W] {
        let zero = <T as Number>::ZERO;
        let mut max = zero;
        if F::MAX {
            let mut lanes = [zero; W];
            for l in 0..W {
                lanes[l] = select(l < n, a[l], T::NEG_INFINITY);
            }
            max = joined(lanes, |a, b| select(b > a, b, a));
        }
        // In a row of negative infinities alone the terms must be zero, not NaN, if they are not the results.
        let shift = select(!F::SCALED_TERM && max == T::NEG_INFINITY, zero, max);
        let mut x = [zero; W];
        for l in 0..W {
            // What fills the array up is a common element.
            x[l] = select(l < n, a[l], shift);
        }
        let mut terms = [zero; W];
        let mut rare = 0u32;
        if F::CHOICE {
            for l in 0..W {
                rare |= !F::is_common::<T>(x[l], shift) as u32;
            }
        }
        if F::CHOICE && rare == 0 {
            for l in 0..W {
                terms[l] = F::term_common::<I, T>(x[l], b[l], shift);
            }
        } else {
            for l in 0..W {
                terms[l] = F::term::<I, T>(x[l], b[l], shift);
            }
        }
        for l in 0..W {
            terms[l] = select(l < n, terms[l], zero);
        }
        let scale = F::scale_short::<I, T>(joined(terms, |a, b| a + b));
        let mut out = [zero; W];
        for l in 0..W {
            out[l] = if F::SCALED_TERM { terms[l] * scale } else { F::apply::<I, T>(a[l], b[l], max, scale) };
        }
        out
    }
}
