//! Folding dense blocks: the inner loops of every reduction that is one value per element combined by one operation.
//!
//! All loops run along columns, with the accumulators of the columns side by side, so they vectorise whatever the
//! operation is. A long row of elements for a single output is folded as if it were many short rows: its elements are
//! dealt to up to [`LANES`] accumulators, which are merged in a tree at the end.

use super::{Block, Output, Reducer};
use crate::copy::{cast_strip, prefetch};
use crate::math::{Float, Isa, Kernel, entry, level, select};
use flambeau_base::{Complex, DType, Element};
use std::marker::PhantomData;

/// Accumulators that the elements of few columns are dealt to.
pub(super) const LANES: usize = 128;

/// One operation: how an element enters an accumulator and how two accumulators join.
pub(super) trait Fold: Copy + Send + Sync + 'static {
    /// The elements of a block.
    type In: Element;
    /// An accumulator.
    type State: Copy;
    /// What a step knows about its column besides the accumulator (a mean, a maximum).
    type Param: Copy;
    /// The accumulator of nothing.
    const IDENTITY: Self::State;
    /// The accumulator with one more element.
    fn step<I: Isa>(self, state: Self::State, x: Self::In, param: Self::Param) -> Self::State;
    /// The accumulator of both.
    fn merge(self, a: Self::State, b: Self::State) -> Self::State;
    /// Whether there is a cheaper `quick_step` for elements that are not `rare`.
    const QUICK: bool = false;
    /// Whether `quick_step` may not stand for `step`.
    #[inline(always)]
    fn is_rare(_: Self::In) -> bool {
        false
    }
    /// The cheaper step, of the same value.
    #[inline(always)]
    fn quick_step<I: Isa>(self, state: Self::State, x: Self::In, param: Self::Param) -> Self::State {
        self.step::<I>(state, x, param)
    }
    /// `merge` for accumulators of elements that are not rare.
    #[inline(always)]
    fn quick_merge(self, a: Self::State, b: Self::State) -> Self::State {
        self.merge(a, b)
    }
}

/// The element types of the blocks that real and integer reductions run on: `f32`, `f64` and `i64`.
pub(super) trait Value: Element + PartialOrd {
    /// Sums and products: `f64` for floats, which makes every `f32` sum as good as correctly rounded at no cost in
    /// bandwidth, and wrapping `i64` for integers.
    type Sum: Value<Sum = Self::Sum>;
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// No element is larger.
    const HIGHEST: Self;
    /// No element is smaller.
    const LOWEST: Self;
    fn widen(self) -> Self::Sum;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn nan(self) -> bool;
    fn magnitude(self) -> Self;
}

macro_rules! float_value {
    ($($t:ty),*) => { $(
        impl Value for $t {
            type Sum = f64;
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const HIGHEST: $t = <$t>::INFINITY;
            const LOWEST: $t = <$t>::NEG_INFINITY;
            #[inline(always)] fn widen(self) -> f64 { self as f64 }
            #[inline(always)] fn plus(self, other: $t) -> $t { self + other }
            #[inline(always)] fn times(self, other: $t) -> $t { self * other }
            #[inline(always)] #[allow(clippy::eq_op)] fn nan(self) -> bool { self != self }
            #[inline(always)] fn magnitude(self) -> $t { self.abs() }
        }
    )* };
}
float_value!(f32, f64);

