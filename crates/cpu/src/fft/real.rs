//! Transforms of real numbers of even length by complex ones of half the length.
//!
//! The numbers at even places count as real parts, and those at odd places as imaginary ones. The transform of these is
//! the sum of two transforms that symmetry takes apart; the other direction puts them together first. ("Numerical
//! Recipes", 3rd edition, section 12.3.2.)

use super::Precision;
use crate::math::{Float, Isa, Kernel, run};
use flambeau_base::Complex;
use rustfft::{Fft, FftDirection, FftPlanner};
use std::marker::PhantomData;
use std::sync::Arc;

/// Real numbers transformed at a time: as many rows as make these, so that calls cost little in short ones.
const BATCH: usize = 1 << 10;

/// The plan of one even length and direction.
pub(super) struct Halved<T: Precision> {
    fft: Arc<dyn Fft<T>>,
    /// `-i exp(-2 pi i k / n)`, by which the parts are turned against each other.
    turns: Vec<Complex<T>>,
}

impl<T: Precision> Halved<T> {
    pub(super) fn new(n: usize, direction: FftDirection) -> Halved<T> {
        let turn = |k: usize| {
            let (sin, cos) = (std::f64::consts::TAU * k as f64 / n as f64).sin_cos();
            Complex::new(T::of(-sin), T::of(-cos))
        };
        Halved { fft: FftPlanner::new().plan_fft(n / 2, direction), turns: (0..n / 2).map(turn).collect() }
    }

    /// Rows that [`Halved::forward`] and [`Halved::inverse`] take at most.
    pub(super) fn rows(&self) -> usize {
        (BATCH / 2 / self.turns.len()).max(1)
    }

    /// Numbers that these work with.
    pub(super) fn scratch(&self) -> Vec<Complex<T>> {
        let more = self.fft.get_immutable_scratch_len().max(self.fft.get_outofplace_scratch_len());
        vec![Complex::default(); self.rows() * self.turns.len() + more]
    }

    /// From rows of `n` real numbers to the first `n / 2 + 1` complex ones of their transforms, scaled, in rows of `width`.
    pub(super) fn forward(
        &self,
        from: &[T],
        (to, width): (&mut [Complex<T>], usize),
        scale: T,
        scratch: &mut [Complex<T>],
    ) {
        let (middle, scratch) = scratch.split_at_mut(self.rows() * self.turns.len());
        let middle = &mut middle[..from.len() / 2];
        self.fft.process_immutable_with_scratch(pairs(from), middle, scratch);
        // SAFETY: the machine has its level.
        unsafe { run::<Apart<T>>((middle, &self.turns, scale, (to, width))) }
    }

    /// From rows of the first `n / 2 + 1` numbers of Hermitian sequences to rows of `n` real ones, scaled. What would have
    /// to be real counts as real.
    pub(super) fn inverse(&self, from: &[Complex<T>], to: &mut [T], scale: T, scratch: &mut [Complex<T>]) {
        let (middle, scratch) = scratch.split_at_mut(self.rows() * self.turns.len());
        let middle = &mut middle[..to.len() / 2];
        // SAFETY: the machine has its level.
        unsafe { run::<Together<T>>((from, &self.turns, scale, middle)) };
        self.fft.process_outofplace_with_scratch(middle, pairs_mut(to), scratch);
    }
}

/// An even number of real numbers as complex ones.
fn pairs<T>(x: &[T]) -> &[Complex<T>] {
    // SAFETY: a complex number is two real ones, and aligned as these are.
    unsafe { std::slice::from_raw_parts(x.as_ptr().cast(), x.len() / 2) }
}

fn pairs_mut<T>(x: &mut [T]) -> &mut [Complex<T>] {
    // SAFETY: as in `pairs`.
    unsafe { std::slice::from_raw_parts_mut(x.as_mut_ptr().cast(), x.len() / 2) }
}

/// `(a + conj(b) + turn * (a - conj(b))) * scale`.
#[inline(always)]
fn turned<T: Float>(a: Complex<T>, b: Complex<T>, turn: Complex<T>, scale: T) -> Complex<T> {
    let (sum, difference) = ((a.re + b.re, a.im - b.im), (a.re - b.re, a.im + b.im));
    Complex {
        re: (sum.0 + (turn.re * difference.0 - turn.im * difference.1)) * scale,
        im: (sum.1 + (turn.re * difference.1 + turn.im * difference.0)) * scale,
    }
}

struct Apart<'a, T>(PhantomData<&'a T>);
impl<'a, T: Float> Kernel for Apart<'a, T> {
    /// The transforms of pairs, the turns, the scale, and where those of numbers go, in rows of some width.
    type Args = (&'a [Complex<T>], &'a [Complex<T>], T, (&'a mut [Complex<T>], usize));
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((from, turns, scale, (to, width)): Self::Args) {
        let half = turns.len();
        let inner = scale * T::HALF;
        for (from, to) in from.chunks_exact(half).zip(to.chunks_exact_mut(width)) {
            let first = from[0];
            to[0] = Complex { re: (first.re + first.im) * scale, im: T::ZERO };
            to[half] = Complex { re: (first.re - first.im) * scale, im: T::ZERO };
            let from = &from[1..];
            for (((to, a), b), turn) in to[1..half].iter_mut().zip(from).zip(from.iter().rev()).zip(&turns[1..]) {
                *to = turned(*a, *b, *turn, inner);
            }
        }
    }
}

struct Together<'a, T>(PhantomData<&'a T>);
impl<'a, T: Float> Kernel for Together<'a, T> {
    /// The transforms of numbers, the turns, the scale, and where those of pairs go.
    type Args = (&'a [Complex<T>], &'a [Complex<T>], T, &'a mut [Complex<T>]);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((from, turns, scale, to): Self::Args) {
        let half = turns.len();
        for (from, to) in from.chunks_exact(half + 1).zip(to.chunks_exact_mut(half)) {
            let (first, last) = (from[0].re, from[half].re);
            to[0] = Complex { re: (first + last) * scale, im: (first - last) * scale };
            let from = &from[1..half];
            for (((to, a), b), turn) in to[1..].iter_mut().zip(from).zip(from.iter().rev()).zip(&turns[1..]) {
                *to = turned(*a, *b, Complex { re: turn.re, im: -turn.im }, scale);
            }
        }
    }
}
