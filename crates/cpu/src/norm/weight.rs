//! The gradients of weight norm: weights that are a direction times a magnitude.

use super::rows::{Rows, SharedOperand, Values, compute, compute_dtype, store, sums, values};
use crate::buffer::Scratch;
use crate::copy::Shared;
use crate::math::{Float, Isa, Kernel, Number, entry, level};
use crate::reduce::Operand;
use flambeau_base::parallel::parallel_for;
use std::marker::PhantomData;

/// Elements of work worth a parallel task.
const TASK: usize = 1 << 15;

/// Rows whose products are summed per column before the sums are added up in `f64`.
const PIECE_ROWS: usize = 128;

/// Which parts of a matrix have norms.
#[derive(Clone, Copy, Debug)]
pub enum Parts {
    /// Each row has a norm.
    Rows,
    /// Each column has one.
    Columns,
}

/// The gradients of weights `g v / norms` with respect to `v`, a matrix of `rows` by `columns`, and to `g`, of which
/// there are as many as norms.
///
/// # Safety
/// Operands must be valid for their elements and must not overlap, unless all that do are only read.
pub unsafe fn weight_norm_backward(
    parts: Parts,
    (rows, columns): (usize, usize),
    grad: Operand,
    v: Operand,
    (g, norms): (Operand, Operand),
    (by_v, by_g): (Operand, Operand),
) {
    if rows * columns == 0 {
        return;
    }
    // SAFETY: the caller's contract.
    compute!(compute_dtype(&[v.dtype]), T => unsafe {
        let count = match parts { Parts::Rows => rows, Parts::Columns => columns };
        let magnitudes = (values::<f64>(Some(g), count, 1.0), values::<f64>(Some(norms), count, 1.0));
        match parts {
            Parts::Rows => by_rows::<T>((rows, columns), grad, v, &magnitudes, (by_v, by_g)),
            Parts::Columns => by_columns::<T>((rows, columns), grad, v, &magnitudes, (by_v, by_g)),
        }
    })
}

/// For the product of a part with its gradient: the gradient by its magnitude, and what the part's gradient and the part
/// itself are multiplied with to give the gradient by the part.
fn factors(product: f64, g: f64, norm: f64) -> [f64; 3] {
    let (by_g, factor) = (product / norm, g / norm);
    [by_g, factor, by_g * factor / norm]
}

struct Row<T>(PhantomData<T>);
impl<T: Float> Kernel for Row<T> {
    /// Gradient, part, the gradient by it, length, magnitude and norm.
    type Args = (*const T, *const T, *mut T, usize, (f64, f64));
    /// The gradient by the magnitude.
    type Output = f64;
    #[inline(always)]
    unsafe fn run<I: Isa>((grad, v, out, n, (g, norm)): Self::Args) -> f64 {
        // SAFETY: `n` elements each by the caller's contract.
        unsafe {
            let [product] = sums::<I, T, _>(n, |i| [*grad.add(i) * *v.add(i)]);
            let [by_g, factor, through] = factors(product, g, norm);
            let (factor, through) = (T::from_f64(factor), T::from_f64(through));
            for i in 0..n {
                *out.add(i) = *grad.add(i) * factor - *v.add(i) * through;
            }
            by_g
        }
    }
}

unsafe fn by_rows<T: Float>(
    (rows, n): (usize, usize),
    grad: Operand,
    v: Operand,
    (g, norms): &(Values<f64>, Values<f64>),
    (by_v, by_g): (Operand, Operand),
) {
    let row = entry::<Row<T>>(level());
    let (grad, v, by_v) = (Rows::<T>::new(grad), Rows::<T>::new(v), Rows::<T>::new(by_v));
    let by_g = SharedOperand::new(by_g);
    parallel_for(rows, (TASK / n).max(1), &|range| {
        let scratch = Scratch::<T>::new(3 * n);
        let mut found = Vec::with_capacity(range.len());
        for r in range.clone() {
            // SAFETY: rows of `n` elements; the scratch memory holds three.
            unsafe {
                let from = grad.read(r * n, n, scratch.get());
                let part = v.read(r * n, n, scratch.get().add(n));
                let to = by_v.target(r * n, scratch.get().add(2 * n));
                found.push(row((from, part, to, n, (g[r], norms[r]))));
                by_v.written(r * n, n, to);
            }
        }
        // SAFETY: an element per row.
        unsafe { store(by_g.get(), range.start, &found) };
    });
}

