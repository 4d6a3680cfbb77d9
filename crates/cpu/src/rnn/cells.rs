//! What a cell does at one time with some rows and a chunk of its units, once the products with the state are there.

use super::{CHUNK, store};
use crate::math::{Float, Isa, Kernel};
use std::marker::PhantomData;

/// Rows of a tile of products.
pub(super) const ROWS: usize = 16;

/// One time's work on a chunk of units: `rows` rows of `columns` numbers. All pointers are at the first row's first unit;
/// rows of gates are `gates * width` apart, others `width`.
pub(super) struct Forward<T> {
    pub rows: usize,
    pub columns: usize,
    pub width: usize,
    /// The state's shares of the gates: [`ROWS`] rows of [`CHUNK`] numbers for each gate.
    pub tile: *const T,
    /// What is added to them, if anything: a gate's numbers are `width` apart from the next's.
    pub bias: *const T,
    /// The input's shares of the gates; their activations if something is kept.
    pub gates: *mut T,
    /// The hidden state before.
    pub before: *const T,
    /// What an LSTM's cell has kept, before and after.
    pub cell: *mut T,
    /// The new hidden state.
    pub output: *mut T,
    /// What the gradient needs beside the gates: the cell of an LSTM, and of a GRU the state's share of the new gate. Null
    /// if nothing is kept.
    pub kept: *mut T,
}

/// The gradient of the same.
pub(super) struct Backward<T> {
    pub rows: usize,
    pub columns: usize,
    pub width: usize,
    /// The gates' activations.
    pub gates: *const T,
    /// See [`Forward::kept`].
    pub kept: *const T,
    /// The hidden state after.
    pub output: *const T,
    /// The hidden state before; of an LSTM the cell before.
    pub before: *const T,
    /// The gradient by the hidden state at this time, null for zero; later times' share is in `hidden`.
    pub by_output: *const T,
    /// The gradients by the state after, and then what of those by the state before does not pass through the product.
    pub by_hidden: *mut T,
    /// The same for the cell of an LSTM.
    pub by_cell: *mut T,
    /// The gradients by the gates, and by the state's shares of them, where these differ.
    pub by_gates: *mut T,
    pub by_shares: *mut T,
}

/// A chunk, filled up with zeros.
///
/// # Safety
/// `from` must be valid for `n` elements, at most [`CHUNK`].
#[inline(always)]
unsafe fn load<T: Float>(from: *const T, n: usize) -> [T; CHUNK] {
    // SAFETY: the caller's.
    unsafe {
        if n == CHUNK {
            return from.cast::<[T; CHUNK]>().read_unaligned();
        }
        let mut part = [T::ZERO; CHUNK];
        std::ptr::copy_nonoverlapping(from, part.as_mut_ptr(), n);
        part
    }
}

/// A chunk of what may be missing, which is zero.
///
/// # Safety
/// As [`load`], if it is not null.
#[inline(always)]
unsafe fn load_or_zeros<T: Float>(from: *const T, offset: usize, n: usize) -> [T; CHUNK] {
    match from.is_null() {
        true => [T::ZERO; CHUNK],
        // SAFETY: the caller's.
        false => unsafe { load(from.add(offset), n) },
    }
}

impl<T: Float> Forward<T> {
    /// A row's chunk of a gate: the input's share and the state's.
    ///
    /// # Safety
    /// The pointers are valid.
    #[inline(always)]
    unsafe fn shares(&self, row: usize, gate: usize, gates: usize) -> ([T; CHUNK], [T; CHUNK]) {
        // SAFETY: the caller's.
        unsafe {
            let given = load(self.gates.add((row * gates + gate) * self.width).cast_const(), self.columns);
            (given, load(self.tile.add((gate * ROWS + row) * CHUNK), self.columns))
        }
    }
}

impl<T: Float> Backward<T> {
    /// A row's chunks of all gates.
    ///
    /// # Safety
    /// The pointers are valid.
    #[inline(always)]
    unsafe fn gates_of<const GATES: usize>(&self, row: usize) -> [[T; CHUNK]; GATES] {
        let mut all = [[T::ZERO; CHUNK]; GATES];
        for (gate, part) in all.iter_mut().enumerate() {
            // SAFETY: the caller's.
            *part = unsafe { load(self.gates.add((row * GATES + gate) * self.width), self.columns) };
        }
        all
    }
}

