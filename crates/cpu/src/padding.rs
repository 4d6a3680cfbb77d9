//! Padding of up to some dims by what the array itself holds: along each, every place of the result reads one place of
//! the input.

use crate::copy::Shared;
use crate::math::{Isa, Kernel, Number, run};
use flambeau_base::Element;
use flambeau_base::iter::GRAIN;
use flambeau_base::parallel::parallel_for;
use std::marker::PhantomData;
use std::ops::Range;

/// A padded dim: how many places the input has, and which of them every place of the result reads.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The input's size.
    pub size: usize,
    /// A place below it for every place of the result.
    pub from: Vec<usize>,
}

/// Places of a row that read neighbours: (the first of the result, the first of the input, how many).
type Run = (usize, usize, usize);

/// What the rows of a padding have in common: a row is all of the last padded dim.
struct Rows {
    /// Sizes of a row, in elements: of the input and of the result.
    widths: (usize, usize),
    /// How many rows of the input belong together.
    inputs: usize,
    /// For every row of the result that belongs together, the row of the input.
    from: Vec<usize>,
    /// In elements.
    runs: Vec<Run>,
}

impl Rows {
    fn new(axes: &[Axis], block: usize) -> Option<Rows> {
        assert!(axes.iter().all(|axis| axis.from.iter().all(|f| *f < axis.size)), "a place is outside of the input");
        let (last, outer) = axes.split_last()?;
        let mut from = vec![0];
        for axis in outer {
            from = from.iter().flat_map(|at| axis.from.iter().map(move |f| at * axis.size + f)).collect();
        }
        let mut runs: Vec<Run> = Vec::new();
        for (i, &f) in last.from.iter().enumerate() {
            match runs.last_mut() {
                Some((_, start, n)) if *start + *n == f * block => *n += block,
                _ => runs.push((i * block, f * block, block)),
            }
        }
        let inputs = outer.iter().map(|axis| axis.size).product();
        Some(Rows { widths: (last.size * block, last.from.len() * block), inputs, from, runs })
    }
}

/// Pads the dims between `outer` ones and a contiguous `block` of elements.
///
/// # Panics
/// When an axis reads outside, or the arrays' sizes are not those of the axes.
pub fn pad<T: Element>(axes: &[Axis], outer: usize, block: usize, x: &[T], out: &mut [T]) {
    let Some(rows) = Rows::new(axes, block) else { return };
    let (per_plane, width) = (rows.from.len(), rows.widths.1);
    assert!(
        x.len() == outer * rows.inputs * rows.widths.0 && out.len() == outer * per_plane * width,
        "the arrays differ in size"
    );
    if out.is_empty() {
        return;
    }
    let target = Shared(out.as_mut_ptr());
    parallel_for(outer * per_plane, GRAIN.div_ceil(width), &|range| {
        let (mut plane, mut row) = (range.start / per_plane, range.start % per_plane);
        for k in range {
            let x = &x[(plane * rows.inputs + rows.from[row]) * rows.widths.0..][..rows.widths.0];
            // SAFETY: a row of the result, which is one piece of work's.
            let out = unsafe { std::slice::from_raw_parts_mut(target.get().add(k * width), width) };
            for &(to, from, n) in &rows.runs {
                match n {
                    // Most runs are the single places of the padding.
                    1 => out[to] = x[from],
                    _ => out[to..to + n].copy_from_slice(&x[from..from + n]),
                }
            }
            row += 1;
            if row == per_plane {
                (plane, row) = (plane + 1, 0);
            }
        }
    });
}

/// The gradient of [`pad`]: every element of `g` is added to where the padding read it.
///
/// # Panics
/// As [`pad`], with `g` for the result and `out` for the input.
pub fn pad_backward<T: Number>(axes: &[Axis], outer: usize, block: usize, g: &[T], out: &mut [T]) {
    let Some(rows) = Rows::new(axes, block) else { return };
    let plane = rows.inputs * rows.widths.0;
    assert!(
        out.len() == outer * plane && g.len() == outer * rows.from.len() * rows.widths.1,
        "the arrays differ in size"
    );
    if out.is_empty() {
        return;
    }
    let target = Shared(out.as_mut_ptr());
    parallel_for(outer, GRAIN.div_ceil(plane), &|range| {
        // SAFETY: planes of the result, which are one piece of work's.
        let out = unsafe { std::slice::from_raw_parts_mut(target.get().add(range.start * plane), range.len() * plane) };
        // SAFETY: the kernel only asks for the instruction set that it is run with.
        unsafe { run::<Add<T>>((&rows, range, g, out)) };
    });
}

struct Add<'a, T>(PhantomData<&'a T>);

impl<'a, T: Number> Kernel for Add<'a, T> {
    /// The rows, which planes, all gradients, and these planes of the result.
    type Args = (&'a Rows, Range<usize>, &'a [T], &'a mut [T]);
    type Output = ();

    #[inline(always)]
    unsafe fn run<I: Isa>((rows, planes, g, out): Self::Args) {
        let (width, g_width) = rows.widths;
        out.fill(T::ZERO);
        for (plane, out) in planes.zip(out.chunks_exact_mut(rows.inputs * width)) {
            for (row, from) in rows.from.iter().enumerate() {
                let g = &g[(plane * rows.from.len() + row) * g_width..][..g_width];
                let out = &mut out[from * width..][..width];
                for &(to, from, n) in &rows.runs {
                    for (out, g) in out[from..from + n].iter_mut().zip(&g[to..to + n]) {
                        *out = T::add(*out, *g);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> Vec<Axis> {
        vec![Axis { size: 2, from: vec![1, 0, 1] }, Axis { size: 3, from: vec![0, 0, 1, 2, 1] }]
    }

    #[test]
    fn places_are_read() {
        let x: Vec<i32> = (0..12).collect();
        let mut out = [0; 30];
        pad(&axes(), 2, 1, &x, &mut out);
        assert_eq!(out[..15], [3, 3, 4, 5, 4, 0, 0, 1, 2, 1, 3, 3, 4, 5, 4]);
        assert_eq!(out[15], 9);
        pad(&axes(), 1, 2, &x, &mut out);
        assert_eq!(out[..10], [6, 7, 6, 7, 8, 9, 10, 11, 8, 9]);
        assert_eq!(out[10..20], [0, 1, 0, 1, 2, 3, 4, 5, 2, 3]);
    }

    #[test]
    fn gradients_go_where_they_came_from() {
        for (outer, block) in [(2, 1), (1, 2)] {
            let (x, g): (Vec<f64>, Vec<f64>) =
                ((0..12).map(f64::from).collect(), (0..30).map(|i| f64::from(i * i)).collect());
            let (mut y, mut back) = (vec![0.0; 30], vec![9.0; 12]);
            pad(&axes(), outer, block, &x, &mut y);
            pad_backward(&axes(), outer, block, &g, &mut back);
            // One is the other's adjoint.
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            assert_eq!(dot(&y, &g), dot(&x, &back));
        }
    }
}
