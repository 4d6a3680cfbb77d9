//! One sum of products of types whose lanes' kernels do not take them: of complex numbers, and of bytes.

use super::multiply::{Product, Shared};
use super::operand::Entry;
use super::rows::{PIECE, finish_cuts};
use crate::math::{Float, Isa, Kernel};
use flambeau_base::parallel::parallel_for;
use flambeau_base::{Complex, Element};
use std::marker::PhantomData;

/// Partial sums kept beside each other, so that the loop over the terms vectorises.
const LANES: usize = 16;

/// Computes a product of one row and one column. `K` adds up terms: the first of A and of B, the distances to the next, and
/// how many.
///
/// # Safety
/// As for [`Product::run`]; `SUMS` must be the lanes of a tile of one element.
unsafe fn run<T: Entry, K, const SUMS: usize>(
    p: &Product<T>,
    finish: impl Fn([T::Lane; SUMS]) -> [T::Lane; SUMS] + Sync,
) where
    K: Kernel<Args = (*const T, isize, *const T, isize, usize), Output = [T::Lane; SUMS]>,
{
    let cuts = (p.k / PIECE).clamp(1, 64);
    finish_cuts(p, cuts, |sums| {
        let (a, b) = (Shared(p.a.cast_mut()), Shared(p.b.cast_mut()));
        parallel_for(cuts, 1, &|range| {
            for cut in range {
                let (first, last) = (cut * p.k / cuts, (cut + 1) * p.k / cuts);
                // SAFETY: terms first..last of the product, and a tile of this cut's own.
                unsafe {
                    let a = a.get().cast_const().offset(first as isize * p.a_column);
                    let b = b.get().cast_const().offset(first as isize * p.b_row);
                    let tile = crate::math::run::<K>((a, p.a_column, b, p.b_row, last - first));
                    sums.get().add(cut * SUMS).cast::<[T::Lane; SUMS]>().write(finish(tile));
                }
            }
        });
    });
}

/// Computes a product of one row and one column of complex numbers.
///
/// # Safety
/// As for [`Product::run`].
pub(super) unsafe fn of_complex<T>(p: &Product<Complex<T>>)
where
    T: Float + Element,
    Complex<T>: Entry<Lane = T>,
{
    let (conj_a, conj_b) = (p.conj_a, p.conj_b);
    let signed = |x: T, negative: bool| if negative { T::ZERO - x } else { x };
    // SAFETY: forwarded contract; an element is two rows of two lanes.
    unsafe {
        run::<_, ComplexTerms<T>, 4>(p, |[rr, ri, ir, ii]| {
            [rr, signed(ri, conj_b), signed(ir, conj_a), signed(ii, conj_a != conj_b)]
        });
    }
}

/// Computes a product of one row and one column of bytes.
///
/// # Safety
/// As for [`Product::run`].
pub(super) unsafe fn of_bytes(p: &Product<i8>) {
    // SAFETY: forwarded contract; an element is a lane.
    unsafe { run::<_, ByteTerms, 1>(p, |sum| sum) }
}

/// Adds up the products of the real parts of complex numbers, of the first's real with the second's imaginary parts, of the
/// first's imaginary with the second's real parts, and of the imaginary parts.
struct ComplexTerms<T>(PhantomData<T>);

impl<T: Float + Element> Kernel for ComplexTerms<T> {
    type Args = (*const Complex<T>, isize, *const Complex<T>, isize, usize);
    type Output = [T; 4];

    #[inline(always)]
    unsafe fn run<I: Isa>((a, a_step, b, b_step, n): Self::Args) -> [T; 4] {
        let (mut same, mut crossed) = ([T::ZERO; LANES], [T::ZERO; LANES]);
        let mut done = 0;
        if a_step == 1 && b_step == 1 {
            while done + LANES / 2 <= n {
                // SAFETY: half as many complex numbers as lanes, each of two of them.
                let (x, y) = unsafe { (*a.add(done).cast::<[T; LANES]>(), *b.add(done).cast::<[T; LANES]>()) };
                for i in 0..LANES {
                    same[i] = x[i].mul_add::<I>(y[i], same[i]);
                    crossed[i] = x[i].mul_add::<I>(y[i ^ 1], crossed[i]);
                }
                done += LANES / 2;
            }
        }
        for i in done as isize..n as isize {
            // SAFETY: the caller's terms.
            let (x, y) = unsafe { (*a.offset(i * a_step), *b.offset(i * b_step)) };
            same[0] = x.re.mul_add::<I>(y.re, same[0]);
            same[1] = x.im.mul_add::<I>(y.im, same[1]);
            crossed[0] = x.re.mul_add::<I>(y.im, crossed[0]);
            crossed[1] = x.im.mul_add::<I>(y.re, crossed[1]);
        }
        let (mut of_same, mut of_crossed) = ([T::ZERO; 2], [T::ZERO; 2]);
        for i in 0..LANES {
            of_same[i % 2] += same[i];
            of_crossed[i % 2] += crossed[i];
        }
        [of_same[0], of_crossed[0], of_crossed[1], of_same[1]]
    }
}