pub(super) struct Lstm<T>(PhantomData<T>);
pub(super) struct LstmBackward<T>(PhantomData<T>);
pub(super) struct Gru<T>(PhantomData<T>);
pub(super) struct GruBackward<T>(PhantomData<T>);
pub(super) struct Plain<T, const TANH: bool>(PhantomData<T>);
pub(super) struct PlainBackward<T, const TANH: bool>(PhantomData<T>);

impl<T: Float> Kernel for Lstm<T> {
    type Args = Forward<T>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>(p: Forward<T>) {
        for row in 0..p.rows {
            // SAFETY: rows and columns of the caller's arrays.
            unsafe {
                let mut all = [[T::ZERO; CHUNK]; 4];
                for (gate, part) in all.iter_mut().enumerate() {
                    let (given, own) = p.shares(row, gate, 4);
                    for i in 0..CHUNK {
                        part[i] = given[i] + own[i];
                    }
                    if gate == 2 {
                        part.iter_mut().for_each(|x| *x = x.tanh::<I>());
                    } else {
                        part.iter_mut().for_each(|x| *x = x.sigmoid::<I>());
                    }
                    if !p.kept.is_null() {
                        store(part, p.gates.add((row * 4 + gate) * p.width), p.columns);
                    }
                }
                let [input, forget, new, output] = all;
                let at = row * p.width;
                let (mut hidden, mut cell) = ([T::ZERO; CHUNK], load(p.cell.add(at).cast_const(), p.columns));
                for i in 0..CHUNK {
                    cell[i] = T::mul_add::<I>(forget[i], cell[i], input[i] * new[i]);
                    hidden[i] = output[i] * cell[i].tanh::<I>();
                }
                store(&hidden, p.output.add(at), p.columns);
                store(&cell, p.cell.add(at), p.columns);
                if !p.kept.is_null() {
                    store(&cell, p.kept.add(at), p.columns);
                }
            }
        }
    }
}

impl<T: Float> Kernel for LstmBackward<T> {
    type Args = Backward<T>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>(p: Backward<T>) {
        for row in 0..p.rows {
            let (at, first, n) = (row * p.width, row * 4 * p.width, p.columns);
            // SAFETY: rows and columns of the caller's arrays.
            unsafe {
                let [mut input, mut forget, mut new, mut output] = p.gates_of::<4>(row);
                let (kept, before) = (load(p.kept.add(at), n), load(p.before.add(at), n));
                let by_output = load_or_zeros(p.by_output, at, n);
                let by_hidden = load(p.by_hidden.add(at).cast_const(), n);
                let mut by_cell = load(p.by_cell.add(at).cast_const(), n);
                for i in 0..CHUNK {
                    let [a, f, b, o] = [input[i], forget[i], new[i], output[i]];
                    let (t, one) = (kept[i].tanh::<I>(), T::ONE);
                    let g_h = by_output[i] + by_hidden[i];
                    let g = by_cell[i] + g_h * o * (one - t * t);
                    input[i] = g * b * a * (one - a);
                    forget[i] = g * before[i] * f * (one - f);
                    new[i] = g * a * (one - b * b);
                    output[i] = g_h * t * o * (one - o);
                    by_cell[i] = g * f;
                }
                for (gate, part) in [&input, &forget, &new, &output].into_iter().enumerate() {
                    store(part, p.by_gates.add(first + gate * p.width), n);
                }
                store(&by_cell, p.by_cell.add(at), n);
            }
        }
    }
}

