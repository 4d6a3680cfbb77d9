//! Resizing along one dim: every place of the output is a weighted sum of a few places of the input.

use crate::copy::Shared;
use crate::math::{Float, Isa, Kernel, run};
use flambeau_base::iter::GRAIN;
use flambeau_base::parallel::parallel_for;
use flambeau_base::{Element, dtype::cast};
use std::marker::PhantomData;
use std::ops::Range;

/// Elements of a row that are added up in registers.
const CHUNK: usize = 32;

/// Rows that are computed at once.
const AT_ONCE: usize = 4;

/// Which places of the input every place of the output reads, and with which weights.
#[derive(Clone, Copy)]
pub struct Taps<'a> {
    /// Where each output's taps begin, and where those of the last end.
    pub starts: &'a [i64],
    /// The places, output by output.
    pub places: &'a [i64],
    /// Their weights.
    pub weights: &'a [f64],
}

impl Taps<'_> {
    /// Whether they are in order, and all places below `from`.
    pub fn fit(&self, from: usize) -> bool {
        let ends = self.starts.first() == Some(&0) && self.starts.last() == Some(&(self.places.len() as i64));
        let rises = self.starts.windows(2).all(|w| w[0] <= w[1]);
        let within = self.places.iter().all(|p| (0..from as i64).contains(p));
        ends && rises && within && self.weights.len() == self.places.len()
    }

    fn of(&self, output: usize) -> Range<usize> {
        self.starts[output] as usize..self.starts[output + 1] as usize
    }
}

/// Resizes the middle dim of a contiguous array of sizes `outer`, `from`, `inner` by `taps`, which must fit it.
pub(crate) fn resize<T: Float + Element>(taps: Taps<'_>, (from, inner): (usize, usize), x: &[T], out: &mut [T]) {
    let to = taps.starts.len() - 1;
    if out.is_empty() {
        return;
    }
    assert!(taps.fit(from) && out.len().is_multiple_of(to * inner), "the taps do not fit the array");
    assert!(x.len() == out.len() / (to * inner) * from * inner, "the arrays differ in size");
    let weights: Vec<T> = taps.weights.iter().map(|w| cast(*w)).collect();
    let target = Shared(out.as_mut_ptr());
    // Rows of the output: along the dim where it is the innermost one, else along what lies inside it.
    let width = if inner == 1 { to } else { inner };
    let work = width * taps.places.len().div_ceil(to).max(1);
    parallel_for(out.len() / width, GRAIN.div_ceil(work).next_multiple_of(AT_ONCE), &|range| {
        // SAFETY: every row of the output is one piece of work's; the rest was checked.
        unsafe { run::<Rows<T>>((taps, &weights, (from, inner), range, x, target.get())) };
    });
}

struct Rows<'a, T>(PhantomData<&'a T>);

impl<'a, T: Float + Element> Kernel for Rows<'a, T> {
    /// The taps, their weights, the input's sizes, the rows, the input and the whole output.
    type Args = (Taps<'a>, &'a [T], (usize, usize), Range<usize>, &'a [T], *mut T);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((taps, weights, (from, inner), rows, x, out): Self::Args) {
        let to = taps.starts.len() - 1;
        if inner == 1 {
            let along = Along { taps, each: commonest(taps), weights, from, to };
            let several = rows.start + rows.len() / AT_ONCE * AT_ONCE;
            // SAFETY: rows of the output, which are this call's, and those of the input that they are computed from.
            unsafe {
                for row in (rows.start..several).step_by(AT_ONCE) {
                    along.rows::<I, AT_ONCE>(x[row * from..(row + AT_ONCE) * from].as_ptr(), out.add(row * to));
                }
                for row in several..rows.end {
                    along.rows::<I, 1>(x[row * from..(row + 1) * from].as_ptr(), out.add(row * to));
                }
            }
            return;
        }
        for row in rows {
            // SAFETY: a row of the output, which is this call's.
            let out = unsafe { std::slice::from_raw_parts_mut(out.add(row * inner), inner) };
            let x = &x[row / to * from * inner..];
            across::<I, T>(&taps.places[taps.of(row % to)], &weights[taps.of(row % to)], x, out);
        }
    }
}

/// How many taps every output has, if all have as many.
fn commonest(taps: Taps<'_>) -> Option<usize> {
    let each = taps.of(0).len();
    taps.starts.windows(2).all(|w| w[1] - w[0] == each as i64).then_some(each)
}

/// Resizing along rows: several of them at a time, so that places and weights are read once for them.
struct Along<'a, T> {
    taps: Taps<'a>,
    /// How many taps every output has, if all have as many.
    each: Option<usize>,
    weights: &'a [T],
    from: usize,
    to: usize,
}