/// Adds up the products of bytes, as far as their sum wraps to one.
struct ByteTerms;

impl Kernel for ByteTerms {
    type Args = (*const i8, isize, *const i8, isize, usize);
    type Output = [i16; 1];

    #[inline(always)]
    unsafe fn run<I: Isa>((a, a_step, b, b_step, n): Self::Args) -> [i16; 1] {
        let mut lanes = [0i16; LANES];
        let mut done = 0;
        if a_step == 1 && b_step == 1 {
            while done + LANES <= n {
                // SAFETY: as many of the caller's terms as lanes.
                let (x, y) = unsafe { (*a.add(done).cast::<[i8; LANES]>(), *b.add(done).cast::<[i8; LANES]>()) };
                for i in 0..LANES {
                    lanes[i] = lanes[i].wrapping_add(i16::from(x[i]).wrapping_mul(i16::from(y[i])));
                }
                done += LANES;
            }
        }
        for i in done as isize..n as isize {
            // SAFETY: the caller's terms.
            let (x, y) = unsafe { (*a.offset(i * a_step), *b.offset(i * b_step)) };
            lanes[0] = lanes[0].wrapping_add(i16::from(x).wrapping_mul(i16::from(y)));
        }
        [lanes.into_iter().fold(0, i16::wrapping_add)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Matrix, MatrixMut, Sizes, gemm_typed};
    use super::*;

    /// Small whole numbers, so that every sum is exact.
    fn number(i: usize) -> f64 {
        ((i * 37 + 11) % 13) as f64 - 6.0
    }

    fn sum<T: Entry>(
        n: usize,
        (a, b): (&[T], &[T]),
        steps: [isize; 2],
        conj: [bool; 2],
        c: &mut T::Out,
        beta: T::Factor,
    ) {
        let (a, b) = (a.as_ptr(), b.as_ptr());
        let a = Matrix { start: a, row_stride: 0, column_stride: steps[0], conj: conj[0] };
        let b = Matrix { start: b, row_stride: steps[1], column_stride: 0, conj: conj[1] };
        let c = MatrixMut { start: c, row_stride: 1, column_stride: 1 };
        // SAFETY: the callers' slices hold `n` elements at these steps.
        unsafe { gemm_typed::<T>(Sizes { m: 1, n: 1, k: n }, T::ONE, a, b, beta, c) }
    }

    #[test]
    fn of_complex_numbers() {
        for n in [256, 263, 2 * PIECE + 5] {
            for (step, conj_a, conj_b) in [(1, false, false), (1, true, false), (2, false, true), (1, true, true)] {
                let make = |shift: usize| -> Vec<Complex<f64>> {
                    (0..step * n).map(|i| Complex::new(number(i + shift), number(3 * i + shift))).collect()
                };
                let (a, b) = (make(0), make(5));
                let of = |x: Complex<f64>, conj: bool| if conj { x.conj() } else { x };
                let terms = (0..n).map(|i| of(a[i * step], conj_a) * of(b[i * step], conj_b));
                let expected: Complex<f64> = terms.sum::<Complex<f64>>() + 7.0;
                let mut c = Complex::new(7.0, 0.0);
                let one = Complex::new(1.0, 0.0);
                sum(n, (&a, &b), [step as isize; 2], [conj_a, conj_b], &mut c, one);
                assert_eq!(c, expected, "{n} {step} {conj_a} {conj_b}");
            }
        }
    }

    #[test]
    fn of_bytes_wraps() {
        for n in [256usize, 300, PIECE * 3] {
            let a: Vec<i8> = (0..2 * n).map(|i| (i * 7) as i8).collect();
            for step in [1, 2] {
                let expected = (0..n).fold(3i8, |s, i| s.wrapping_add(a[i * step].wrapping_mul(a[i])));
                let mut c = 3i8;
                sum(n, (&a, &a), [step as isize, 1], [false; 2], &mut c, 1);
                assert_eq!(c, expected, "{n} {step}");
            }
        }
    }
}
