//! The gates of a long short-term memory cell, and their gradient, in one pass each; and whole layers of recurrent cells.

mod cells;
mod layer;

pub use layer::{Cell, Gradients, Layer, Results, Saved, Steps};
pub(crate) use layer::{layer_backward, layer_forward};

use crate::copy::Shared;
use crate::math::{Float, Isa, Kernel, run};
use flambeau_base::Element;
use flambeau_base::parallel::parallel_for;
use std::marker::PhantomData;
use std::ops::Range;

/// Elements computed into local buffers before they are stored, so that the loops vectorise.
const CHUNK: usize = 32;
/// Elements of a cell in one piece of parallel work: each costs five exponentials or so.
const GRAIN: usize = 1 << 12;

/// The new state, `width` numbers for each sample: from its row of gates (input, forget, new and output, each `width` wide,
/// before their activations) and what the cell has kept.
pub(crate) fn lstm<T: Float + Element>(width: usize, gates: &[T], cell: &[T], hidden: &mut [T], kept: &mut [T]) {
    let n = cell.len();
    assert!(gates.len() == 4 * n && hidden.len() == n && kept.len() == n, "the gates do not fit the cell");
    let (hidden, kept) = (Shared(hidden.as_mut_ptr()), Shared(kept.as_mut_ptr()));
    if n > 0 {
        // SAFETY: samples of arrays that fit each other; each is one piece of work's.
        parallel_for(n / width, GRAIN.div_ceil(width), &|rows| unsafe {
            run::<Forward<'_, T>>((width, rows, gates, cell, [hidden.get(), kept.get()]));
        });
    }
}

/// The gradients by the gates and by what the cell had kept, from those by the new state (none: zero).
pub(crate) fn lstm_backward<T: Float + Element>(
    width: usize,
    [g_hidden, g_kept]: [Option<&[T]>; 2],
    gates: &[T],
    cell: &[T],
    g_gates: &mut [T],
    g_cell: &mut [T],
) {
    let n = cell.len();
    let fit = |t: &[T]| t.len() == n;
    assert!(
        gates.len() == 4 * n
            && g_gates.len() == 4 * n
            && fit(g_cell)
            && g_hidden.is_none_or(fit)
            && g_kept.is_none_or(fit),
        "the gates do not fit the cell"
    );
    let (g_gates, g_cell) = (Shared(g_gates.as_mut_ptr()), Shared(g_cell.as_mut_ptr()));
    if n > 0 {
        // SAFETY: as above.
        parallel_for(n / width, GRAIN.div_ceil(width), &|rows| unsafe {
            run::<Backward<'_, T>>((width, rows, [g_hidden, g_kept], gates, cell, [g_gates.get(), g_cell.get()]));
        });
    }
}

/// Calls `f` with the first element and the length of every chunk of a row.
#[inline(always)]
fn chunks(width: usize, mut f: impl FnMut(usize, usize)) {
    for start in (0..width).step_by(CHUNK) {
        f(start, CHUNK.min(width - start));
    }
}

/// The part of an array from `at` on, filled up with zeros.
#[inline(always)]
fn load<T: Float>(from: &[T], at: usize, n: usize) -> [T; CHUNK] {
    let mut part = [T::ZERO; CHUNK];
    match from[at..at + n].try_into() {
        Ok(whole) => part = whole,
        Err(_) => part[..n].copy_from_slice(&from[at..at + n]),
    }
    part
}

/// # Safety
/// `to` must be valid for `n` elements.
#[inline(always)]
unsafe fn store<T: Float>(part: &[T; CHUNK], to: *mut T, n: usize) {
    // SAFETY: the caller's.
    unsafe {
        if n == CHUNK {
            to.cast::<[T; CHUNK]>().write_unaligned(*part);
        } else {
            std::ptr::copy_nonoverlapping(part.as_ptr(), to, n);
        }
    }
}

/// The activations of the four gates.
#[inline(always)]
fn activated<I: Isa, T: Float>(gates: &[T], at: usize, width: usize, n: usize) -> [[T; CHUNK]; 4] {
    // Not by `map`, which would be a call, and compiled without vectors.
    let mut all = [[T::ZERO; CHUNK]; 4];
    for (gate, part) in all.iter_mut().enumerate() {
        *part = load(gates, at + gate * width, n);
        if gate == 2 {
            part.iter_mut().for_each(|x| *x = x.tanh::<I>());
        } else {
            part.iter_mut().for_each(|x| *x = x.sigmoid::<I>());
        }
    }
    all
}

struct Forward<'a, T>(PhantomData<&'a T>);

