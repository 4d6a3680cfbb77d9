//! The gradient of a gated linear unit in one pass.

use crate::copy::Shared;
use crate::math::{Float, Isa, Kernel, run};
use flambeau_base::parallel::parallel_for;
use std::marker::PhantomData;
use std::ops::Range;

/// Elements of the gradient in one piece of parallel work.
const GRAIN: usize = 1 << 14;

/// The gradient `out` of `value * sigmoid(gate)`, where `x` and `out` are rows of values and then gates, each `width` wide,
/// and `g` has a row of gradients for each.
pub(crate) fn glu_backward<T: Float>(width: usize, g: &[T], x: &[T], out: &mut [T]) {
    assert!(x.len() == 2 * g.len() && out.len() == x.len(), "the gradient does not fit the gates");
    let out = Shared(out.as_mut_ptr());
    // SAFETY: arrays that fit each other; every range of gradients is one piece of work's.
    parallel_for(g.len(), GRAIN, &|range| unsafe { run::<Backward<'_, T>>((width, range, g, x, out.get())) });
}

struct Backward<'a, T>(PhantomData<&'a T>);

impl<'a, T: Float> Kernel for Backward<'a, T> {
    /// The width, which elements, the gradient, values and gates, and where their gradients go.
    type Args = (usize, Range<usize>, &'a [T], &'a [T], *mut T);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((width, range, g, x, out): Self::Args) {
        let mut at = range.start;
        while at < range.end {
            let n = (width - at % width).min(range.end - at);
            // Rows of values and gates are twice as wide.
            let (value, gate) = (at + at / width * width, at + (at / width + 1) * width);
            // SAFETY: parts of the caller's output, which are this piece's alone and apart.
            let (by_value, by_gate) = unsafe {
                (std::slice::from_raw_parts_mut(out.add(value), n), std::slice::from_raw_parts_mut(out.add(gate), n))
            };
            let (g, value, gate) = (&g[at..at + n], &x[value..value + n], &x[gate..gate + n]);
            for i in 0..n {
                let open = gate[i].sigmoid::<I>();
                by_value[i] = g[i] * open;
                by_gate[i] = g[i] * value[i] * (open * (T::ONE - open));
            }
            at += n;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_any_width_and_pieces_within_them() {
        for (rows, width) in [(3, 7), (1, 40_000)] {
            let count = rows * width;
            let g: Vec<f64> = (0..count).map(|i| (i % 5) as f64 - 2.0).collect();
            let x: Vec<f64> = (0..2 * count).map(|i| (i % 11) as f64 / 4.0 - 1.0).collect();
            let mut out = vec![9.0; 2 * count];
            glu_backward(width, &g, &x, &mut out);
            for (at, g) in g.iter().enumerate() {
                let (row, column) = (at / width, at % width);
                let (value, gate) = (row * 2 * width + column, row * 2 * width + width + column);
                let open = 1.0 / (1.0 + (-x[gate]).exp());
                assert!((out[value] - g * open).abs() < 1e-12, "{rows} {width} {at}");
                assert!((out[gate] - g * x[value] * open * (1.0 - open)).abs() < 1e-12, "{rows} {width} {at}");
            }
        }
    }
}
