//! Reductions whose accumulator is more than a number: variance and log-sum-exp.
//!
//! Memory is read once: what a block in cache is the spread of, a mean or a maximum, is found before the spread, or stood
//! in for by that of a few elements, by a first one or by the maximum so far; and blocks are merged.

use super::columns::{LOOK, fold_columns};
use super::fold::{Fold, Max, Sum, Value, fold_run, larger};
use super::quick_moments::{MANY, quick_columns, quick_moments};
use super::simple::{write, write_blocks};
use super::{Block, Output, Reducer};
use crate::buffer::aligned;
use crate::math::{Float, Isa, Kernel, entry, level, run, select};
use crate::prefetch::prefetch_run;
use crate::softmax::{LINES, add_exponentials_of_lines, exponentials_of_row, relative};
use flambeau_base::{Complex, DType};
use std::marker::PhantomData;

/// Columns side by side; and where they are read as they lie, in long rows, which memory gives faster, the more so where no
/// cache may hold them.
const TILE: usize = 256;
const WIDE: usize = 1024;
const FAR_WIDE: usize = 4096;

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
pub(super) struct Moments {
    pub(super) count: f64,
    pub(super) mean: f64,
    pub(super) squares: f64,
}

impl Moments {
    /// The moments of both sets: Chan, Golub & LeVeque, "Updating formulae and a pairwise algorithm for computing
    /// sample variances", 1979.
    #[inline(always)]
    pub(super) fn merge(self, other: Moments) -> Moments {
        let count = self.count + other.count;
        let delta = other.mean - self.mean;
        let share = other.count / count;
        let mean = self.mean + delta * share;
        // Infinities of one sign stay infinite.
        let mean = select(mean.is_nan(), self.mean + other.mean, mean);
        let squares = self.squares + other.squares + delta * delta * (self.count * share);
        // Of either alone where the other is empty. (All is computed: then compilers merge several side by side.)
        let (first, second) = (other.count == 0.0, self.count == 0.0);
        let of = |a: f64, b: f64, both: f64| select(second, b, select(first, a, both));
        Moments { count, mean: of(self.mean, other.mean, mean), squares: of(self.squares, other.squares, squares) }
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
    // (Halves of constant sizes: with others the accumulators would be in memory.)
    let total = |mut x: [f64; N]| {
        add_half::<16, N>(&mut x);
        add_half::<8, N>(&mut x);
        add_half::<4, N>(&mut x);
        add_half::<2, N>(&mut x);
        x[0] + x[1]
    };
    let (moments, near) = shifted(first, sum + total(sums), square + total(squares), n as f64);
    near.then_some(moments)
}

/// Adds the second `H` elements to the first.
#[inline(always)]
fn add_half<const H: usize, const N: usize>(x: &mut [f64; N]) {
    for l in 0..H {
        x[l] += x[l + H];
    }
}

/// Adds the moments of columns to their states in one pass: as [`one_pass_moments`], relative to the elements of the first
/// row. Gives up, having changed nothing, if that does not do for one of them.
///
/// # Safety
/// The block's rows must be valid, contiguous elements, [`LOOK`] at least and [`WIDE`] at most.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loops countable, and their bounds constant.
unsafe fn one_pass_columns<T: Value<Sum = f64>>(b: Block, states: &mut [Moments]) -> bool {
    /// Rows that are added before the next columns, and between those that are added and those that are asked for.
    const ROWS: usize = 8;
    let x = b.data.cast::<T>();
    let mut sums = const { aligned([[0.0; 2 * LOOK]; WIDE.div_ceil(LOOK)]) };
    // The last columns are added with some before them, for which that makes no difference.
    let starts = || (0..b.cols).step_by(LOOK).map(|start| start.min(b.cols - LOOK)).zip(0..);
    for from in (1..b.rows).step_by(ROWS) {
        for (start, part) in starts() {
            let mut sum = sums[part];
            // SAFETY: `LOOK` elements of each row of the caller's.
            unsafe {
                let first = x.wrapping_add(start).cast::<[T; LOOK]>().read_unaligned();
                for r in from..b.rows.min(from + ROWS) {
                    let row = x.wrapping_offset(r as isize * b.row_stride).wrapping_add(start);
                    prefetch_run(row.wrapping_offset(ROWS as isize * b.row_stride).cast(), size_of::<[T; LOOK]>());
                    let row = row.cast::<[T; LOOK]>().read_unaligned();
                    for l in 0..LOOK {
                        let d = row[l].to_f64() - first[l].to_f64();
                        sum[l] += d;
                        sum[LOOK + l] += d * d;
                    }
                }
            }
            sums[part] = sum;
        }
    }
    let count = b.rows as f64;
    let moments = |start: usize, part: usize, l: usize| {
        // SAFETY: an element of the first row.
        let first = unsafe { *x.wrapping_add(start + l) }.to_f64();
        shifted(first, sums[part][l], sums[part][LOOK + l], count)
    };
    let mut far = 0u32;
    for (start, part) in starts() {
        for l in 0..LOOK {
            far |= !moments(start, part, l).1 as u32;
        }
    }
    if far != 0 {
        return false;
    }
    let mut done = 0;
    for (start, part) in starts() {
        for l in done - start..LOOK {
            states[start + l] = states[start + l].merge(moments(start, part, l).0);
        }
        done = start + LOOK;
    }
    true
}

/// The moments of `count` elements from the sums of their distances from the first and of the squares of these, and whether
/// they are as good as those of two passes.
#[inline(always)]
fn shifted(first: f64, sum: f64, square: f64, count: f64) -> (Moments, bool) {
    let distance = sum / count;
    let squares = not_negative(square - sum * distance);
    let near = first.finite() & square.finite() & (distance * distance * count <= 256.0 * squares);
    (Moments { count, mean: first + distance, squares }, near)
}

struct FoldMoments<T>(PhantomData<T>);

impl<T: Value<Sum = f64>> Kernel for FoldMoments<T> {
    type Args = (Block, *mut Moments);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((b, states): Self::Args) {
        // SAFETY: one state per column by the contract.
        let states = unsafe { std::slice::from_raw_parts_mut(states, b.cols) };
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
        if const { !I::COMPACT && matches!(T::DTYPE, DType::F32) } && b.cols >= LOOK && b.rows >= MANY {
            // SAFETY: rows of the caller's block, of `f32`.
            if unsafe { quick_columns::<I>(b, states) } {
                return;
            }
        }
        for (part, states) in states.chunks_mut(WIDE).enumerate() {
            let data = b.data.wrapping_add(part * WIDE * size_of::<T>());
            // SAFETY: some columns of the caller's block.
            unsafe { fold_some_columns::<I, T>(Block { data, cols: states.len(), ..b }, states) };
        }
    }
}

/// Adds the moments of columns to their states.
///
/// # Safety
/// The block's rows must be valid, contiguous elements, [`WIDE`] at most.
#[inline(always)]
unsafe fn fold_some_columns<I: Isa, T: Value<Sum = f64>>(b: Block, states: &mut [Moments]) {
    let units = [(); WIDE];
    if const { !I::COMPACT && matches!(T::DTYPE, DType::F32) } && b.cols >= LOOK {
        // SAFETY: the caller's rows.
        if unsafe { one_pass_columns::<T>(b, states) } {
            return;
        }
    }
    let (mut means, mut squares, mut rests) = ([0.0; WIDE], [0.0; WIDE], [0.0; WIDE]);
    sub_blocks::<T>(b, |b| {
        let count = b.rows as f64;
        means[..b.cols].fill(0.0);
        squares[..b.cols].fill(0.0);
        // SAFETY: rows of the caller's block.
        unsafe { fold_columns::<I, _>(Sum::<T>::NEW, b, &units, &mut means) };
        for m in &mut means[..b.cols] {
            *m /= count;
        }
        // SAFETY: as above.
        unsafe { fold_columns::<I, _>(SumDeviations::<T, true>(PhantomData), b, &means, &mut squares) };
        if means.iter().zip(&squares).take(b.cols).any(|(&m, &s)| is_far(m, s, count)) {
            rests[..b.cols].fill(0.0);
            // SAFETY: as above.
            unsafe { fold_columns::<I, _>(SumDeviations::<T, false>(PhantomData), b, &means, &mut rests) };
            for ((mean, square), rest) in means.iter_mut().zip(&mut squares).zip(&rests).take(b.cols) {
                *square = not_negative(*square - rest * rest / count);
                *mean += rest / count;
            }
        }
        for (j, state) in states.iter_mut().enumerate() {
            *state = state.merge(Moments { count, mean: means[j], squares: squares[j] });
        }
    });
}

/// What rounding made negative is zero; NaN stays.
#[inline(always)]
pub(super) fn not_negative(squares: f64) -> f64 {
    select(squares < 0.0, 0.0, squares)
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
    if const { !I::COMPACT && matches!(T::DTYPE, DType::F32) } {
        // SAFETY: as above; they are `f32`.
        let quick = if n >= MANY { unsafe { quick_moments::<I>(x.cast(), n) } } else { None };
        if let Some(moments) = quick {
            return moments;
        }
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
        squares = not_negative(squares - rest * rest / count);
        mean += rest / count;
    }
    Moments { count, mean, squares }
}

/// Adds moments, as many as there are columns, to others.
struct MergeMoments;

impl Kernel for MergeMoments {
    type Args = (*mut Moments, *const Moments, usize);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((into, from, n): Self::Args) {
        for i in 0..n {
            // SAFETY: two runs of `n` states by the contract.
            unsafe { *into.add(i) = (*into.add(i)).merge(*from.add(i)) };
        }
    }
}

/// The variances or standard deviations of states, as many as are asked for, by the correction and whether of roots.
struct Variances;

impl Kernel for Variances {
    type Args = (*const [Moments], *mut [f64], f64, bool);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((states, results, correction, root): Self::Args) {
        // SAFETY: the caller's slices.
        let (states, results) = unsafe { (&*states, &mut *results) };
        for (result, state) in results.iter_mut().zip(states) {
            let variance = state.squares / (state.count - correction).max(0.0);
            *result = select(state.count == 0.0, f64::NAN, variance);
        }
        if root {
            for result in results {
                *result = result.sqrt();
            }
        }
    }
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
    fn tile(&self, direct: bool, far: bool) -> usize {
        match (direct && T::DTYPE == DType::F32, far) {
            (false, _) => TILE,
            (true, false) => WIDE,
            (true, true) => FAR_WIDE,
        }
    }
    unsafe fn init(&self, states: *mut u8, n: usize) {
        // SAFETY: `n` aligned states by the contract; zeros are the moments of nothing.
        unsafe { states.cast::<Moments>().write_bytes(0, n) };
    }
    unsafe fn fold(&self, block: Block, states: *mut u8) {
        // SAFETY: the machine has `level()`; the rest is the contract.
        unsafe { (self.run)((block, states.cast())) }
    }
    unsafe fn merge(&self, into: *mut u8, from: *const u8, n: usize) {
        // SAFETY: two runs of `n` aligned states by the contract; the machine has its level.
        unsafe { run::<MergeMoments>((into.cast(), from.cast(), n)) }
    }
    unsafe fn finish(&self, states: *const u8, n: usize, outputs: &[Output]) {
        // SAFETY: `n` aligned states by the contract.
        let states = unsafe { std::slice::from_raw_parts(states.cast::<Moments>(), n) };
        let variances = |start: usize, results: &mut [f64]| {
            // SAFETY: the machine has its level.
            unsafe { run::<Variances>((&raw const states[start..], &raw mut *results, self.correction, self.root)) }
        };
        // SAFETY: the contract.
        unsafe { write_blocks(&outputs[0], n, variances) };
        if let Some(output) = outputs.get(1) {
            let mean = |i: usize| if states[i].count == 0.0 { f64::NAN } else { states[i].mean };
            // SAFETY: the contract.
            unsafe { write(output, n, mean) };
        }
    }
}

/// The largest element and the sum of exponentials of the distances from it (of no use where it is infinite).
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
        let x = b.data.cast::<T>();
        if b.is_runs() {
            // As in `FoldMoments`.
            for (j, state) in states.iter_mut().enumerate() {
                let x = x.wrapping_offset(j as isize * b.col_stride);
                for r in (0..b.rows).step_by(BLOCK) {
                    let (x, n) = (x.wrapping_add(r), BLOCK.min(b.rows - r));
                    // SAFETY: contiguous elements of the caller's block.
                    let (mut max, sum) = unsafe { exponentials_of_row::<I, T>(x, n) };
                    if !max.is_finite() {
                        // There may be NaN beside infinities.
                        // SAFETY: as above.
                        max = unsafe { fold_run::<I, _>(Max::<T>::NEW, x, n, b.before(j) + r, ()) }.to_f64();
                    }
                    let these = Exponentials::new(max, sum);
                    // (The exponentials of one merge take as long as those of a short row.)
                    *state = if r == 0 && state.is_empty() { these } else { merge_exponentials::<I>(*state, these) };
                }
            }
            return;
        }
        let (mut maxima, mut sums) = ([T::LOWEST; WIDE], [0.0; WIDE]);
        for r in (0..b.rows).step_by(LINES) {
            let lines = (LINES.min(b.rows - r), b.row_stride);
            // SAFETY: rows of the caller's block, of `WIDE` columns at most.
            unsafe {
                let x = x.wrapping_offset(r as isize * b.row_stride);
                add_exponentials_of_lines::<I, T>(x, lines, b.cols, maxima.as_mut_ptr(), sums.as_mut_ptr());
            }
        }
        if maxima[..b.cols].iter().any(|m| !m.finite()) {
            maxima = [T::LOWEST; WIDE];
            // SAFETY: rows of the caller's block.
            unsafe { fold_columns::<I, _>(Max::<T>::NEW, b, &[(); WIDE], &mut maxima) };
        }
        // The exponentials of a merge take as long as those of two rows.
        let fresh = states.iter().all(Exponentials::is_empty);
        for (j, state) in states.iter_mut().enumerate() {
            let these = Exponentials::new(maxima[j].to_f64(), sums[j]);
            *state = if fresh { these } else { merge_exponentials::<I>(*state, these) };
        }
    }
}