impl<'a, T: Float> Kernel for Forward<'a, T> {
    /// The width, the samples, the gates, the cell, and the new hidden state and cell.
    type Args = (usize, Range<usize>, &'a [T], &'a [T], [*mut T; 2]);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((width, rows, gates, cell, [hidden, kept]): Self::Args) {
        for row in rows {
            chunks(width, |start, n| {
                let at = row * width + start;
                let [input, forget, new, output] = activated::<I, T>(gates, row * 4 * width + start, width, n);
                let (mut h, mut c) = ([T::ZERO; CHUNK], load(cell, at, n));
                for i in 0..CHUNK {
                    c[i] = T::mul_add::<I>(forget[i], c[i], input[i] * new[i]);
                    h[i] = output[i] * c[i].tanh::<I>();
                }
                // SAFETY: this sample's elements.
                unsafe {
                    store(&h, hidden.add(at), n);
                    store(&c, kept.add(at), n);
                }
            });
        }
    }
}

struct Backward<'a, T>(PhantomData<&'a T>);

impl<'a, T: Float> Kernel for Backward<'a, T> {
    /// The width, the samples, the new state's gradients, the gates, the cell, and the gradients of the gates and of the cell.
    type Args = (usize, Range<usize>, [Option<&'a [T]>; 2], &'a [T], &'a [T], [*mut T; 2]);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((width, rows, [g_hidden, g_kept], gates, cell, [g_gates, g_cell]): Self::Args) {
        for row in rows {
            chunks(width, |start, n| {
                let (at, first) = (row * width + start, row * 4 * width + start);
                let [mut input, mut forget, mut new, mut output] = activated::<I, T>(gates, first, width, n);
                let g_h = g_hidden.map_or([T::ZERO; CHUNK], |g| load(g, at, n));
                let mut g_c = g_kept.map_or([T::ZERO; CHUNK], |g| load(g, at, n));
                let before = load(cell, at, n);
                for i in 0..CHUNK {
                    let [a, f, b, o] = [input[i], forget[i], new[i], output[i]];
                    let (t, one) = (T::mul_add::<I>(f, before[i], a * b).tanh::<I>(), T::ONE);
                    let g = g_c[i] + g_h[i] * o * (one - t * t);
                    input[i] = g * b * a * (one - a);
                    forget[i] = g * before[i] * f * (one - f);
                    new[i] = g * a * (one - b * b);
                    output[i] = g_h[i] * t * o * (one - o);
                    g_c[i] = g * f;
                }
                // SAFETY: this sample's elements.
                unsafe {
                    for (gate, part) in [&input, &forget, &new, &output].into_iter().enumerate() {
                        store(part, g_gates.add(first + gate * width), n);
                    }
                    store(&g_c, g_cell.add(at), n);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_follows_its_formula_and_its_gradient() {
        let width = 3;
        let numbers = |n: usize, by: f64| (0..n).map(|i| (i as f64 * by).sin()).collect::<Vec<f64>>();
        let (gates, cell) = (numbers(24, 0.7), numbers(6, 1.3));
        let state = |gates: &[f64], cell: &[f64]| {
            let (mut hidden, mut kept) = ([0.0; 6], [0.0; 6]);
            lstm(width, gates, cell, &mut hidden, &mut kept);
            (hidden, kept)
        };
        let (hidden, kept) = state(&gates, &cell);
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let want = sigmoid(gates[4]) * cell[1] + sigmoid(gates[1]) * gates[7].tanh();
        assert!((kept[1] - want).abs() < 1e-14 && (hidden[1] - sigmoid(gates[10]) * want.tanh()).abs() < 1e-14);
        let (gh, gc) = (numbers(6, 2.1), numbers(6, 0.4));
        let (mut by_gates, mut by_cell) = ([0.0; 24], [0.0; 6]);
        lstm_backward(width, [Some(&gh), Some(&gc)], &gates, &cell, &mut by_gates, &mut by_cell);
        let loss = |(h, c): ([f64; 6], [f64; 6])| (0..6).map(|i| h[i] * gh[i] + c[i] * gc[i]).sum::<f64>();
        for (i, analytic) in by_gates.into_iter().enumerate() {
            let moved = |by: f64| {
                loss(state(
                    &gates.iter().enumerate().map(|(j, g)| g + if i == j { by } else { 0.0 }).collect::<Vec<_>>(),
                    &cell,
                ))
            };
            assert!(((moved(1e-5) - moved(-1e-5)) / 2e-5 - analytic).abs() < 1e-8, "gate {i}");
        }
        for (i, analytic) in by_cell.into_iter().enumerate() {
            let moved = |by: f64| {
                loss(state(
                    &gates,
                    &cell.iter().enumerate().map(|(j, g)| g + if i == j { by } else { 0.0 }).collect::<Vec<_>>(),
                ))
            };
            assert!(((moved(1e-5) - moved(-1e-5)) / 2e-5 - analytic).abs() < 1e-8, "cell {i}");
        }
    }
}
