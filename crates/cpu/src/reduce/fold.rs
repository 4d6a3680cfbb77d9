//! Folding dense blocks: the inner loops of every reduction that is one value per element combined by one operation.
//!
//! All loops run with accumulators side by side, so they vectorise whatever the operation is: along columns, one for each,
//! or along a run of elements for a single output, which are dealt to [`RUN`] accumulators that are merged in a tree.
//! Four elements at a time are joined before they meet an accumulator, so that its latency is paid once for them.

use super::{Block, long_row};
#[cfg(target_arch = "x86_64")]
use super::{few_rows, quick_rows, runs, short};
use crate::buffer::aligned;
use crate::math::{Float, Isa, Level, level, select};
use crate::prefetch::{prefetch_run, runs_are_asked_for};
use flambeau_base::fast_paths::FastPath;
use flambeau_base::{Complex, DType, Element};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// One operation: what an element is as an accumulator and how two accumulators join, in any order.
pub(super) trait Fold: Copy + Send + Sync + 'static {
    /// The elements of a block.
    type In: Element;
    /// An accumulator.
    type State: Copy;
    /// What is known about a column besides the accumulator (a mean).
    type Param: Copy;
    /// The accumulator of nothing.
    const IDENTITY: Self::State;
    /// The accumulator of one element.
    fn one<I: Isa>(self, x: Self::In, param: Self::Param) -> Self::State;
    /// The accumulator of both.
    fn merge(self, a: Self::State, b: Self::State) -> Self::State;
    /// An element that adds nothing, if there is one and an element's accumulator is cheap to make.
    #[inline(always)]
    fn neutral() -> Option<Self::In> {
        None
    }
    /// The accumulator of four elements.
    #[inline(always)]
    fn four<I: Isa>(self, [a, b, c, d]: [Self::In; 4], param: Self::Param) -> Self::State {
        let low = self.merge(self.one::<I>(a, param), self.one::<I>(b, param));
        let high = self.merge(self.one::<I>(c, param), self.one::<I>(d, param));
        self.merge(low, high)
    }
    /// The highest level that it is compiled for.
    const HIGHEST: Level = Level::Avx512;
    /// Whether there are cheaper ways for elements that are not `rare`.
    const QUICK: bool = false;
    /// Whether they pay for few rows of many columns.
    const QUICK_COLUMNS: bool = Self::QUICK;
    /// Whether there are [`quick_rows`](Fold::quick_rows) (which serve all elements where other quick ways do not pay).
    const QUICK_ROWS: bool = false;
    /// Whether few rows of many columns have a loop of their own, with accumulators in registers.
    const FEW_ROWS: bool = Self::QUICK;
    /// Whether a lane of a run takes neighbours in pairs: two elements of two bytes then are one of four, the bits of which are
    /// shifted or masked to make a vector of either.
    const NEIGHBOURS: bool = false;
    /// Whether the quick ways do not serve this element.
    #[inline(always)]
    fn is_rare(_: Self::In) -> bool {
        false
    }
    /// `four` for elements that are not rare.
    #[inline(always)]
    fn quick_four<I: Isa>(self, x: [Self::In; 4], param: Self::Param) -> Self::State {
        self.four::<I>(x, param)
    }
    /// Whether what the quick ways made of elements that are not rare is as good.
    #[inline(always)]
    fn stands(_: Self::State) -> bool {
        true
    }
    /// `merge` for accumulators of elements that are not rare.
    #[inline(always)]
    fn quick_merge(self, a: Self::State, b: Self::State) -> Self::State {
        self.merge(a, b)
    }
    /// [`Reducer::shortest_run`](super::Reducer::shortest_run).
    fn shortest_run(dense: bool, _far: bool) -> usize {
        long_row(dense)
    }
    /// Folds four rows of `W` columns into their accumulators, where there is a quick way of its own. Says whether it did.
    ///
    /// # Safety
    /// The columns must be valid, and the machine must have `I`.
    #[inline(always)]
    unsafe fn quick_rows<I: Isa, const W: usize>(_rows: [*const Self::In; 4], _states: &mut [Self::State; W]) -> bool {
        false
    }
    /// Folds the runs of a block from `first` on, where there is a way of its own for many. Gives how many it did.
    ///
    /// # Safety
    /// The block's columns must be runs of valid elements, with a state for each.
    #[inline(always)]
    unsafe fn fold_runs<I: Isa>(_block: &Block, _first: usize, _states: *mut Self::State) -> usize {
        0
    }
    /// Gives the accumulators of few rows' columns to `each`, many at a time and some perhaps twice, with the first one's
    /// number, where there is a way of its own for that. Says whether it did, for all of them.
    ///
    /// # Safety
    /// The block must be of at most `FEW` rows of at least `LOOK` valid elements side by side.
    #[inline(always)]
    unsafe fn fold_few_rows<I: Isa>(_block: &Block, _each: impl FnMut(usize, &[Self::State])) -> bool {
        false
    }
}