impl<T: Float> Along<'_, T> {
    /// `R` rows, by the form that the taps allow.
    ///
    /// # Safety
    /// `x` and `out` have `R` rows of `from` and of `to` elements, whose taps these are.
    #[inline(always)]
    unsafe fn rows<I: Isa, const R: usize>(&self, x: *const T, out: *mut T) {
        let taps = self.taps;
        // SAFETY: the caller's.
        unsafe {
            match self.each {
                Some(1) if self.weights.iter().all(|w| *w == T::ONE) => self.picked::<R>(x, out),
                Some(2) => self.summed::<I, R>(x, out, |k| 2 * k..2 * k + 2),
                Some(4) => self.summed::<I, R>(x, out, |k| 4 * k..4 * k + 4),
                _ => self.summed::<I, R>(x, out, |k| taps.of(k)),
            }
        }
    }

    /// Every output is one place's element.
    ///
    /// # Safety
    /// As of [`Along::rows`].
    #[inline(always)]
    unsafe fn picked<const R: usize>(&self, x: *const T, out: *mut T) {
        for r in 0..R {
            for o in 0..self.to {
                // SAFETY: the caller's.
                unsafe {
                    *out.add(r * self.to + o) = *x.add(r * self.from + *self.taps.places.get_unchecked(o) as usize)
                };
            }
        }
    }

    /// Output `o` has the taps `of(o)`.
    ///
    /// # Safety
    /// As of [`Along::rows`].
    #[inline(always)]
    unsafe fn summed<I: Isa, const R: usize>(&self, x: *const T, out: *mut T, of: impl Fn(usize) -> Range<usize>) {
        for o in 0..self.to {
            let mut sums = [T::ZERO; R];
            for k in of(o) {
                // SAFETY: the caller's.
                let (place, weight) =
                    unsafe { (*self.taps.places.get_unchecked(k) as usize, *self.weights.get_unchecked(k)) };
                for (r, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: as above.
                    *sum = T::mul_add::<I>(weight, unsafe { *x.add(r * self.from + place) }, *sum);
                }
            }
            for (r, sum) in sums.into_iter().enumerate() {
                // SAFETY: as above.
                unsafe { *out.add(r * self.to + o) = sum };
            }
        }
    }
}

/// A row inside the dim: the weighted sum of rows of `x`.
#[inline(always)]
fn across<I: Isa, T: Float>(places: &[i64], weights: &[T], x: &[T], out: &mut [T]) {
    let inner = out.len();
    if let ([place], [weight]) = (places, weights)
        && *weight == T::ONE
    {
        return out.copy_from_slice(&x[*place as usize * inner..][..inner]);
    }
    for (c, out) in out.chunks_mut(CHUNK).enumerate() {
        let mut sum = [T::ZERO; CHUNK];
        for (place, weight) in places.iter().zip(weights) {
            let x = &x[*place as usize * inner + c * CHUNK..][..out.len()];
            match <&[T; CHUNK]>::try_from(x) {
                Ok(x) => (0..CHUNK).for_each(|i| sum[i] = T::mul_add::<I>(*weight, x[i], sum[i])),
                Err(_) => x.iter().zip(&mut sum).for_each(|(x, s)| *s = T::mul_add::<I>(*weight, *x, *s)),
            }
        }
        out.copy_from_slice(&sum[..out.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_weighted_sums() {
        let taps = Taps { starts: &[0, 1, 3, 3], places: &[0, 0, 1], weights: &[1.0, 0.25, 0.75] };
        let mut out = [9.0f64; 6];
        resize(taps, (2, 1), &[4.0, 8.0, -4.0, 0.0], &mut out);
        assert_eq!(out, [4.0, 7.0, 0.0, -4.0, -1.0, 0.0]);
        resize(taps, (2, 2), &[4.0, -4.0, 8.0, 0.0], &mut out);
        assert_eq!(out, [4.0, -4.0, 7.0, -1.0, 0.0, 0.0]);
        let pairs = Taps { starts: &[0, 2, 4], places: &[0, 1, 1, 2], weights: &[0.5, 0.5, 2.0, -1.0] };
        resize(pairs, (3, 1), &[1.0, 3.0, 5.0], &mut out[..2]);
        assert_eq!(out[..2], [2.0, 1.0]);
        assert!(!pairs.fit(2));
        // One tap, none, and three.
        let uneven = Taps { starts: &[0, 1, 1, 4], places: &[1, 0, 1, 1], weights: &[2.0, 1.0, -1.0, 0.5] };
        let mut out = [9.0f64; 3];
        resize(uneven, (2, 1), &[3.0, f64::INFINITY], &mut out);
        assert!(out[0] == f64::INFINITY && out[1] == 0.0 && out[2].is_nan());
        resize(uneven, (2, 1), &[3.0, 4.0], &mut out);
        assert_eq!(out, [8.0, 0.0, 1.0]);
    }

    /// Rows that are taken several at once, and those that are left: each as on its own.
    #[test]
    fn rows_together_are_as_rows_alone() {
        let taps: [(&[i64], &[i64], &[f64]); 5] = [
            (&[0, 1, 2, 3], &[2, 0, 1], &[1.0, 1.0, 1.0]),
            (&[0, 2, 4], &[0, 1, 1, 2], &[0.5, 0.5, 2.0, -1.0]),
            (&[0, 4], &[0, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]),
            (&[0, 1, 3, 3], &[1, 1, 2], &[2.0, 0.25, 0.75]),
            (&[0, 3, 6], &[0, 1, 2, 2, 1, 0], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ];
        for (starts, places, weights) in taps {
            let (taps, to) = (Taps { starts, places, weights }, starts.len() - 1);
            for rows in 1..10 {
                let x: Vec<f64> = (0..rows * 3).map(|i| if i % 6 == 0 { f64::INFINITY } else { i as f64 }).collect();
                let mut out = vec![9.0; rows * to];
                resize(taps, (3, 1), &x, &mut out);
                for row in 0..rows {
                    for o in 0..to {
                        let terms = (starts[o] as usize..starts[o + 1] as usize)
                            .map(|k| weights[k] * x[row * 3 + places[k] as usize]);
                        let wanted = terms.fold(0.0, |sum, term| sum + term);
                        assert_eq!(out[row * to + o], wanted, "{starts:?}, row {row} of {rows}, {o}");
                    }
                }
            }
        }
    }
}
