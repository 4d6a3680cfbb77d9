//! The position of the largest or smallest element.
//!
//! Of many columns, and of short runs, positions are carried along beside the best values. Long runs, and rows of few
//! columns, are folded to their extremes as fast as memory gives them, the best block is remembered, and only that block is
//! searched for the position.

use super::columns::{LOOK, fold_columns};
use super::fold::{Fold, Max, Min, Place, Value, fold_run};
#[cfg(target_arch = "x86_64")]
use super::quick_places;
use super::simple::write;
use super::{Block, Output, Reducer};
use crate::buffer::{Scratch, aligned};
use crate::math::{Isa, Kernel, entry, level, select};
use crate::prefetch::prefetch_run;
use flambeau_base::DType;
use std::marker::PhantomData;

/// Columns side by side; and where they are read as they lie, in long rows, which memory gives faster, the more so where no
/// cache may hold them.
const TILE: usize = 256;
const WIDE: usize = 1024;
const FAR_WIDE: usize = 4096;

/// Fewer columns are folded several rows at a time.
pub(super) const NARROW: usize = 16;

/// Rows that are compared before the next columns, and from those that are compared to those that are asked for.
pub(super) const ROWS: usize = 8;
const AHEAD: usize = 2 * ROWS;

/// Elements of a block that is searched.
const BLOCK: usize = 8192;

/// Elements of a run that are looked at together where places are carried along, and of runs of `LONG` elements and more with
/// AVX-512, of which fewer are two vectors that wait for each other.
const STEP: usize = 32;
const WIDE_STEP: usize = 64;
const LONG: usize = 512;

/// The longest run of which places are carried along: of elements as wide as places, and of smaller ones.
const SHORT: [usize; 2] = [16384, 2048];

/// The best value and its index; the index is `i64::MAX` where nothing was seen.
#[derive(Clone, Copy)]
pub(super) struct Found<T> {
    value: T,
    index: i64,
}