/// [`Fold::shortest_run`] of what [`short`] does with elements of `size` bytes: from there on, a row takes no longer on its own
/// than a transposition and its columns.
fn shortest_of_many(size: usize, dense: bool, far: bool) -> usize {
    match (level(), size) {
        (Level::Avx512, 8) if FastPath::ReduceShort.is_on() => {
            // A transposition reads memory in many places at a time.
            if far { 8 } else { 16 }
        }
        (Level::Avx512, _) if FastPath::ReduceShort.is_on() => 20,
        _ => long_row(dense),
    }
}

/// [`Fold::fold_runs`] by [`short`] and [`runs`], for each dtype that the operation is there for.
macro_rules! runs {
    ($($name:ident: $($dtype:ident $op:ty),+; with AVX2 $($narrow:ident $narrow_op:ty),+;)*) => { $(
        /// Whether there is a way for that dtype, and the way.
        struct $name;
        impl $name {
            fn is_for(dtype: DType) -> bool {
                cfg!(target_arch = "x86_64") && matches!(dtype, $(DType::$dtype)|+)
            }
            /// # Safety
            /// The block's columns must be runs of valid elements, with a state for each, of a dtype that it is for.
            #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
            unsafe fn fold<S>(dtype: DType, block: &Block, first: usize, states: *mut S) -> usize {
                #[cfg(target_arch = "x86_64")]
                if size_of::<S>() == size_of::<f64>() && FastPath::ReduceShort.is_on() {
                    // SAFETY: the machine has that level; the rest is the caller's.
                    unsafe {
                        match (level(), dtype) {
                            $((Level::Avx512, DType::$dtype) if short::are_short::<$op>(block) => {
                                return short::fold_runs::<$op>(block, first, states.cast());
                            })+
                            $((Level::Avx2 | Level::Avx512, DType::$narrow) => {
                                return runs::fold_runs::<$narrow_op>(block, first, states.cast());
                            })+
                            _ => {}
                        }
                    }
                }
                0
            }
        }
    )* };
}
runs! {
    SumRuns: F32 short::Sum<f32>, F64 short::Sum<f64>, I64 short::Sum<i64>;
        with AVX2 F32 short::Sum<f32>, F64 short::Sum<f64>, I64 short::Sum<i64>;
    NanSumRuns: F32 short::NanSum<f32>, F64 short::NanSum<f64>;
        with AVX2 F32 short::NanSum<f32>, F64 short::NanSum<f64>;
    SquareRuns: F32 short::SumSquares<f32>; with AVX2 F32 short::SumSquares<f32>;
    ProductRuns: F32 short::Product<f32>, F64 short::Product<f64>, I64 short::Product<i64>;
        with AVX2 F32 short::Product<f32>, F64 short::Product<f64>;
}

/// The element types of the blocks that real and integer reductions run on: `f32`, `f64` and `i64`, for extremes those of
/// fewer bytes too.
pub(super) trait Value: Element + PartialOrd {
    /// Sums and products: `f64` for floats, and wrapping `i64` for integers.
    type Sum: Value<Sum = Self::Sum>;
    /// Whether sums have more digits.
    const NARROW: bool;
    /// An integer, of the same width where places are carried along: vectors of both then match.
    type Place: Place;
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
    fn finite(self) -> bool;
}

/// Where an element is: the number of a row, or of an element of a run.
pub(super) trait Place: Copy + PartialOrd + Default {
    /// The largest.
    const LAST: Self;
    fn of(place: usize) -> Self;
    fn get(self) -> usize;
    fn plus(self, other: Self) -> Self;
}

