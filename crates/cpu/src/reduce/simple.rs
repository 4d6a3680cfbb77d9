//! Reductions by one [`Fold`], and how results are written.

use super::columns::{self, FEW, LOOK, fold_columns, fold_few};
use super::fold::{Fold, fold_run};
use super::{Block, Output, Reducer};
use crate::buffer::aligned;
use crate::copy::cast_strip;
use crate::math::{Isa, Kernel, Level, entry, level};
use flambeau_base::dtype::cast;
use flambeau_base::fast_paths::FastPath;
use flambeau_base::{DType, Element};
use std::marker::PhantomData;

/// Bytes of the accumulators of a tile, and of one of elements that are read as they lie and that no cache may hold.
const STATE_BYTES: [usize; 2] = [1 << 14, 1 << 15];

/// Columns of a tile of `f32` whose rows are gathered.
const GATHERED_COLUMNS: usize = 512;

/// [`fold_run`] and [`fold_columns`] compiled per level.
pub(super) struct FoldBlock<F>(PhantomData<F>);

impl<F: Fold<Param = ()>> Kernel for FoldBlock<F> {
    type Args = (F, Block, *mut F::State);
    type Output = ();
    const HIGHEST: Level = F::HIGHEST;
    #[inline(always)]
    unsafe fn run<I: Isa>((f, b, states): Self::Args) {
        if b.is_runs() {
            let mut j = 0;
            // SAFETY: columns of the driver's block, and their states.
            unsafe {
                loop {
                    j += F::fold_runs::<I>(&b, j, states);
                    if j == b.cols {
                        return;
                    }
                    // It does none; or what it stops at has an infinity, and what follows may.
                    for _ in 0..4.min(b.cols - j) {
                        let x = b.data.cast::<F::In>().wrapping_offset(j as isize * b.col_stride);
                        let run = fold_run::<I, F>(f, x, b.rows, b.before(j), ());
                        *states.add(j) = f.merge(*states.add(j), run);
                        j += 1;
                    }
                }
            }
        }
        // One unit parameter per column costs nothing: a slice of them has no bytes.
        // SAFETY: a slice of zero-sized values needs no memory; the rest is the driver's promise.
        unsafe {
            let params = std::slice::from_raw_parts(std::ptr::NonNull::<()>::dangling().as_ptr(), b.cols.max(1));
            let states = std::slice::from_raw_parts_mut(states, b.cols);
            fold_columns::<I, F>(f, b, params, states)
        }
    }
}

/// Few rows to values of the elements' dtype: accumulators live in registers.
struct FewRows<F, V, G>(PhantomData<(F, V, G)>);

impl<F: Fold<Param = ()>, V: Element, G: Fn(F::State) -> V> Kernel for FewRows<F, V, G> {
    /// The fold, at most `FEW` rows of at least `LOOK` columns, the way from an accumulator to a value, and the values.
    type Args = (F, Block, *const G, *mut F::In);
    type Output = ();
    const HIGHEST: Level = F::HIGHEST;
    const FAST_PATH: bool = true;
    #[inline(always)]
    unsafe fn run<I: Isa>((f, b, finish, to): Self::Args) {
        let Some(neutral) = F::neutral() else { return };
        // SAFETY: the caller's rows, and a value for each of their columns.
        unsafe {
            let each = |at: usize, states: &[F::State]| {
                for (l, &state) in states.iter().enumerate() {
                    to.add(at + l).write_unaligned(cast((*finish)(state)));
                }
            };
            if F::fold_few_rows::<I>(&b, each) {
                return;
            }
        }
        let nothing = [neutral; LOOK];
        let rows = columns::FewRows::new(b.data.cast(), (b.rows, b.row_stride), nothing.as_ptr());
        let mut done = 0;
        while done < b.cols {
            // The last columns may be folded twice, to the same values.
            let start = done.min(b.cols - LOOK);
            let mut states = const { aligned([F::IDENTITY; LOOK]) };
            // SAFETY: columns of the caller's block, and their values.
            unsafe {
                fold_few::<I, F>(f, &rows, start, 0, &[(); LOOK], &mut states);
                for (l, &state) in states.iter().enumerate() {
                    to.add(start + l).write_unaligned(cast((*finish)(state)));
                }
            }
            done = start + LOOK;
        }
    }
}

/// [`FewRows`] compiled for a level.
type FewRowsFn<F, G> = unsafe fn((F, Block, *const G, *mut <F as Fold>::In));

