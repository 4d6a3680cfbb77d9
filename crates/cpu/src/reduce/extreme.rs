//! The position of the largest or smallest element.
//!
//! Indices are not carried along: blocks are folded to their extremes as fast as memory gives them, the best block is
//! remembered, and only that block is searched for the position.

use super::columns::{LANES, fold_columns};
use super::fold::{Fold, Max, Min, Value, fold_run};
use super::simple::write;
use super::{Block, Output, Reducer};
use crate::buffer::aligned;
use crate::math::{Isa, Kernel, entry, level, select};
use flambeau_base::DType;
use std::marker::PhantomData;

/// Columns side by side.
const TILE: usize = 256;

/// Elements of a block where columns are few.
const NARROW_BLOCK: usize = 8192;

/// Rows of a block where columns are many.
const WIDE_ROWS: usize = 16;

/// The best value and its index; the index is `i64::MAX` where nothing was seen.
#[derive(Clone, Copy)]
pub(super) struct Found<T> {
    value: T,
    index: i64,
}

/// Whether `a` beats `b`. NaN beats every number.
#[inline(always)]
fn beats<T: Value, const MAX: bool>(a: T, b: T) -> bool {
    (if MAX { a > b } else { a < b }) | (a.nan() & !b.nan())
}

impl<T: Value> Found<T> {
    /// The better of two; the lower index among equals, as in one pass from the front.
    #[inline(always)]
    fn merge<const MAX: bool>(self, other: Found<T>) -> Found<T> {
        let equal = self.value == other.value || (self.value.nan() && other.value.nan());
        let take = if self.index == i64::MAX || other.index == i64::MAX || equal {
            other.index < self.index
        } else {
            beats::<T, MAX>(other.value, self.value)
        };
        if take { other } else { self }
    }
}

/// Adds what was found further on to a state.
///
/// # Safety
/// `state` must be valid.
#[inline(always)]
unsafe fn add_to<T: Value, F: IsMax>(state: *mut Found<T>, found: Found<T>) {
    // SAFETY: the caller's contract.
    let state = unsafe { &mut *state };
    *state = if F::MAX { state.merge::<true>(found) } else { state.merge::<false>(found) };
}

/// The row of the first element in a column that is `value` (NaN if it is NaN).
///
/// # Safety
/// `x` must be valid for `rows` elements at the stride.
#[inline(always)]
unsafe fn find<T: Value>(x: *const T, rows: usize, stride: isize, value: T) -> usize {
    let matches = |e: T| (e == value) | (e.nan() & value.nan());
    let mut r = 0;
    if stride == 1 {
        // Whole steps without a branch per element, so that they vectorise.
        // SAFETY: `rows` contiguous elements by the contract.
        let x = unsafe { std::slice::from_raw_parts(x, rows) };
        for step in x.chunks_exact(64) {
            if step.iter().fold(false, |any, &e| any | matches(e)) {
                break;
            }
            r += 64;
        }
        for step in x[r..].chunks_exact(16) {
            if step.iter().fold(false, |any, &e| any | matches(e)) {
                break;
            }
            r += 16;
        }
    }
    // SAFETY: `r < rows`.
    while r + 1 < rows && !matches(unsafe { *x.offset(r as isize * stride) }) {
        r += 1;
    }
    r
}

/// The extreme of contiguous elements, and the first place of it.
///
/// # Safety
/// As [`fold_run`].
#[inline(always)]
unsafe fn find_extreme<I: Isa, T: Value, F: Fold<In = T, State = T, Param = ()> + IsMax>(
    f: F,
    x: *const T,
    n: usize,
    before: usize,
) -> (T, usize) {
    let (mut best, mut best_start) = (F::IDENTITY, 0);
    for start in (0..n).step_by(NARROW_BLOCK) {
        // SAFETY: elements of the caller's.
        let value = unsafe { fold_run::<I, F>(f, x.add(start), NARROW_BLOCK.min(n - start), start + before, ()) };
        let better = if F::MAX { beats::<T, true>(value, best) } else { beats::<T, false>(value, best) };
        if start == 0 || better {
            (best, best_start) = (value, start);
        }
    }
    // SAFETY: as above.
    let at = unsafe { find(x.add(best_start), NARROW_BLOCK.min(n - best_start), 1, best) };
    (best, best_start + at)
}

struct FoldExtreme<F>(PhantomData<F>);