macro_rules! place {
    ($($t:ty),*) => { $(
        impl Place for $t {
            const LAST: $t = <$t>::MAX;
            #[inline(always)] fn of(place: usize) -> $t { place as $t }
            #[inline(always)] fn get(self) -> usize { self as usize }
            #[inline(always)] fn plus(self, other: $t) -> $t { self.wrapping_add(other) }
        }
    )* };
}
place!(i32, i64);

macro_rules! float_value {
    ($($t:ty: $narrow:expr, $place:ty);*) => { $(
        impl Value for $t {
            type Place = $place;
            type Sum = f64;
            const NARROW: bool = $narrow;
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const HIGHEST: $t = <$t>::INFINITY;
            const LOWEST: $t = <$t>::NEG_INFINITY;
            #[inline(always)] fn widen(self) -> f64 { self as f64 }
            #[inline(always)] fn plus(self, other: $t) -> $t { self + other }
            #[inline(always)] fn times(self, other: $t) -> $t { self * other }
            #[inline(always)] #[allow(clippy::eq_op)] fn nan(self) -> bool { self != self }
            #[inline(always)] fn magnitude(self) -> $t { self.abs() }
            #[inline(always)] fn finite(self) -> bool { self.abs() < <$t>::INFINITY }
        }
    )* };
}
float_value!(f32: true, i32; f64: false, i64);

macro_rules! integer_value {
    ($($t:ty: $place:ty),*) => { $(
        impl Value for $t {
            type Place = $place;
            type Sum = i64;
            const NARROW: bool = false;
            const ZERO: $t = 0;
            const ONE: $t = 1;
            const HIGHEST: $t = <$t>::MAX;
            const LOWEST: $t = <$t>::MIN;
            #[inline(always)] fn widen(self) -> i64 { i64::from(self) }
            #[inline(always)] fn plus(self, other: $t) -> $t { self.wrapping_add(other) }
            #[inline(always)] fn times(self, other: $t) -> $t { self.wrapping_mul(other) }
            #[inline(always)] fn nan(self) -> bool { false }
            #[inline(always)] fn magnitude(self) -> $t { i64::from(self).wrapping_abs() as $t }
            #[inline(always)] fn finite(self) -> bool { true }
        }
    )* };
}
integer_value!(u8: i32, i8: i32, i16: i32, i32: i32, i64: i64);

