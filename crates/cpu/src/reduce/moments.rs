//! Reductions whose accumulator is more than a number: variance and log-sum-exp.
//!
//! Both take two passes over a block that is in cache (a mean or a maximum, then what it is the centre of) and merge
//! blocks, so memory is read once.

use super::columns::fold_columns;
use super::fold::{Fold, Max, Sum, Value, fold_run, larger};
use super::simple::write;
use super::{Block, Output, Reducer};
use crate::math::{Float, Isa, Kernel, entry, level};
use flambeau_base::{Complex, DType};
use std::marker::PhantomData;

/// Columns side by side.
const TILE: usize = 256;

/// Elements gone over twice while they are in cache.
const BLOCK: usize = 8192;

/// Runs `each` over the sub-blocks of a block that stay in cache between two passes.
#[inline(always)]
fn sub_blocks<T>(b: Block, mut each: impl FnMut(Block)) {
    let at_once = (BLOCK / b.cols).max(1);
    for r in (0..b.rows).step_by(at_once) {
        each(b.rows_from(r, at_once, size_of::<T>()));
    }
}

/// The sum of distances from the parameter, or of their squares.
struct SumDeviations<T, const SQUARED: bool>(PhantomData<T>);
impl<T, const SQUARED: bool> Clone for SumDeviations<T, SQUARED> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const SQUARED: bool> Copy for SumDeviations<T, SQUARED> {}

impl<T: Value, const SQUARED: bool> Fold for SumDeviations<T, SQUARED> {
    type In = T;
    type State = f64;
    type Param = f64;
    const IDENTITY: f64 = 0.0;
    #[inline(always)]
    fn one<I: Isa>(self, x: T, mean: f64) -> f64 {
        let d = x.to_f64() - mean;
        if SQUARED { d * d } else { d }
    }
    #[inline(always)]
    fn merge(self, a: f64, b: f64) -> f64 {
        a + b
    }
}

/// Count, mean and sum of squared deviations.
#[derive(Clone, Copy)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    const EMPTY: Moments = Moments { count: 0.0, mean: 0.0, squares: 0.0 };

    /// The moments of both sets: Chan, Golub & LeVeque, "Updating formulae and a pairwise algorithm for computing
    /// sample variances", 1979.
    #[inline(always)]
    fn merge(self, other: Moments) -> Moments {
        if self.count == 0.0 {
            return other;
        }
        if other.count == 0.0 {
            return self;
        }
        let count = self.count + other.count;
        let delta = other.mean - self.mean;
        let share = other.count / count;
        let mean = self.mean + delta * share;
        Moments {
            count,
            // Infinities of one sign stay infinite.
            mean: if mean.is_nan() { self.mean + other.mean } else { mean },
            squares: self.squares + other.squares + delta * delta * (self.count * share),
        }
    }
}

/// The moments of contiguous elements in one pass, or nothing if some are not finite or the first is far out.
///
/// Sums are of distances from the first element: where it is within 16 standard deviations of the mean, cancellation
/// costs at most 8 bits of a double, far below the rounding of `f32` elements.
///
/// # Safety
/// `x` must be valid for `n >= 1` elements.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loop countable, and its bounds constant.
unsafe fn one_pass_moments<T: Value<Sum = f64>>(x: *const T, n: usize) -> Option<Moments> {
    /// Accumulators side by side: four AVX-512 vectors hide the latency of an addition.
    const N: usize = 32;
    // SAFETY: the caller's elements, here and below.
    let first = unsafe { (*x).to_f64() };
    let (mut sums, mut squares) = ([0.0; N], [0.0; N]);
    let mut at = 0;
    while at + N <= n {
        for l in 0..N {
            // SAFETY: as above.
            let d = unsafe { *x.add(at + l) }.to_f64() - first;
            sums[l] += d;
            squares[l] += d * d;
        }
        at += N;
    }
    let (mut sum, mut square) = (0.0, 0.0);
    for i in at..n {
        // SAFETY: as above.
        let d = unsafe { *x.add(i) }.to_f64() - first;
        sum += d;
        square += d * d;
    }
    let mut half = N;
    while half > 1 {
        half /= 2;
        for l in 0..half {
            sums[l] += sums[l + half];
            squares[l] += squares[l + half];
        }
    }
    let (sum, square, count) = (sum + sums[0], square + squares[0], n as f64);
    let distance = sum / count;
    let squares = (square - sum * distance).max(0.0);
    let near = square.is_finite() && distance * distance * count <= 256.0 * squares;
    near.then_some(Moments { count, mean: first + distance, squares })
}

struct FoldMoments<T>(PhantomData<T>);