impl<T: Float> Kernel for Gru<T> {
    type Args = Forward<T>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>(p: Forward<T>) {
        for row in 0..p.rows {
            // SAFETY: rows and columns of the caller's arrays.
            unsafe {
                let mut all = [[T::ZERO; CHUNK]; 3];
                let mut share = [T::ZERO; CHUNK];
                for (gate, part) in all.iter_mut().enumerate() {
                    let (given, own) = p.shares(row, gate, 3);
                    let bias = load_or_zeros(p.bias, gate * p.width, p.columns);
                    for i in 0..CHUNK {
                        share[i] = own[i] + bias[i];
                        part[i] = given[i] + share[i];
                    }
                    if gate < 2 {
                        part.iter_mut().for_each(|x| *x = x.sigmoid::<I>());
                    } else {
                        *part = given;
                    }
                }
                let [reset, update, mut new] = all;
                let at = row * p.width;
                let before = load(p.before.add(at), p.columns);
                let mut hidden = [T::ZERO; CHUNK];
                for i in 0..CHUNK {
                    new[i] = (new[i] + share[i] * reset[i]).tanh::<I>();
                    hidden[i] = (before[i] - new[i]) * update[i] + new[i];
                }
                store(&hidden, p.output.add(at), p.columns);
                if !p.kept.is_null() {
                    for (gate, part) in [&reset, &update, &new].into_iter().enumerate() {
                        store(part, p.gates.add((row * 3 + gate) * p.width), p.columns);
                    }
                    store(&share, p.kept.add(at), p.columns);
                }
            }
        }
    }
}

impl<T: Float> Kernel for GruBackward<T> {
    type Args = Backward<T>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>(p: Backward<T>) {
        for row in 0..p.rows {
            let (at, first, n) = (row * p.width, row * 3 * p.width, p.columns);
            // SAFETY: rows and columns of the caller's arrays.
            unsafe {
                let [mut reset, mut update, mut new] = p.gates_of::<3>(row);
                let (mut share, before) = (load(p.kept.add(at), n), load(p.before.add(at), n));
                let by_output = load_or_zeros(p.by_output, at, n);
                let mut by_hidden = load(p.by_hidden.add(at).cast_const(), n);
                for i in 0..CHUNK {
                    let [r, z, m, one] = [reset[i], update[i], new[i], T::ONE];
                    let g = by_output[i] + by_hidden[i];
                    let by_new = g * (one - z) * (one - m * m);
                    update[i] = g * (before[i] - m) * z * (one - z);
                    reset[i] = by_new * share[i] * r * (one - r);
                    new[i] = by_new;
                    share[i] = by_new * r;
                    by_hidden[i] = g * z;
                }
                for (gate, part) in [&reset, &update, &new].into_iter().enumerate() {
                    store(part, p.by_gates.add(first + gate * p.width), n);
                }
                for (gate, part) in [&reset, &update, &share].into_iter().enumerate() {
                    store(part, p.by_shares.add(first + gate * p.width), n);
                }
                store(&by_hidden, p.by_hidden.add(at), n);
            }
        }
    }
}

impl<T: Float, const TANH: bool> Kernel for Plain<T, TANH> {
    type Args = Forward<T>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>(p: Forward<T>) {
        for row in 0..p.rows {
            // SAFETY: rows and columns of the caller's arrays.
            unsafe {
                let (given, own) = p.shares(row, 0, 1);
                let mut hidden = [T::ZERO; CHUNK];
                for i in 0..CHUNK {
                    let x = given[i] + own[i];
                    hidden[i] = match TANH {
                        true => x.tanh::<I>(),
                        false if x <= T::ZERO => T::ZERO,
                        false => x,
                    };
                }
                store(&hidden, p.output.add(row * p.width), p.columns);
            }
        }
    }
}

impl<T: Float, const TANH: bool> Kernel for PlainBackward<T, TANH> {
    type Args = Backward<T>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>(p: Backward<T>) {
        for row in 0..p.rows {
            let (at, n) = (row * p.width, p.columns);
            // SAFETY: rows and columns of the caller's arrays.
            unsafe {
                let hidden = load(p.output.add(at), n);
                let by_output = load_or_zeros(p.by_output, at, n);
                let mut by_hidden = load(p.by_hidden.add(at).cast_const(), n);
                for i in 0..CHUNK {
                    let g = by_output[i] + by_hidden[i];
                    by_hidden[i] = match TANH {
                        true => g * (T::ONE - hidden[i] * hidden[i]),
                        false if hidden[i] <= T::ZERO => T::ZERO,
                        false => g,
                    };
                }
                store(&by_hidden, p.by_gates.add(at), n);
            }
        }
    }
}