/// Declares a fold over a [`Value`] type without fields: its accumulator, the empty accumulator, an element that adds
/// nothing, the accumulator of an element and the merge; perhaps the highest level that it is compiled for; for elements
/// that are not rare, a cheaper merge of accumulators; or for a sum what its terms are (Note [Narrow sums]).
macro_rules! fold {
    ($(#[$doc:meta])* $name:ident<$T:ident>: $State:ty = $identity:expr,
     neutral $neutral:expr, |$x:ident| $one:expr, |$a:ident, $b:ident| $merge:expr
     $(; at_most $highest:expr)?
     $(; unless $e:ident $rare:expr, |$qa:ident, $qb:ident| $quick:expr, rows by extremes $max:literal)?
     $(; narrowly |$y:ident| $part:expr $(, above $least:expr)? $(, rows by $rows:ident)?)?
     $(; runs by $runs:ident)?
     $(; few_rows $few:literal $(by $few_rows:path)?)?) => {
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
            fn neutral() -> Option<$T> {
                Some($neutral)
            }
            #[inline(always)]
            fn one<I: Isa>(self, $x: $T, _: ()) -> Self::State {
                $one
            }
            #[inline(always)]
            fn merge(self, $a: Self::State, $b: Self::State) -> Self::State {
                $merge
            }
            $( const HIGHEST: Level = $highest; )?
            $(
                const FEW_ROWS: bool = $few;
                $(
                    #[cfg(target_arch = "x86_64")]
                    #[inline(always)]
                    unsafe fn fold_few_rows<I: Isa>(b: &Block, mut each: impl FnMut(usize, &[Self::State])) -> bool {
                        if const { I::COMPACT } || $T::DTYPE != DType::F32 || level() != Level::Avx2 {
                            return false;
                        }
                        // SAFETY: the machine has that level; the rest is the caller's. Sums of `f32` are `f64`.
                        unsafe {
                            $few_rows(b, |at, sums| {
                                each(at, std::slice::from_raw_parts(sums.as_ptr().cast::<Self::State>(), sums.len()))
                            })
                        }
                    }
                )?
            )?
            $(
                const QUICK: bool = true;
                #[inline(always)]
                fn is_rare($e: $T) -> bool {
                    $rare
                }
                #[inline(always)]
                fn quick_four<I: Isa>(self, [a, b, c, d]: [$T; 4], _: ()) -> Self::State {
                    self.quick_merge(self.quick_merge(a, b), self.quick_merge(c, d))
                }
                #[inline(always)]
                fn quick_merge(self, $qa: Self::State, $qb: Self::State) -> Self::State {
                    $quick
                }
                const QUICK_ROWS: bool =
                    matches!($T::DTYPE, DType::F32 | DType::F64) && cfg!(target_arch = "x86_64");
                #[cfg(target_arch = "x86_64")]
                #[inline(always)]
                unsafe fn quick_rows<I: Isa, const W: usize>(rows: [*const $T; 4], best: &mut [$T; W]) -> bool {
                    // SAFETY: the caller's; elements of those dtypes are these numbers.
                    unsafe { quick_rows::extremes::<I, $T, W, { $max }>(rows, best) }
                }
            )?
            $(
                const QUICK: bool = $T::NARROW;
                const QUICK_COLUMNS: bool = $T::NARROW && Self::QUICK_ROWS;
                $(
                    const QUICK_ROWS: bool =
                        matches!($T::DTYPE, DType::F32 | DType::F64) && cfg!(target_arch = "x86_64");
                    #[cfg(target_arch = "x86_64")]
                    #[inline(always)]
                    unsafe fn quick_rows<I: Isa, const W: usize>(
                        rows: [*const $T; 4],
                        sums: &mut [Self::State; W],
                    ) -> bool {
                        // SAFETY: the caller's. Sums of these dtypes are `f64`.
                        unsafe { quick_rows::$rows::<I, $T, W>(rows, &mut *(sums as *mut [Self::State; W]).cast()) }
                    }
                )?
                #[inline(always)]
                fn quick_four<I: Isa>(self, [a, b, c, d]: [$T; 4], _: ()) -> Self::State {
                    let part = |$y: $T| -> $T { $part };
                    part(a).plus(part(b)).plus(part(c).plus(part(d))).widen()
                }
                #[inline(always)]
                fn stands(sum: Self::State) -> bool {
                    sum.finite() $(&& sum.to_f64() > $least)?
                }
            )?
            $(
                fn shortest_run(dense: bool, far: bool) -> usize {
                    if $runs::is_for($T::DTYPE) { shortest_of_many($T::DTYPE.size(), dense, far) } else { long_row(dense) }
                }
                #[inline(always)]
                unsafe fn fold_runs<I: Isa>(block: &Block, first: usize, states: *mut Self::State) -> usize {
                    if const { I::COMPACT } || !$runs::is_for($T::DTYPE) {
                        return 0;
                    }
                    // SAFETY: the caller's.
                    unsafe { $runs::fold($T::DTYPE, block, first, states) }
                }
            )?
        }
    };
}

// Note [Narrow sums]: converting every `f32` to `f64` takes longer than reading it from a cache. So four terms are added as
// `f32`, in pairs, and only their sum is converted: two roundings of small sums, which together weigh less than the terms' own.
// What overflows that way is added again as `f64`. So is a small sum of squares: each of these lacks up to 2^-150, those of a
// run, fewer than 2^18, less than 2^-42 of what is above the bound.

/// Sums of squares of `f32` below are added as `f64` only: Note [Narrow sums].
pub(super) const LEAST_SQUARES: f64 = 1e-27;