impl<T: Value<Sum = f64>> Kernel for FoldMoments<T> {
    type Args = (Block, *mut Moments);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((b, states): Self::Args) {
        // SAFETY: one state per column by the contract.
        let states = unsafe { std::slice::from_raw_parts_mut(states, b.cols) };
        let units = [(); TILE];
        if b.is_runs() {
            // Loops, not a closure, which need not be inlined and then loses the instruction set.
            for (j, state) in states.iter_mut().enumerate() {
                let x = b.data.cast::<T>().wrapping_offset(j as isize * b.col_stride);
                for r in (0..b.rows).step_by(BLOCK) {
                    let (n, before) = (BLOCK.min(b.rows - r), b.before(j) + r);
                    // SAFETY: contiguous elements of the caller's block, at least one.
                    let moments = unsafe { moments_of_run::<I, T>(x.wrapping_add(r), n, before) };
                    *state = state.merge(moments);
                }
            }
            return;
        }
        sub_blocks::<T>(b, |b| {
            let count = b.rows as f64;
            let (mut means, mut squares) = ([0.0; TILE], [0.0; TILE]);
            // SAFETY: rows of the caller's block.
            unsafe { fold_columns::<I, _>(Sum::<T>::NEW, b, &units, &mut means) };
            for m in &mut means[..b.cols] {
                *m /= count;
            }
            // SAFETY: as above.
            unsafe { fold_columns::<I, _>(SumDeviations::<T, true>(PhantomData), b, &means, &mut squares) };
            if means.iter().zip(&squares).take(b.cols).any(|(&m, &s)| is_far(m, s, count)) {
                let mut rests = [0.0; TILE];
                // SAFETY: as above.
                unsafe { fold_columns::<I, _>(SumDeviations::<T, false>(PhantomData), b, &means, &mut rests) };
                for ((mean, square), rest) in means.iter_mut().zip(&mut squares).zip(rests).take(b.cols) {
                    *square = (*square - rest * rest / count).max(0.0);
                    *mean += rest / count;
                }
            }
            for (j, state) in states.iter_mut().enumerate() {
                *state = state.merge(Moments { count, mean: means[j], squares: squares[j] });
            }
        });
    }
}

/// Whether the rounding of a mean far from zero shows in squares of small distances: then what the distances add up to is
/// taken into account, as in the corrected two-pass algorithm of Chan, Golub & LeVeque, "Algorithms for computing the
/// sample variance", 1983.
#[inline(always)]
fn is_far(mean: f64, squares: f64, count: f64) -> bool {
    squares < count * (mean * 1e-4).powi(2)
}

/// The moments of contiguous elements.
///
/// # Safety
/// As [`fold_run`]; `n >= 1`.
#[inline(always)]
unsafe fn moments_of_run<I: Isa, T: Value<Sum = f64>>(x: *const T, n: usize, before: usize) -> Moments {
    // Of doubles one pass would lose digits of a mean near zero.
    // SAFETY: the caller's elements, here and below.
    if T::DTYPE == DType::F32 {
        // SAFETY: as above.
        let one_pass = unsafe { one_pass_moments(x, n) };
        if let Some(moments) = one_pass {
            return moments;
        }
    }
    let count = n as f64;
    // SAFETY: as above.
    let mut mean = unsafe { fold_run::<I, _>(Sum::<T>::NEW, x, n, before, ()) } / count;
    // SAFETY: as above.
    let mut squares = unsafe { fold_run::<I, _>(SumDeviations::<T, true>(PhantomData), x, n, before, mean) };
    if is_far(mean, squares, count) {
        // SAFETY: as above.
        let rest = unsafe { fold_run::<I, _>(SumDeviations::<T, false>(PhantomData), x, n, before, mean) };
        squares = (squares - rest * rest / count).max(0.0);
        mean += rest / count;
    }
    Moments { count, mean, squares }
}

/// Variance or standard deviation, and the mean where there is a second output.
pub(super) struct Variance<T> {
    correction: f64,
    root: bool,
    run: unsafe fn((Block, *mut Moments)),
    of: PhantomData<T>,
}

impl<T: Value<Sum = f64>> Variance<T> {
    pub(super) fn new(correction: f64, root: bool) -> Self {
        Variance { correction, root, run: entry::<FoldMoments<T>>(level()), of: PhantomData }
    }
}