impl<T: Value, F: Fold<In = T, State = T, Param = ()> + IsMax> Kernel for FoldExtreme<F> {
    type Args = (F, Block, *mut Found<T>);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((f, b, states): Self::Args) {
        let x = b.data.cast::<T>();
        if b.is_runs() {
            for j in 0..b.cols {
                // SAFETY: a column of the caller's block, and its state.
                unsafe {
                    let column = x.offset(j as isize * b.col_stride);
                    let (value, row) = find_extreme::<I, T, F>(f, column, b.rows, b.before(j));
                    add_to::<T, F>(states.add(j), Found { value, index: b.index + row as i64 * b.index_step });
                }
            }
            return;
        }
        let units = [(); TILE];
        let narrow = b.cols < LANES / 2 && b.row_stride == b.cols as isize;
        let at_once = if narrow { NARROW_BLOCK / b.cols } else { WIDE_ROWS };
        let mut best = const { aligned([F::IDENTITY; TILE]) };
        let mut best_block = aligned([0i32; TILE]);
        let mut block = const { aligned([F::IDENTITY; TILE]) };
        // SAFETY: the first rows of the caller's block; identities lose to or equal everything.
        unsafe { fold_columns::<I, F>(f, b.rows_from(0, at_once, size_of::<T>()), &units, &mut *best) };
        let mut r = at_once;
        while r < b.rows {
            block[..b.cols].fill(F::IDENTITY);
            // SAFETY: rows of the caller's block.
            unsafe { fold_columns::<I, F>(f, b.rows_from(r, at_once, size_of::<T>()), &units, &mut *block) };
            let id = (r / at_once) as i32;
            let (best, best_block, block) = (&mut best[..b.cols], &mut best_block[..b.cols], &block[..b.cols]);
            for j in 0..b.cols {
                let better =
                    if F::MAX { beats::<T, true>(block[j], best[j]) } else { beats::<T, false>(block[j], best[j]) };
                best[j] = select(better, block[j], best[j]);
                best_block[j] = select(better, id, best_block[j]);
            }
            r += at_once;
        }
        for j in 0..b.cols {
            let start = best_block[j] as usize * at_once;
            // SAFETY: a column of the caller's block, and its state.
            unsafe {
                let column = x.offset(start as isize * b.row_stride + j as isize);
                let row = start + find(column, at_once.min(b.rows - start), b.row_stride, best[j]);
                let found = Found { value: best[j], index: b.index + row as i64 * b.index_step };
                add_to::<T, F>(states.add(j), found);
            }
        }
    }
}

/// Which extreme a fold looks for.
pub(super) trait IsMax {
    const MAX: bool;
}
impl<T> IsMax for Max<T> {
    const MAX: bool = true;
}
impl<T> IsMax for Min<T> {
    const MAX: bool = false;
}

/// The extreme's index as the last output, and the extreme itself as the first where there are two.
pub(super) struct Extreme<T: Value, F> {
    fold: F,
    /// Undoes what was done to the elements on loading.
    restore: fn(T) -> T,
    run: unsafe fn((F, Block, *mut Found<T>)),
}

impl<T: Value, F: Fold<In = T, State = T, Param = ()> + IsMax> Extreme<T, F> {
    pub(super) fn new(fold: F, restore: fn(T) -> T) -> Self {
        Extreme { fold, restore, run: entry::<FoldExtreme<F>>(level()) }
    }
}

impl<T: Value, F: Fold<In = T, State = T, Param = ()> + IsMax> Reducer for Extreme<T, F> {
    fn domain(&self) -> DType {
        T::DTYPE
    }
    fn state_size(&self) -> usize {
        size_of::<Found<T>>()
    }
    fn tile(&self) -> usize {
        TILE
    }
    unsafe fn init(&self, states: *mut u8, n: usize) {
        let empty = Found { value: F::IDENTITY, index: i64::MAX };
        // SAFETY: `n` aligned states by the contract.
        unsafe { std::slice::from_raw_parts_mut(states.cast(), n) }.fill(empty);
    }
    unsafe fn fold(&self, block: Block, states: *mut u8) {
        // SAFETY: the machine has `level()`; the rest is the contract.
        unsafe { (self.run)((self.fold, block, states.cast())) }
    }
    unsafe fn merge(&self, into: *mut u8, from: *const u8, n: usize) {
        for i in 0..n {
            // SAFETY: two runs of `n` aligned states by the contract.
            unsafe { add_to::<T, F>(into.cast::<Found<T>>().add(i), *from.cast::<Found<T>>().add(i)) };
        }
    }
    unsafe fn finish(&self, states: *const u8, n: usize, outputs: &[Output]) {
        // SAFETY: `n` aligned states by the contract.
        let states = unsafe { std::slice::from_raw_parts(states.cast::<Found<T>>(), n) };
        let Some((indices, values)) = outputs.split_last() else { return };
        // SAFETY: the contract.
        unsafe { write(indices, n, |i| states[i].index) };
        if let Some(values) = values.first() {
            // SAFETY: the contract.
            unsafe { write(values, n, |i| (self.restore)(states[i].value)) };
        }
    }
}