fold! {
    /// The sum.
    Sum<T>: T::Sum = T::Sum::ZERO, neutral T::ZERO,
    |x| x.widen(), |a, b| a.plus(b);
    narrowly |x| x, rows by add;
    runs by SumRuns;
    few_rows true by few_rows::sums
}
fold! {
    /// The sum of what is not NaN.
    NanSum<T>: T::Sum = T::Sum::ZERO, neutral T::ZERO,
    |x| select(x.nan(), T::ZERO, x).widen(), |a, b| a.plus(b);
    narrowly |x| select(x.nan(), T::ZERO, x);
    runs by NanSumRuns
}
fold! {
    /// The product. (Zen 4 converts and multiplies in vectors of 64 bytes at two thirds of the speed of those of 32.)
    Product<T>: T::Sum = T::Sum::ONE, neutral T::ONE,
    |x| x.widen(), |a, b| a.times(b);
    at_most Level::Avx2;
    runs by ProductRuns;
    few_rows true
}
fold! {
    /// How many are not zero (NaN is not).
    Count<T>: i64 = 0, neutral T::ZERO,
    |x| x.to_bool() as i64, |a, b| a + b
}
fold! {
    /// The sum of magnitudes.
    SumAbs<T>: T::Sum = T::Sum::ZERO, neutral T::ZERO,
    |x| x.magnitude().widen(), |a, b| a.plus(b);
    narrowly |x| x.magnitude()
}
fold! {
    /// The sum of squares.
    SumSquares<T>: T::Sum = T::Sum::ZERO, neutral T::ZERO,
    |x| x.widen().times(x.widen()), |a, b| a.plus(b);
    narrowly |x| x.times(x), above LEAST_SQUARES;
    runs by SquareRuns
}
fold! {
    /// The largest; NaN if there is one.
    Max<T>: T = T::LOWEST, neutral T::LOWEST,
    |x| x, |a, b| larger(a, b);
    unless e e.nan(), |a, b| select(b > a, b, a), rows by extremes true
}
fold! {
    /// The smallest; NaN if there is one.
    Min<T>: T = T::HIGHEST, neutral T::HIGHEST,
    |x| x, |a, b| smaller(a, b);
    unless e e.nan(), |a, b| select(b < a, b, a), rows by extremes false
}
fold! {
    /// The largest magnitude; NaN if there is one. Its accumulator never falls below zero, as PyTorch's.
    MaxAbs<T>: T = T::ZERO, neutral T::ZERO,
    |x| x.magnitude(), |a, b| larger(a, b);
    at_most Level::Avx2
}
fold! {
    /// The smallest magnitude; NaN if there is one.
    MinAbs<T>: T = T::HIGHEST, neutral T::HIGHEST,
    |x| x.magnitude(), |a, b| smaller(a, b);
    at_most Level::Avx2
}

#[inline(always)]
pub(super) fn larger<T: Value>(a: T, b: T) -> T {
    select((b > a) | b.nan(), b, a)
}

#[inline(always)]
pub(super) fn smaller<T: Value>(a: T, b: T) -> T {
    select((b < a) | b.nan(), b, a)
}

/// How many bytes are not zero.
#[derive(Clone, Copy)]
pub(super) struct CountBytes;

impl Fold for CountBytes {
    type In = u8;
    type State = i64;
    type Param = ();
    const IDENTITY: i64 = 0;
    #[inline(always)]
    fn neutral() -> Option<u8> {
        Some(0)
    }
    #[inline(always)]
    fn one<I: Isa>(self, x: u8, _: ()) -> i64 {
        i64::from(x != 0)
    }
    #[inline(always)]
    fn merge(self, a: i64, b: i64) -> i64 {
        a + b
    }
    #[inline(always)]
    fn four<I: Isa>(self, x: [u8; 4], _: ()) -> i64 {
        let [a, b, c, d] = x.map(|x| u8::from(x != 0));
        i64::from((a + b) + (c + d))
    }
}

/// The sum of magnitudes to a power.
#[derive(Clone, Copy)]
pub(super) struct SumPowers<T> {
    pub power: f64,
    pub of: PhantomData<T>,
}