impl<T: Value<Sum = f64>> Reducer for Variance<T> {
    fn domain(&self) -> DType {
        T::DTYPE
    }
    fn state_size(&self) -> usize {
        size_of::<Moments>()
    }
    fn tile(&self) -> usize {
        TILE
    }
    unsafe fn init(&self, states: *mut u8, n: usize) {
        // SAFETY: `n` aligned states by the contract.
        unsafe { std::slice::from_raw_parts_mut(states.cast(), n) }.fill(Moments::EMPTY);
    }
    unsafe fn fold(&self, block: Block, states: *mut u8) {
        // SAFETY: the machine has `level()`; the rest is the contract.
        unsafe { (self.run)((block, states.cast())) }
    }
    unsafe fn merge(&self, into: *mut u8, from: *const u8, n: usize) {
        for i in 0..n {
            // SAFETY: two runs of `n` aligned states by the contract.
            unsafe {
                let into = into.cast::<Moments>().add(i);
                *into = (*into).merge(*from.cast::<Moments>().add(i));
            }
        }
    }
    unsafe fn finish(&self, states: *const u8, n: usize, outputs: &[Output]) {
        // SAFETY: `n` aligned states by the contract.
        let states = unsafe { std::slice::from_raw_parts(states.cast::<Moments>(), n) };
        let variance = |i: usize| {
            let Moments { count, squares, .. } = states[i];
            let variance = if count == 0.0 { f64::NAN } else { squares / (count - self.correction).max(0.0) };
            if self.root { variance.sqrt() } else { variance }
        };
        // SAFETY: the contract.
        unsafe { write(&outputs[0], n, variance) };
        if let Some(output) = outputs.get(1) {
            let mean = |i: usize| if states[i].count == 0.0 { f64::NAN } else { states[i].mean };
            // SAFETY: the contract.
            unsafe { write(output, n, mean) };
        }
    }
}

/// The sum of exponentials of distances from the parameter.
struct SumExp<T>(PhantomData<T>);
impl<T> Clone for SumExp<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for SumExp<T> {}

impl<T: Value + Float> Fold for SumExp<T> {
    type In = T;
    type State = f64;
    type Param = T;
    const IDENTITY: f64 = 0.0;
    #[inline(always)]
    fn one<I: Isa>(self, x: T, shift: T) -> f64 {
        Float::exp::<I>(x - shift).to_f64()
    }
    #[inline(always)]
    fn merge(self, a: f64, b: f64) -> f64 {
        a + b
    }
}

/// The largest element and the sum of exponentials of the distances from it (from zero, where it is infinite).
#[derive(Clone, Copy)]
struct Exponentials<S> {
    max: f64,
    sum: S,
}

/// What exponents are taken relative to: the maximum, unless infinities would cancel.
fn shift(max: f64) -> f64 {
    if max.is_finite() { max } else { 0.0 }
}

struct FoldExponentials<T>(PhantomData<T>);

impl<T: Value + Float> Kernel for FoldExponentials<T> {
    type Args = (Block, *mut Exponentials<f64>);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((b, states): Self::Args) {
        // SAFETY: one state per column by the contract.
        let states = unsafe { std::slice::from_raw_parts_mut(states, b.cols) };
        let (units, exponentials) = ([(); TILE], SumExp::<T>(PhantomData));
        if b.is_runs() {
            // As in `FoldMoments`.
            for (j, state) in states.iter_mut().enumerate() {
                let x = b.data.cast::<T>().wrapping_offset(j as isize * b.col_stride);
                for r in (0..b.rows).step_by(BLOCK) {
                    let (x, n, before) = (x.wrapping_add(r), BLOCK.min(b.rows - r), b.before(j) + r);
                    // SAFETY: contiguous elements of the caller's block.
                    let max = unsafe { fold_run::<I, _>(Max::<T>::NEW, x, n, before, ()) }.to_f64();
                    // SAFETY: as above.
                    let sum = unsafe { fold_run::<I, _>(exponentials, x, n, before, T::from_f64(shift(max))) };
                    *state = merge_exponentials(*state, Exponentials { max, sum });
                }
            }
            return;
        }
        sub_blocks::<T>(b, |b| {
            let (mut maxima, mut sums) = ([T::LOWEST; TILE], [0.0; TILE]);
            // SAFETY: rows of the caller's block.
            unsafe { fold_columns::<I, _>(Max::<T>::NEW, b, &units, &mut maxima) };
            let mut shifts = maxima;
            for s in &mut shifts[..b.cols] {
                *s = T::from_f64(shift(s.to_f64()));
            }
            // SAFETY: as above.
            unsafe { fold_columns::<I, _>(exponentials, b, &shifts, &mut sums) };
            for (j, state) in states.iter_mut().enumerate() {
                *state = merge_exponentials(*state, Exponentials { max: maxima[j].to_f64(), sum: sums[j] });
            }
        });
    }
}

fn merge_exponentials(a: Exponentials<f64>, b: Exponentials<f64>) -> Exponentials<f64> {
    let max = larger(a.max, b.max);
    if !max.is_finite() {
        return Exponentials { max, sum: 0.0 };
    }
    let scaled = |e: Exponentials<f64>| if e.max == max { e.sum } else { e.sum * (e.max - max).exp() };
    Exponentials { max, sum: scaled(a) + scaled(b) }
}