/// A reduction by one [`Fold`], with `finish` taking an accumulator to a value to be written.
pub(super) struct Simple<F: Fold, V, G> {
    fold: F,
    finish: G,
    run: unsafe fn((F, Block, *mut F::State)),
    few: Option<FewRowsFn<F, G>>,
    to: PhantomData<fn() -> V>,
}

impl<F: Fold<Param = ()>, V: Element, G: Fn(F::State) -> V> Simple<F, V, G> {
    pub(super) fn new(fold: F, finish: G) -> Self {
        let few = if const { F::FEW_ROWS } && level().has_fast_paths() {
            Some(entry::<FewRows<F, V, G>>(level()) as _)
        } else {
            None
        };
        Simple { fold, finish, run: entry::<FoldBlock<F>>(level()), few, to: PhantomData }
    }
}

impl<F: Fold<Param = ()>, V: Element, G: Fn(F::State) -> V + Sync> Reducer for Simple<F, V, G> {
    fn domain(&self) -> DType {
        F::In::DTYPE
    }
    fn state_size(&self) -> usize {
        size_of::<F::State>()
    }
    fn tile(&self, direct: bool, far: bool) -> usize {
        if !direct && F::In::DTYPE == DType::F32 {
            // Several rows fit into what holds them, and are folded together. (Products of integers take longer so.)
            return GATHERED_COLUMNS;
        }
        // Rows as long as accumulators in the first-level cache allow: short ones of many rows are slow to read.
        (STATE_BYTES[usize::from(direct && far)] / size_of::<F::State>()).max(512)
    }
    fn shortest_run(&self, dense: bool, far: bool) -> usize {
        F::shortest_run(dense, far)
    }
    unsafe fn init(&self, states: *mut u8, n: usize) {
        // SAFETY: `n` aligned states by the contract.
        unsafe { std::slice::from_raw_parts_mut(states.cast(), n) }.fill(F::IDENTITY);
    }
    unsafe fn fold(&self, block: Block, states: *mut u8) {
        // SAFETY: the machine has `level()`; the rest is the contract.
        unsafe { (self.run)((self.fold, block, states.cast())) }
    }
    unsafe fn whole(&self, block: Block, outputs: &[Output]) -> bool {
        let (Some(few), [output]) = (self.few, outputs) else { return false };
        let fits = block.rows <= FEW && block.cols >= LOOK && block.col_stride == 1;
        let dense = output.dtype == F::In::DTYPE && output.stride == size_of::<F::In>() as isize;
        let done = fits && dense && FastPath::ReduceFewRows.is_on();
        if done {
            // SAFETY: the machine has `level()`; the rest is the contract.
            unsafe { few((self.fold, block, &self.finish, output.data.cast())) };
        }
        done
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
        let finish = |start: usize, block: &mut [V]| {
            for (value, &state) in block.iter_mut().zip(&states[start..]) {
                *value = (self.finish)(state);
            }
        };
        // SAFETY: the contract.
        unsafe { write_blocks(&outputs[0], n, finish) }
    }
}

/// Writes `n` values, computed in `V`, to an output of any dtype.
///
/// # Safety
/// The output must be valid for `n` elements.
pub(super) unsafe fn write<V: Element>(output: &Output, n: usize, value: impl Fn(usize) -> V) {
    let fill = |start: usize, block: &mut [V]| {
        for (i, slot) in block.iter_mut().enumerate() {
            *slot = value(start + i);
        }
    };
    // SAFETY: the caller's contract.
    unsafe { write_blocks(output, n, fill) }
}

/// As [`write`], where `fill` computes the values from an index on.
///
/// # Safety
/// As there.
pub(super) unsafe fn write_blocks<V: Element>(output: &Output, n: usize, fill: impl Fn(usize, &mut [V])) {
    const BLOCK: usize = 128;
    let strip = cast_strip(V::DTYPE, output.dtype);
    let mut block = aligned([V::default(); BLOCK]);
    let mut at = 0;
    while at < n {
        let count = BLOCK.min(n - at);
        fill(at, &mut block[..count]);
        // SAFETY: the block holds `count` values; the output is valid by the contract.
        unsafe {
            let to = output.data.offset(at as isize * output.stride);
            strip(block.as_ptr().cast(), size_of::<V>() as isize, to, output.stride, count);
        }
        at += count;
    }
}