impl<T: Value> Fold for SumPowers<T> {
    // Few ask for it, and powers are long.
    const HIGHEST: Level = Level::Avx2;
    type In = T;
    type State = f64;
    type Param = ();
    const IDENTITY: f64 = 0.0;
    #[inline(always)]
    fn one<I: Isa>(self, x: T, _: ()) -> f64 {
        Float::pow::<I>(x.magnitude().to_f64(), self.power)
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
    const HIGHEST: Level = Level::Avx2;
    type In = Complex<f64>;
    type State = Complex<f64>;
    type Param = ();
    const IDENTITY: Complex<f64> = Complex::new(1.0, 0.0);
    #[inline(always)]
    fn one<I: Isa>(self, x: Complex<f64>, _: ()) -> Complex<f64> {
        x
    }
    #[inline(always)]
    fn merge(self, a: Complex<f64>, b: Complex<f64>) -> Complex<f64> {
        a * b
    }
}

/// Whether one of four elements is rare. (No short cuts: it has to vectorise.)
#[inline(always)]
pub(super) fn any_rare<F: Fold>([a, b, c, d]: [F::In; 4]) -> bool {
    F::is_rare(a) | F::is_rare(b) | F::is_rare(c) | F::is_rare(d)
}

/// Accumulators that a run of elements is dealt to. With four elements for each at a time they take turns often enough for
/// every instruction set, and short runs have little to merge.
pub(super) const RUN: usize = 16;

/// The elements of a run that are folded at a time.
pub(super) const SET: usize = 4 * RUN;

/// Bytes of a run between what is folded and what is asked for: the hardware itself asks for no page before it is read.
pub(super) const AHEAD: usize = 1 << 11;

/// Folds contiguous elements into one accumulator, dealing them to several that stay in registers (Note [Lanes]). Which
/// element goes where depends on `n` alone.
///
/// # Safety
/// `x` must be valid for `n` elements, and `before` elements before it too.
#[inline(always)]
pub(super) unsafe fn fold_run<I: Isa, F: Fold>(
    f: F,
    mut x: *const F::In,
    n: usize,
    before: usize,
    param: F::Param,
) -> F::State {
    let Some(neutral) = F::neutral() else {
        // SAFETY: the caller's elements.
        return unsafe { fold_costly_run::<I, F>(f, x, n, param) };
    };
    // Only whole sets are read, and there may be none.
    let mut padded = [MaybeUninit::<F::In>::zeroed(); SET];
    if n + before < SET {
        for (i, element) in padded[SET - n..].iter_mut().enumerate() {
            // SAFETY: `i` is below `n`.
            element.write(unsafe { *x.add(i) });
        }
        x = padded.as_ptr().cast::<F::In>().wrapping_add(SET - n);
    }
    // SAFETY: the caller's elements, or copies after zeros. (No closure, which need not be inlined and then loses the
    // instruction set.)
    unsafe {
        if const { F::QUICK && !I::COMPACT }
            && let Some(all) = fold_sets::<I, F, true>(f, x, n, neutral, param)
        {
            return all;
        }
        fold_sets::<I, F, false>(f, x, n, neutral, param).unwrap_or(F::IDENTITY)
    }
}

/// [`fold_run`] one way; the `QUICK` one gives up if there are rare elements.
///
/// # Safety
/// `x` must be valid for `n` elements; where these are less than `SET`, the elements before must be valid, up to that many.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loop countable, and its bounds constant.
unsafe fn fold_sets<I: Isa, F: Fold, const QUICK: bool>(
    f: F,
    x: *const F::In,
    n: usize,
    neutral: F::In,
    param: F::Param,
) -> Option<F::State> {
    const N: usize = RUN;
    let mut lanes = const { aligned([F::IDENTITY; N]) };
    let mut next = const { aligned([F::IDENTITY; N]) };
    let mut rare = const { aligned([0u32; N]) };
    let merge = |a: F::State, b: F::State| if QUICK { f.quick_merge(a, b) } else { f.merge(a, b) };
    let ask = runs_are_asked_for();
    let mut at = 0;
    // One loop with both kinds of sets, and in them one for each array: else accumulators leave the registers.
    while at < n {
        let folded = (at + SET).saturating_sub(n) as u32;
        let x = x.wrapping_add(at).wrapping_sub(folded as usize);
        if ask {
            prefetch_run(x.cast::<u8>().wrapping_add(AHEAD), SET * size_of::<F::In>());
        }
        // SAFETY: elements of the run, or before it where it is short.
        let element = |i: usize| unsafe { *x.add(i) };
        // Where a lane's four are.
        let places = |l: usize| match const { F::NEIGHBOURS } {
            true => [2 * l, 2 * l + 1, 2 * N + 2 * l, 2 * N + 2 * l + 1],
            false => [l, N + l, 2 * N + l, 3 * N + l],
        };
        if folded == 0 {
            let four = |l: usize| {
                let [a, b, c, d] = places(l);
                [element(a), element(b), element(c), element(d)]
            };
            for l in 0..N {
                let four = if QUICK { f.quick_four::<I>(four(l), param) } else { f.four::<I>(four(l), param) };
                next[l] = merge(lanes[l], four);
            }
            if QUICK {
                for l in 0..N {
                    rare[l] = select(any_rare::<F>(four(l)), 1, rare[l]);
                }
            }
        } else {
            // The last `SET` elements, of which those count that were not folded yet.
            let one = |i: usize| select(i as u32 >= folded, element(i), neutral);
            let four = |l: usize| {
                let [a, b, c, d] = places(l);
                [one(a), one(b), one(c), one(d)]
            };
            for l in 0..N {
                let four = if QUICK { f.quick_four::<I>(four(l), param) } else { f.four::<I>(four(l), param) };
                next[l] = merge(lanes[l], four);
            }
            if QUICK {
                for l in 0..N {
                    rare[l] = select(any_rare::<F>(four(l)), 1, rare[l]);
                }
            }
        }
        for l in 0..N {
            lanes[l] = next[l];
        }
        at += SET;
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
    let all = joined(&lanes, merge);
    (!QUICK || F::stands(all)).then_some(all)
}

/// The lanes joined, halves with halves. (An array for each step: Note [Lanes].)
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loops' bounds constant.
fn joined<S: Copy>(lanes: &[S; RUN], merge: impl Fn(S, S) -> S) -> S {
    const { assert!(RUN == 16) };
    let (mut x8, mut x4, mut x2) = ([lanes[0]; 8], [lanes[0]; 4], [lanes[0]; 2]);
    for l in 0..8 {
        x8[l] = merge(lanes[l], lanes[8 + l]);
    }
    for l in 0..4 {
        x4[l] = merge(x8[l], x8[4 + l]);
    }
    for l in 0..2 {
        x2[l] = merge(x4[l], x4[2 + l]);
    }
    merge(x2[0], x2[1])
}

/// [`fold_run`] where an element's accumulator takes long to make: one after the other.
///
/// # Safety
/// `x` must be valid for `n` elements.
#[inline(always)]
pub(super) unsafe fn fold_costly_run<I: Isa, F: Fold>(f: F, x: *const F::In, n: usize, param: F::Param) -> F::State {
    // A short run is not worth merging many accumulators for.
    // SAFETY: the caller's elements.
    unsafe {
        if const { I::COMPACT } || n < 4 * SET {
            fold_costly::<I, F, RUN>(f, x, n, param)
        } else {
            fold_costly::<I, F, SET>(f, x, n, param)
        }
    }
}

/// [`fold_costly_run`] with `N` accumulators.
///
/// # Safety
/// As there.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loop countable, and its bounds constant.
unsafe fn fold_costly<I: Isa, F: Fold, const N: usize>(f: F, x: *const F::In, n: usize, param: F::Param) -> F::State {
    let mut lanes = const { aligned([F::IDENTITY; N]) };
    let mut at = 0;
    // SAFETY: every index is below `n`.
    let element = |i: usize| unsafe { *x.add(i) };
    while at + N <= n {
        for l in 0..N {
            lanes[l] = f.merge(lanes[l], f.one::<I>(element(at + l), param));
        }
        at += N;
    }
    let mut rest = const { aligned([F::IDENTITY; N]) };
    let left = n - at;
    if left > 0 && n >= N {
        // A whole set, of which those count that were not folded yet.
        for l in 0..N {
            let one = f.one::<I>(element(n - N + l), param);
            rest[l] = select(l + left >= N, one, F::IDENTITY);
        }
    } else {
        for l in 0..left {
            rest[l] = f.one::<I>(element(at + l), param);
        }
    }
    let mut joined = const { aligned([F::IDENTITY; N]) };
    for l in 0..N {
        joined[l] = f.merge(lanes[l], rest[l]);
    }
    let mut half = N;
    while half > 1 {
        half /= 2;
        for l in 0..half {
            joined[l] = f.merge(joined[l], joined[l + half]);
        }
    }
    joined[0]
}