/// Whether `a` beats `b`: it is not less or equal, but greater or NaN (for the largest), and `b` is not NaN.
#[inline(always)]
#[allow(clippy::neg_cmp_op_on_partial_ord)] // NaN is neither.
fn beats<T: Value, const MAX: bool>(a: T, b: T) -> bool {
    (if MAX { !(a <= b) } else { !(a >= b) }) & !b.nan()
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

/// Compares elements with the best so far, lane by lane; those that are better are from `place`.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loop countable, and its bounds constant.
fn compare<T: Value, const MAX: bool, const W: usize>(
    x: [T; W],
    place: usize,
    best: &mut [T; W],
    places: &mut [T::Place; W],
) {
    let place = T::Place::of(place);
    for l in 0..W {
        let better = beats::<T, MAX>(x[l], best[l]);
        best[l] = select(better, x[l], best[l]);
        places[l] = select(better, place, places[l]);
    }
}

/// Compares the elements of `rows` rows, from row `from` on, with the best of their columns. What is compared again makes no
/// difference.
///
/// # Safety
/// `x` must be valid for those rows of `W` elements.
#[inline(always)]
unsafe fn compare_rows<T: Value, const MAX: bool, const W: usize>(
    x: *const T,
    row_stride: isize,
    (from, rows): (usize, usize),
    best: &mut [T; W],
    places: &mut [T::Place; W],
) {
    let (mut b, mut p) = (*best, *places);
    for r in from..from + rows {
        let row = x.wrapping_offset(r as isize * row_stride);
        prefetch_run(row.wrapping_offset(AHEAD as isize * row_stride).cast(), size_of::<[T; W]>());
        // SAFETY: the caller's row.
        compare::<T, MAX, W>(unsafe { row.cast::<[T; W]>().read_unaligned() }, r, &mut b, &mut p);
    }
    (*best, *places) = (b, p);
}

/// [`compare_rows`] of as many columns as [`quick_places`] does: whole times [`NARROW`], or none.
///
/// # Safety
/// `x` must be valid for those rows of as many columns as there are places, and the machine must have `I`.
#[inline(always)]
unsafe fn compare_quickly<I: Isa, T: Value, const MAX: bool>(
    x: *const T,
    row_stride: isize,
    (from, rows): (usize, usize),
    best: &mut [T],
    places: &mut [T::Place],
) -> usize {
    #[cfg(target_arch = "x86_64")]
    if rows == ROWS {
        let rows = std::array::from_fn(|i| x.wrapping_offset((from + i) as isize * row_stride));
        // SAFETY: the caller's rows.
        return unsafe { quick_places::compare::<I, T, MAX>((rows, AHEAD as isize * row_stride), from, best, places) };
    }
    let _ = (x, row_stride, from, rows, best, places);
    0
}

/// Adds the extremes of the columns of rows that contiguous elements make to their states.
///
/// # Safety
/// The block's elements must be valid, `W` columns at least; `states` holds one for each. The machine must have `I`.
#[inline(always)]
unsafe fn add_columns<I: Isa, T: Value, F: IsMax, const MAX: bool, const W: usize>(
    b: &Block,
    identity: T,
    states: *mut Found<T>,
) {
    let x = b.data.cast::<T>();
    let (mut best, mut places) = (Scratch::<T>::new(b.cols), Scratch::<T::Place>::new(b.cols));
    let (best, places) = (best.filled(b.cols, identity), places.filled(b.cols, T::Place::default()));
    for from in (0..b.rows).step_by(ROWS) {
        let rows = (from, ROWS.min(b.rows - from));
        let mut done = 0;
        while done < b.cols {
            // The last columns are compared with some before them. (Few at a time where one of them is NaN.)
            let start = done.min(b.cols - NARROW);
            // SAFETY: columns of the caller's rows.
            let quick = unsafe {
                let x = x.wrapping_add(start);
                compare_quickly::<I, T, MAX>(x, b.row_stride, rows, &mut best[start..], &mut places[start..])
            };
            done = start + quick;
            if quick == 0 {
                let start = start.min(b.cols - W);
                let (best, places) = (best[start..].first_chunk_mut(), places[start..].first_chunk_mut());
                let (Some(best), Some(places)) = (best, places) else { return };
                // SAFETY: `W` columns of the caller's rows.
                unsafe { compare_rows::<T, MAX, W>(x.wrapping_add(start), b.row_stride, rows, best, places) };
                done = start + W;
            }
        }
    }
    for j in 0..b.cols {
        let index = b.index + places[j].get() as i64 * b.index_step;
        // SAFETY: a state of the caller's.
        unsafe { add_to::<T, F>(states.add(j), Found { value: best[j], index }) };
    }
}

/// [`find_extreme`] of a short run, with places carried along.
///
/// # Safety
/// `x` must be valid for `n` elements, `W` at least.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // As above.
unsafe fn find_in_short<T: Value, const MAX: bool, const W: usize>(x: *const T, n: usize, identity: T) -> (T, usize) {
    let (mut best, mut places) = (aligned([identity; W]), aligned([T::Place::default(); W]));
    for start in (0..n).step_by(W) {
        let start = start.min(n - W);
        // SAFETY: elements of the caller's.
        let block = unsafe { x.add(start).cast::<[T; W]>().read_unaligned() };
        compare::<T, MAX, W>(block, start, &mut best, &mut places);
    }
    let value = best_of::<T, MAX, W>(&best);
    // Of the lanes that have it, the first place.
    let mut first = [T::Place::LAST; W];
    for l in 0..W {
        let has = (best[l] == value) | (best[l].nan() & value.nan());
        first[l] = select(has, places[l].plus(T::Place::of(l)), T::Place::LAST);
    }
    let place = first.iter().fold(T::Place::LAST, |a, &b| if b < a { b } else { a });
    (value, place.get())
}

/// The best of so many values: NaN if there is one.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // An index keeps the loops' bounds constant.
fn best_of<T: Value, const MAX: bool, const W: usize>(values: &[T; W]) -> T {
    const { assert!(W == 32 || W == 64) };
    let better = |a: T, b: T| select(if MAX { b > a } else { b < a }, b, a);
    // An array for each step, as in `norm::rows::together`.
    let (mut x32, mut x16, mut x8, mut x4) = ([T::ZERO; 32], [T::ZERO; 16], [T::ZERO; 8], [T::ZERO; 4]);
    let mut nan = 0u32;
    for l in 0..W {
        nan |= values[l].nan() as u32;
    }
    if nan != 0 {
        return values.iter().copied().find(|v| v.nan()).unwrap_or(values[0]);
    }
    for l in 0..32 {
        // (The same one of 32.)
        x32[l] = better(values[l], values[W - 32 + l]);
    }
    for l in 0..16 {
        x16[l] = better(x32[l], x32[16 + l]);
    }
    for l in 0..8 {
        x8[l] = better(x16[l], x16[8 + l]);
    }
    for l in 0..4 {
        x4[l] = better(x8[l], x8[4 + l]);
    }
    better(better(x4[0], x4[2]), better(x4[1], x4[3]))
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
    let short = const { if size_of::<T>() == size_of::<T::Place>() { SHORT[0] } else { SHORT[1] } };
    if const { !I::COMPACT } && (STEP..=short).contains(&n) {
        // SAFETY: the caller's elements.
        return unsafe {
            match (const { I::VECTOR_BYTES == 64 && size_of::<T>() == 4 } && n >= LONG, F::MAX) {
                (true, true) => find_in_short::<T, true, WIDE_STEP>(x, n, F::IDENTITY),
                (true, false) => find_in_short::<T, false, WIDE_STEP>(x, n, F::IDENTITY),
                (false, true) => find_in_short::<T, true, STEP>(x, n, F::IDENTITY),
                (false, false) => find_in_short::<T, false, STEP>(x, n, F::IDENTITY),
            }
        };
    }
    let (mut best, mut best_start) = (F::IDENTITY, 0);
    for start in (0..n).step_by(BLOCK) {
        // SAFETY: elements of the caller's.
        let value = unsafe { fold_run::<I, F>(f, x.add(start), BLOCK.min(n - start), start + before, ()) };
        let better = if F::MAX { beats::<T, true>(value, best) } else { beats::<T, false>(value, best) };
        if start == 0 || better {
            (best, best_start) = (value, start);
        }
    }
    // SAFETY: as above.
    let at = unsafe { find(x.add(best_start), BLOCK.min(n - best_start), 1, best) };
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
        if b.cols >= NARROW {
            // SAFETY: the caller's block, of so many columns.
            return unsafe {
                match (const { !I::COMPACT } && b.cols >= LOOK, F::MAX) {
                    (true, true) => add_columns::<I, T, F, true, LOOK>(&b, F::IDENTITY, states),
                    (true, false) => add_columns::<I, T, F, false, LOOK>(&b, F::IDENTITY, states),
                    (false, true) => add_columns::<I, T, F, true, NARROW>(&b, F::IDENTITY, states),
                    (false, false) => add_columns::<I, T, F, false, NARROW>(&b, F::IDENTITY, states),
                }
            };
        }
        // Few columns lie end to end: several rows are folded together.
        let (units, at_once) = ([(); NARROW], BLOCK / b.cols);
        let mut best = const { aligned([F::IDENTITY; NARROW]) };
        let mut best_block = aligned([0i32; NARROW]);
        let mut block = const { aligned([F::IDENTITY; NARROW]) };
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
pub(super) struct Extreme<T: Value, F, G> {
    fold: F,
    /// Undoes what was done to the elements on loading.
    restore: G,
    run: unsafe fn((F, Block, *mut Found<T>)),
}

impl<T: Value, F: Fold<In = T, State = T, Param = ()> + IsMax, G: Fn(T) -> T> Extreme<T, F, G> {
    pub(super) fn new(fold: F, restore: G) -> Self {
        Extreme { fold, restore, run: entry::<FoldExtreme<F>>(level()) }
    }
}

impl<T: Value, F: Fold<In = T, State = T, Param = ()> + IsMax, G: Fn(T) -> T + Sync> Reducer for Extreme<T, F, G> {
    fn domain(&self) -> DType {
        T::DTYPE
    }
    fn state_size(&self) -> usize {
        size_of::<Found<T>>()
    }
    fn tile(&self, direct: bool, far: bool) -> usize {
        match (direct, far) {
            (false, _) => TILE,
            (true, false) => WIDE,
            (true, true) => FAR_WIDE,
        }
    }
    fn shortest_run(&self, _dense: bool, _far: bool) -> usize {
        STEP
    }
    fn prefers_few_pieces(&self) -> bool {
        true
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