/// Adds the products of a row to those of the rows before.
struct AddProducts<T>(PhantomData<T>);
impl<T: Float> Kernel for AddProducts<T> {
    type Args = (*const T, *const T, *mut T, usize);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((grad, v, sums, n): Self::Args) {
        for i in 0..n {
            // SAFETY: `n` elements each by the caller's contract.
            unsafe { *sums.add(i) += *grad.add(i) * *v.add(i) };
        }
    }
}

/// The gradients by a row of elements of as many parts.
struct Across<T>(PhantomData<T>);
impl<T: Float> Kernel for Across<T> {
    /// Gradient, elements, the gradient by them, their factors, how many they are.
    type Args = (*const T, *const T, *mut T, (*const T, *const T), usize);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((grad, v, out, (factor, through), n): Self::Args) {
        for i in 0..n {
            // SAFETY: `n` elements each by the caller's contract.
            unsafe { *out.add(i) = *grad.add(i) * *factor.add(i) - *v.add(i) * *through.add(i) };
        }
    }
}

unsafe fn by_columns<T: Float>(
    (rows, n): (usize, usize),
    grad: Operand,
    v: Operand,
    (g, norms): &(Values<f64>, Values<f64>),
    (by_v, by_g): (Operand, Operand),
) {
    let (add, across) = (entry::<AddProducts<T>>(level()), entry::<Across<T>>(level()));
    let (grad, v, by_v) = (Rows::<T>::new(grad), Rows::<T>::new(v), Rows::<T>::new(by_v));
    let pieces = rows.div_ceil(PIECE_ROWS);
    let mut partials = vec![<T as Number>::ZERO; pieces * n];
    let shared = Shared(partials.as_mut_ptr());
    parallel_for(pieces, 1, &|range| {
        let scratch = Scratch::<T>::new(2 * n);
        for piece in range {
            for r in piece * PIECE_ROWS..((piece + 1) * PIECE_ROWS).min(rows) {
                // SAFETY: rows of `n` elements; the scratch memory holds two; each piece has its own sums.
                unsafe {
                    let from = grad.read(r * n, n, scratch.get());
                    let elements = v.read(r * n, n, scratch.get().add(n));
                    add((from, elements, shared.get().add(piece * n), n));
                }
            }
        }
    });
    let products = super::add_pieces(&partials, pieces, n, 1, 0);
    let each = || products.iter().zip(g.iter().zip(norms.iter())).map(|(p, (g, norm))| factors(*p, *g, *norm));
    let factor: Vec<T> = each().map(|f| T::from_f64(f[1])).collect();
    let through: Vec<T> = each().map(|f| T::from_f64(f[2])).collect();
    // SAFETY: an element per column.
    unsafe { store(by_g, 0, &each().map(|f| f[0]).collect::<Vec<f64>>()) };
    parallel_for(rows, (TASK / n).max(1), &|range| {
        let scratch = Scratch::<T>::new(3 * n);
        for r in range {
            // SAFETY: rows of `n` elements; the scratch memory holds three.
            unsafe {
                let from = grad.read(r * n, n, scratch.get());
                let elements = v.read(r * n, n, scratch.get().add(n));
                let to = by_v.target(r * n, scratch.get().add(2 * n));
                across((from, elements, to, (factor.as_ptr(), through.as_ptr()), n));
                by_v.written(r * n, n, to);
            }
        }
    });
}