impl Value for i64 {
    type Sum = i64;
    const ZERO: i64 = 0;
    const ONE: i64 = 1;
    const HIGHEST: i64 = i64::MAX;
    const LOWEST: i64 = i64::MIN;
    #[inline(always)]
    fn widen(self) -> i64 {
        self
    }
    #[inline(always)]
    fn plus(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn times(self, other: i64) -> i64 {
        self.wrapping_mul(other)
    }
    #[inline(always)]
    fn nan(self) -> bool {
        false
    }
    #[inline(always)]
    fn magnitude(self) -> i64 {
        self.wrapping_abs()
    }
}

/// Declares a fold over a [`Value`] type without fields: its accumulator, the empty accumulator, the step and the merge.
macro_rules! fold {
    ($(#[$doc:meta])* $name:ident<$T:ident>: $State:ty = $identity:expr,
     |$s:ident, $x:ident| $step:expr, |$a:ident, $b:ident| $merge:expr
     $(; unless $e:ident $rare:expr, |$qs:ident, $qx:ident| $quick:expr)?) => {
        $(#[$doc])*
        pub(super) struct $name<T>(PhantomData<T>);
        impl<T> $name<T> {
            pub(super) const NEW: Self = $name(PhantomData);
        }
        impl<T> Clone for $name<T> {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T> Copy for $name<T> {}
        impl<$T: Value> Fold for $name<$T> {
            type In = $T;
            type State = $State;
            type Param = ();
            const IDENTITY: Self::State = $identity;
            #[inline(always)]
            fn step<I: Isa>(self, $s: Self::State, $x: $T, _: ()) -> Self::State {
                $step
            }
            #[inline(always)]
            fn merge(self, $a: Self::State, $b: Self::State) -> Self::State {
                $merge
            }
            $(
                const QUICK: bool = true;
                #[inline(always)]
                fn is_rare($e: $T) -> bool {
                    $rare
                }
                #[inline(always)]
                fn quick_step<I: Isa>(self, $qs: Self::State, $qx: $T, _: ()) -> Self::State {
                    $quick
                }
                #[inline(always)]
                fn quick_merge(self, $qs: Self::State, $qx: Self::State) -> Self::State {
                    $quick
                }
            )?
        }
    };
}

fold! {
    /// The sum.
    Sum<T>: T::Sum = T::Sum::ZERO, |s, x| s.plus(x.widen()), |a, b| a.plus(b)
}
fold! {
    /// The sum of what is not NaN.
    NanSum<T>: T::Sum = T::Sum::ZERO,
    |s, x| s.plus(select(x.nan(), T::ZERO, x).widen()), |a, b| a.plus(b)
}
fold! {
    /// The product.
    Product<T>: T::Sum = T::Sum::ONE, |s, x| s.times(x.widen()), |a, b| a.times(b)
}
fold! {
    /// How many are not zero (NaN is not).
    Count<T>: i64 = 0, |s, x| s + x.to_bool() as i64, |a, b| a + b
}
fold! {
    /// The sum of magnitudes.
    SumAbs<T>: T::Sum = T::Sum::ZERO, |s, x| s.plus(x.magnitude().widen()), |a, b| a.plus(b)
}
fold! {
    /// The sum of squares.
    SumSquares<T>: T::Sum = T::Sum::ZERO,
    |s, x| s.plus(x.widen().times(x.widen())), |a, b| a.plus(b)
}
fold! {
    /// The largest; NaN if there is one.
    Max<T>: T = T::LOWEST, |s, x| larger(s, x), |a, b| larger(a, b);
    unless e e.nan(), |s, x| select(x > s, x, s)
}
fold! {
    /// The smallest; NaN if there is one.
    Min<T>: T = T::HIGHEST, |s, x| smaller(s, x), |a, b| smaller(a, b);
    unless e e.nan(), |s, x| select(x < s, x, s)
}
fold! {
    /// The largest magnitude; NaN if there is one. Its accumulator never falls below zero, as PyTorch's.
    MaxAbs<T>: T = T::ZERO, |s, x| larger(s, x.magnitude()), |a, b| larger(a, b)
}
fold! {
    /// The smallest magnitude; NaN if there is one.
    MinAbs<T>: T = T::HIGHEST, |s, x| smaller(s, x.magnitude()), |a, b| smaller(a, b)
}

#[inline(always)]
pub(super) fn larger<T: Value>(a: T, b: T) -> T {
    select((b > a) | b.nan(), b, a)
}

#[inline(always)]
pub(super) fn smaller<T: Value>(a: T, b: T) -> T {
    select((b < a) | b.nan(), b, a)
}

/// The sum of magnitudes to a power.
#[derive(Clone, Copy)]
pub(super) struct SumPowers<T> {
    pub power: f64,
    pub of: PhantomData<T>,
}

impl<T: Value> Fold for SumPowers<T> {
    type In = T;
    type State = f64;
    type Param = ();
    const IDENTITY: f64 = 0.0;
    #[inline(always)]
    fn step<I: Isa>(self, s: f64, x: T, _: ()) -> f64 {
        s + Float::pow::<I>(x.magnitude().to_f64(), self.power)
    }
    #[inline(always)]
    fn merge(self, a: f64, b: f64) -> f64 {
        a + b
    }
}

/// The product of complex numbers.
#[derive(Clone, Copy)]
pub(super) struct ComplexProduct;

impl Fold for ComplexProduct {
    type In = Complex<f64>;
    type State = Complex<f64>;
    type Param = ();
    const IDENTITY: Complex<f64> = Complex::new(1.0, 0.0);
    #[inline(always)]
    fn step<I: Isa>(self, s: Complex<f64>, x: Complex<f64>, _: ()) -> Complex<f64> {
        s * x
    }
    #[inline(always)]
    fn merge(self, a: Complex<f64>, b: Complex<f64>) -> Complex<f64> {
        a * b
    }
}

/// Bytes of the accumulators of a tile.
const STATE_BYTES: usize = 1 << 14;

/// Bytes between what is folded and what is asked for: they stay in the first-level cache.
const AHEAD: usize = 1 << 14;

/// Columns folded together: few enough for their accumulators to stay in registers (Note [Lanes]).
const LOOK: usize = 64;

/// Rows folded together: an accumulator is loaded and stored once for that many elements.
const ROWS: usize = 8;

/// Folds `ROWS` rows of `LOOK` columns, but not the first `skip` columns. Gives up, having changed nothing, if it is to be
/// `QUICK` and there are rare elements.
///
/// # Safety
/// `x` must be valid for the rows, `row_stride` elements apart.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loops countable, and their bounds constant.
unsafe fn fold_tile<I: Isa, F: Fold, const QUICK: bool>(
    f: F,
    x: *const F::In,
    row_stride: isize,
    skip: usize,
    params: &[F::Param; LOOK],
    states: &mut [F::State; LOOK],
) -> bool {
    let mut s = *states;
    let mut rare = const { [0u32; LOOK] };
    for r in (0..ROWS).step_by(2) {
        let (a, b) = (x.wrapping_offset(r as isize * row_stride), x.wrapping_offset((r + 1) as isize * row_stride));
        // SAFETY: rows `r` and `r + 1` of the caller's.
        let at = |l: usize| unsafe { (*a.add(l), *b.add(l)) };
        for l in 0..LOOK {
            let (a, b) = at(l);
            s[l] = match QUICK {
                true => f.quick_step::<I>(f.quick_step::<I>(s[l], a, params[l]), b, params[l]),
                false => f.step::<I>(f.step::<I>(s[l], a, params[l]), b, params[l]),
            };
        }
        if QUICK {
            for l in 0..LOOK {
                let (a, b) = at(l);
                rare[l] = select(F::is_rare(a) | F::is_rare(b), 1, rare[l]);
            }
        }
    }
    if QUICK {
        let mut any = 0;
        for l in 0..LOOK {
            any |= rare[l];
        }
        if any != 0 {
            return false;
        }
    }
    if skip == 0 {
        *states = s;
    } else {
        for l in 0..LOOK {
            states[l] = select(l >= skip, s[l], states[l]);
        }
    }
    true
}

/// Folds row by row into one accumulator per column.
///
/// # Safety
/// `x` must be valid for `rows` rows of `cols` elements, `row_stride` elements apart; the slices hold `cols` values.
#[inline(always)]
unsafe fn fold_rows<I: Isa, F: Fold>(
    f: F,
    x: *const F::In,
    rows: usize,
    row_stride: isize,
    cols: usize,
    params: &[F::Param],
    states: &mut [F::State],
) {
    let (params, states) = (&params[..cols], &mut states[..cols]);
    // Short stretches of many rows are too many streams for the hardware to see them coming: rows are asked for while
    // those before them, `AHEAD` bytes of them, are folded.
    let ahead = (AHEAD / (cols * size_of::<F::In>()).max(1)).max(ROWS);
    let mut r = 0;
    while cols >= LOOK && r + ROWS <= rows {
        let x = x.wrapping_offset(r as isize * row_stride);
        let mut done = 0;
        while done < cols {
            // The last columns are folded with some before them, whose accumulators are left alone.
            let start = done.min(cols - LOOK);
            let from = x.wrapping_add(start);
            for row in 0..ROWS {
                let next = from.wrapping_offset((ahead + row) as isize * row_stride);
                for byte in (0..LOOK * size_of::<F::In>()).step_by(64) {
                    prefetch(next.cast::<u8>().wrapping_add(byte));
                }
            }
            let (params, states) = (&params[start..], &mut states[start..]);
            let (Some(params), Some(states)) = (params.first_chunk(), states.first_chunk_mut()) else { break };
            let skip = done - start;
            // SAFETY: rows `r..r + ROWS` and these columns exist.
            unsafe {
                if !F::QUICK || !fold_tile::<I, F, true>(f, from, row_stride, skip, params, states) {
                    fold_tile::<I, F, false>(f, from, row_stride, skip, params, states);
                }
            }
            done = start + LOOK;
        }
        r += ROWS;
    }
    // Few columns, four rows at a time.
    while r + 4 <= rows {
        // SAFETY: rows `r..r + 4` exist by the contract.
        let [a, b, c, d] =
            [0, 1, 2, 3].map(|i| unsafe { std::slice::from_raw_parts(x.offset((r + i) as isize * row_stride), cols) });
        for row in [a, b, c, d] {
            prefetch(row.as_ptr().wrapping_offset(ahead as isize * row_stride).cast());
        }
        for j in 0..cols {
            let (mut s, p) = (states[j], params[j]);
            s = f.step::<I>(s, a[j], p);
            s = f.step::<I>(s, b[j], p);
            s = f.step::<I>(s, c[j], p);
            states[j] = f.step::<I>(s, d[j], p);
        }
        r += 4;
    }
    while r < rows {
        // SAFETY: row `r` exists by the contract.
        let a = unsafe { std::slice::from_raw_parts(x.offset(r as isize * row_stride), cols) };
        for j in 0..cols {
            states[j] = f.step::<I>(states[j], a[j], params[j]);
        }
        r += 1;
    }
}

/// A run of so many elements is not worth merging many accumulators for.
const SHORT: usize = 256;

/// Folds contiguous elements into one accumulator, dealing them to several that stay in registers (Note [Lanes]). Gives
/// up if it is to be `QUICK` and there are rare elements.
///
/// # Safety
/// `x` must be valid for `n` elements.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loop countable, and its bounds constant.
unsafe fn fold_run<I: Isa, F: Fold, const QUICK: bool, const N: usize>(
    f: F,
    x: *const F::In,
    n: usize,
    param: F::Param,
) -> Option<F::State> {
    let mut lanes = const { [F::IDENTITY; N] };
    let mut rare = const { [0u32; N] };
    let mut at = 0;
    // SAFETY: every index is below `n`.
    let element = |i: usize| unsafe { *x.add(i) };
    let step = |s: F::State, x: F::In| if QUICK { f.quick_step::<I>(s, x, param) } else { f.step::<I>(s, x, param) };
    let merge = |a: F::State, b: F::State| if QUICK { f.quick_merge(a, b) } else { f.merge(a, b) };
    // Two elements for one look at whether they are rare. (A loop for each array, else they leave the registers.)
    while QUICK && at + 2 * N <= n {
        for l in 0..N {
            lanes[l] = step(step(lanes[l], element(at + l)), element(at + N + l));
        }
        for l in 0..N {
            let (a, b) = (element(at + l), element(at + N + l));
            rare[l] = select(F::is_rare(a) | F::is_rare(b), 1, rare[l]);
        }
        at += 2 * N;
    }
    while at + N <= n {
        for l in 0..N {
            lanes[l] = step(lanes[l], element(at + l));
        }
        for l in 0..N {
            rare[l] = select(QUICK && F::is_rare(element(at + l)), 1, rare[l]);
        }
        at += N;
    }
    let mut rest = const { [F::IDENTITY; N] };
    let left = n - at;
    if left > 0 && n >= N {
        // A whole set, of which those count that were not folded yet.
        for l in 0..N {
            let folded = step(F::IDENTITY, element(n - N + l));
            rest[l] = select(l + left >= N, folded, F::IDENTITY);
        }
        for l in 0..N {
            rare[l] = select(QUICK && F::is_rare(element(n - N + l)), 1, rare[l]);
        }
    } else {
        for l in 0..left {
            rest[l] = step(rest[l], element(at + l));
            rare[l] = select(QUICK && F::is_rare(element(at + l)), 1, rare[l]);
        }
    }
    if QUICK {
        let mut any = 0;
        for l in 0..N {
            any |= rare[l];
        }
        if any != 0 {
            return None;
        }
    }
    let mut joined = const { [F::IDENTITY; N] };
    for l in 0..N {
        joined[l] = merge(lanes[l], rest[l]);
    }
    let mut half = N;
    while half > 1 {
        half /= 2;
        for l in 0..half {
            joined[l] = merge(joined[l], joined[l + half]);
        }
    }
    Some(joined[0])
}

/// Folds a block into the accumulators of its columns. Where rows lie end to end, the elements of a single column are
/// dealt to accumulators in registers, and the rows of a few columns to several accumulators of each.
///
/// # Safety
/// As [`fold_rows`].
#[inline(always)]
pub(super) unsafe fn fold_block<I: Isa, F: Fold>(
    f: F,
    x: *const F::In,
    rows: usize,
    row_stride: isize,
    cols: usize,
    params: &[F::Param],
    states: &mut [F::State],
) {
    if cols == 1 && row_stride == 1 {
        // SAFETY: `rows` contiguous elements. (No closures: they need not be inlined, and then lose the instruction set.)
        unsafe {
            let all = match rows < SHORT {
                true if !F::QUICK => fold_run::<I, F, false, 16>(f, x, rows, params[0]),
                _ if F::QUICK => match fold_run::<I, F, true, 64>(f, x, rows, params[0]) {
                    None => fold_run::<I, F, false, 64>(f, x, rows, params[0]),
                    all => all,
                },
                _ => fold_run::<I, F, false, 64>(f, x, rows, params[0]),
            };
            if let Some(all) = all {
                states[0] = f.merge(states[0], all);
            }
        }
        return;
    }
    let mut deal = 1;
    if row_stride == cols as isize {
        while deal * 2 * cols <= LANES && deal * 8 <= rows {
            deal *= 2;
        }
    }
    let mut accumulators = const { [F::IDENTITY; LANES] };
    let mut lane_params = [params[0]; LANES];
    if deal > 1 && size_of::<F::Param>() > 0 {
        for j in 0..deal * cols {
            lane_params[j] = params[j % cols];
        }
    }
    let (lanes, full) = (deal * cols, rows / deal);
    // Dealt, they are `full` rows of `lanes` and then one of what is left. (A loop, so that the code is there once.)
    for part in 0..1 + (deal > 1) as usize {
        let (x, rows, cols) = match part {
            0 => (x, full, lanes),
            _ => (x.wrapping_add(full * lanes), 1, (rows - full * deal) * cols),
        };
        let (stride, params, states) = match deal {
            1 => (row_stride, params, &mut *states),
            _ => (lanes as isize, &lane_params[..], &mut accumulators[..]),
        };
        // SAFETY: the caller's rows.
        unsafe { fold_rows::<I, F>(f, x, rows, stride, cols, params, states) };
    }
    if deal == 1 {
        return;
    }
    let mut half = lanes;
    while half > cols {
        half /= 2;
        let (low, high) = accumulators.split_at_mut(half);
        for j in 0..half {
            low[j] = f.merge(low[j], high[j]);
        }
    }
    for j in 0..cols {
        states[j] = f.merge(states[j], accumulators[j]);
    }
}

/// [`fold_block`] compiled per level.
struct FoldBlock<F>(PhantomData<F>);

impl<F: Fold<Param = ()>> Kernel for FoldBlock<F> {
    type Args = (F, Block, *mut F::State);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((f, b, states): Self::Args) {
        // One unit parameter per column costs nothing: a slice of them has no bytes.
        // SAFETY: a slice of zero-sized values needs no memory; the rest is the driver's promise.
        unsafe {
            let params = std::slice::from_raw_parts(std::ptr::NonNull::<()>::dangling().as_ptr(), b.cols.max(1));
            let states = std::slice::from_raw_parts_mut(states, b.cols);
            fold_block::<I, F>(f, b.data.cast(), b.rows, b.row_stride, b.cols, params, states)
        }
    }
}

/// A reduction by one [`Fold`], with `finish` taking an accumulator to a value to be written.
pub(super) struct Simple<F: Fold, V, G> {
    fold: F,
    finish: G,
    run: unsafe fn((F, Block, *mut F::State)),
    to: PhantomData<fn() -> V>,
}

impl<F: Fold<Param = ()>, V: Element, G: Fn(F::State) -> V> Simple<F, V, G> {
    pub(super) fn new(fold: F, finish: G) -> Self {
        Simple { fold, finish, run: entry::<FoldBlock<F>>(level()), to: PhantomData }
    }
}

impl<F: Fold<Param = ()>, V: Element, G: Fn(F::State) -> V + Sync> Reducer for Simple<F, V, G> {
    fn domain(&self) -> DType {
        F::In::DTYPE
    }
    fn state_size(&self) -> usize {
        size_of::<F::State>()
    }
    fn tile(&self) -> usize {
        // Rows as long as accumulators in the first-level cache allow: short ones of many rows are slow to read.
        (STATE_BYTES / size_of::<F::State>()).max(512)
    }
    unsafe fn init(&self, states: *mut u8, n: usize) {
        // SAFETY: `n` aligned states by the contract.
        unsafe { std::slice::from_raw_parts_mut(states.cast(), n) }.fill(F::IDENTITY);
    }
    unsafe fn fold(&self, block: Block, states: *mut u8) {
        // SAFETY: the machine has `level()`; the rest is the contract.
        unsafe { (self.run)((self.fold, block, states.cast())) }
    }
    unsafe fn merge(&self, into: *mut u8, from: *const u8, n: usize) {
        // SAFETY: two runs of `n` aligned states by the contract.
        unsafe {
            let into = std::slice::from_raw_parts_mut(into.cast::<F::State>(), n);
            let from = std::slice::from_raw_parts(from.cast::<F::State>(), n);
            for (a, &b) in into.iter_mut().zip(from) {
                *a = self.fold.merge(*a, b);
            }
        }
    }
    unsafe fn finish(&self, states: *const u8, n: usize, outputs: &[Output]) {
        // SAFETY: `n` aligned states by the contract.
        let states = unsafe { std::slice::from_raw_parts(states.cast::<F::State>(), n) };
        // SAFETY: the contract.
        unsafe { write(&outputs[0], n, |i| (self.finish)(states[i])) }
    }
}

/// Writes `n` values, computed in `V`, to an output of any dtype.
///
/// # Safety
/// The output must be valid for `n` elements.
pub(super) unsafe fn write<V: Element>(output: &Output, n: usize, value: impl Fn(usize) -> V) {
    const BLOCK: usize = 64;
    let strip = cast_strip(V::DTYPE, output.dtype);
    let mut block = [V::default(); BLOCK];
    let mut at = 0;
    while at < n {
        let count = BLOCK.min(n - at);
        for (i, slot) in block[..count].iter_mut().enumerate() {
            *slot = value(at + i);
        }
        // SAFETY: the block holds `count` values; the output is valid by the contract.
        unsafe {
            let to = output.data.offset(at as isize * output.stride);
            strip(block.as_ptr().cast(), size_of::<V>() as isize, to, output.stride, count);
        }
        at += count;
    }
}