/// The logarithm of the sum of exponentials.
pub(super) struct LogSumExp<T> {
    run: unsafe fn((Block, *mut Exponentials<f64>)),
    of: PhantomData<T>,
}

impl<T: Value + Float> LogSumExp<T> {
    pub(super) fn new() -> Self {
        LogSumExp { run: entry::<FoldExponentials<T>>(level()), of: PhantomData }
    }
}

impl<T: Value + Float> Reducer for LogSumExp<T> {
    fn domain(&self) -> DType {
        T::DTYPE
    }
    fn state_size(&self) -> usize {
        size_of::<Exponentials<f64>>()
    }
    fn tile(&self) -> usize {
        TILE
    }
    unsafe fn init(&self, states: *mut u8, n: usize) {
        let empty = Exponentials { max: f64::NEG_INFINITY, sum: 0.0 };
        // SAFETY: `n` aligned states by the contract.
        unsafe { std::slice::from_raw_parts_mut(states.cast(), n) }.fill(empty);
    }
    unsafe fn fold(&self, block: Block, states: *mut u8) {
        // SAFETY: the machine has `level()`; the rest is the contract.
        unsafe { (self.run)((block, states.cast())) }
    }
    unsafe fn merge(&self, into: *mut u8, from: *const u8, n: usize) {
        for i in 0..n {
            // SAFETY: two runs of `n` aligned states by the contract.
            unsafe {
                let into = into.cast::<Exponentials<f64>>().add(i);
                *into = merge_exponentials(*into, *from.cast::<Exponentials<f64>>().add(i));
            }
        }
    }
    unsafe fn finish(&self, states: *const u8, n: usize, outputs: &[Output]) {
        // SAFETY: `n` aligned states by the contract.
        let states = unsafe { std::slice::from_raw_parts(states.cast::<Exponentials<f64>>(), n) };
        let value = |i: usize| {
            let Exponentials { max, sum } = states[i];
            if max.is_finite() { max + sum.ln() } else { max }
        };
        // SAFETY: the contract.
        unsafe { write(&outputs[0], n, value) }
    }
}

/// Log-sum-exp of complex numbers, shifted by the largest real part. Rare, so element by element.
pub(super) struct ComplexLogSumExp;

type ComplexExponentials = Exponentials<Complex<f64>>;

impl ComplexLogSumExp {
    fn merge(a: ComplexExponentials, b: ComplexExponentials) -> ComplexExponentials {
        let max = larger(a.max, b.max);
        let scaled = |e: ComplexExponentials| {
            if e.max == f64::NEG_INFINITY { e.sum } else { e.sum * (shift(e.max) - shift(max)).exp() }
        };
        Exponentials { max, sum: scaled(a) + scaled(b) }
    }
}

impl Reducer for ComplexLogSumExp {
    fn domain(&self) -> DType {
        DType::Complex128
    }
    fn state_size(&self) -> usize {
        size_of::<ComplexExponentials>()
    }
    fn tile(&self) -> usize {
        TILE
    }
    unsafe fn init(&self, states: *mut u8, n: usize) {
        let empty = Exponentials { max: f64::NEG_INFINITY, sum: Complex::<f64>::default() };
        // SAFETY: `n` aligned states by the contract.
        unsafe { std::slice::from_raw_parts_mut(states.cast(), n) }.fill(empty);
    }
    unsafe fn fold(&self, b: Block, states: *mut u8) {
        for r in 0..b.rows {
            for j in 0..b.cols {
                // SAFETY: element (r, j) of the block and state j, by the contract.
                unsafe {
                    let x =
                        *b.data.cast::<Complex<f64>>().offset(r as isize * b.row_stride + j as isize * b.col_stride);
                    let state = states.cast::<ComplexExponentials>().add(j);
                    let one = Exponentials { max: x.re, sum: (x - shift(x.re)).exp() };
                    *state = Self::merge(*state, one);
                }
            }
        }
    }
    unsafe fn merge(&self, into: *mut u8, from: *const u8, n: usize) {
        for i in 0..n {
            // SAFETY: two runs of `n` aligned states by the contract.
            unsafe {
                let into = into.cast::<ComplexExponentials>().add(i);
                *into = Self::merge(*into, *from.cast::<ComplexExponentials>().add(i));
            }
        }
    }
    unsafe fn finish(&self, states: *const u8, n: usize, outputs: &[Output]) {
        // SAFETY: `n` aligned states by the contract.
        let states = unsafe { std::slice::from_raw_parts(states.cast::<ComplexExponentials>(), n) };
        // SAFETY: the contract.
        unsafe { write(&outputs[0], n, |i| states[i].sum.ln() + shift(states[i].max)) }
    }
}