impl Exponentials<f64> {
    /// A NaN that only the sum shows is one.
    fn new(max: f64, sum: f64) -> Exponentials<f64> {
        Exponentials {
            max: if max.is_finite() && sum.is_nan() { sum } else { max },
            sum: select(max.finite(), sum, 0.0),
        }
    }
    /// Of nothing, or of nothing but negative infinities.
    fn is_empty(&self) -> bool {
        self.max == f64::NEG_INFINITY && self.sum == 0.0
    }
}

/// What both are of.
#[inline(always)]
fn merge_exponentials<I: Isa>(a: Exponentials<f64>, b: Exponentials<f64>) -> Exponentials<f64> {
    let max = larger(a.max, b.max);
    let sum = relative::<I>(a.sum, a.max, max) + relative::<I>(b.sum, b.max, max);
    Exponentials { max, sum: select(max.finite(), sum, 0.0) }
}

/// Adds states, as many as there are columns, to others.
struct MergeExponentials;

impl Kernel for MergeExponentials {
    type Args = (*mut Exponentials<f64>, *const Exponentials<f64>, usize);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((into, from, n): Self::Args) {
        for i in 0..n {
            // SAFETY: two runs of `n` states by the contract.
            unsafe { *into.add(i) = merge_exponentials::<I>(*into.add(i), *from.add(i)) };
        }
    }
}

/// The results of states, as many as are asked for.
struct Logarithms;

impl Kernel for Logarithms {
    type Args = (*const Exponentials<f64>, *mut f64, usize);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((states, results, n): Self::Args) {
        for i in 0..n {
            // SAFETY: `n` states, and room for as many results.
            unsafe {
                let Exponentials { max, sum } = *states.add(i);
                *results.add(i) = select(max.finite(), max + Float::log::<I>(sum), max);
            }
        }
    }
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
    fn tile(&self, direct: bool, _far: bool) -> usize {
        if direct { WIDE } else { TILE }
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
        // SAFETY: two runs of `n` aligned states by the contract; the machine has its level.
        unsafe { run::<MergeExponentials>((into.cast(), from.cast(), n)) }
    }
    unsafe fn finish(&self, states: *const u8, n: usize, outputs: &[Output]) {
        assert!(n <= WIDE, "tiles are no wider");
        let mut results = [0.0; WIDE];
        // SAFETY: the contract; the machine has its level.
        unsafe {
            run::<Logarithms>((states.cast(), results.as_mut_ptr(), n));
            write(&outputs[0], n, |i| results[i]);
        }
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
    fn tile(&self, _direct: bool, _far: bool) -> usize {
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
