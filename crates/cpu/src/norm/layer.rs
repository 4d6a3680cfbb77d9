//! Layer norm and RMS norm: statistics of each row. RMS norm is layer norm with the mean taken for zero.

use super::rows::{Rows, SharedOperand, compute, compute_dtype, store, sums, values};
use crate::buffer::Scratch;
use crate::copy::Shared;
use crate::math::Float;
use crate::math::{Isa, Kernel, Number, entry, level};
use crate::reduce::Operand;
use flambeau_base::parallel::parallel_for;
use std::marker::PhantomData;

/// Elements of work worth a parallel task.
const TASK: usize = 1 << 15;

/// Rows whose parameter gradients are summed before the sums are added up in `f64`.
const PIECE_ROWS: usize = 128;

/// Normalises each of `rows` rows of `n` elements to mean 0 and variance 1 (`eps` added to the variance), times
/// `weight`, plus `bias` (`n` elements each). Writes each row's mean and reciprocal standard deviation where asked.
///
/// # Safety
/// Operands must be valid for their elements; `out` may equal `x`, and nothing else may overlap.
pub unsafe fn layer_norm(
    (rows, n): (usize, usize),
    eps: f64,
    x: Operand,
    weight: Option<Operand>,
    bias: Option<Operand>,
    out: Operand,
    (mean, rstd): (Option<Operand>, Option<Operand>),
) {
    // SAFETY: the caller's contract.
    compute!(compute_dtype(&[x.dtype, out.dtype]), T => unsafe {
        forward::<T, true>((rows, n), eps, x, weight, bias, out, (mean, rstd))
    })
}

/// Divides each of `rows` rows of `n` elements by its root mean square (`eps` added to the mean), times `weight`.
/// Writes the reciprocal of the root where asked.
///
/// # Safety
/// As [`layer_norm`].
pub unsafe fn rms_norm(
    (rows, n): (usize, usize),
    eps: f64,
    x: Operand,
    weight: Option<Operand>,
    out: Operand,
    rstd: Option<Operand>,
) {
    // SAFETY: the caller's contract.
    compute!(compute_dtype(&[x.dtype, out.dtype]), T => unsafe {
        forward::<T, false>((rows, n), eps, x, weight, None, out, (None, rstd))
    })
}

/// Where gradients go; each is computed only if wanted. The parameters' gradients have `n` elements (or one per
/// channel).
#[derive(Clone, Copy, Debug, Default)]
pub struct NormGradients {
    /// Of the input.
    pub input: Option<Operand>,
    /// Of the weight.
    pub weight: Option<Operand>,
    /// Of the bias.
    pub bias: Option<Operand>,
}

/// The gradients of [`layer_norm`], from what it saved.
///
/// # Safety
/// Operands must be valid for their elements; `gradients.input` may equal `grad`, and nothing else may overlap.
pub unsafe fn layer_norm_backward(
    (rows, n): (usize, usize),
    grad: Operand,
    x: Operand,
    (mean, rstd): (Operand, Operand),
    weight: Option<Operand>,
    gradients: NormGradients,
) {
    // SAFETY: the caller's contract.
    compute!(compute_dtype(&[grad.dtype, x.dtype]), T => unsafe {
        backward::<T, true>((rows, n), grad, x, (Some(mean), rstd), weight, gradients)
    })
}

/// The gradients of [`rms_norm`], from what it saved.
///
/// # Safety
/// As [`layer_norm_backward`].
pub unsafe fn rms_norm_backward(
    (rows, n): (usize, usize),
    grad: Operand,
    x: Operand,
    rstd: Operand,
    weight: Option<Operand>,
    gradients: NormGradients,
) {
    // SAFETY: the caller's contract.
    compute!(compute_dtype(&[grad.dtype, x.dtype]), T => unsafe {
        backward::<T, false>((rows, n), grad, x, (None, rstd), weight, gradients)
    })
}

/// Mean and reciprocal standard deviation of a row (root mean square, if not `CENTRE`), in two passes over cache.
///
/// # Safety
/// `x` must be valid for `len` elements.
#[inline(always)]
pub(super) unsafe fn moments<I: Isa, T: Float, const CENTRE: bool>(x: *const T, len: usize, eps: f64) -> (f64, f64) {
    // Divisions of doubles are a good part of a short row.
    let share = 1.0 / len as f64;
    // SAFETY: `i < len`.
    let at = |i: usize| unsafe { *x.add(i) };
    let mean = if CENTRE { sums::<I, T, _>(len, |i| [at(i)])[0] * share } else { 0.0 };
    let centre = T::from_f64(mean);
    let [squares, rest] = sums::<I, T, _>(len, |i| {
        let d = at(i) - centre;
        [d * d, d]
    });
    // What rounding left of the mean corrects it and the squares (Chan, Golub & LeVeque, 1983, "corrected two-pass").
    let (mean, squares) = if CENTRE && rest.is_finite() {
        (centre.to_f64() + rest * share, squares - rest * rest * share)
    } else {
        (mean, squares)
    };
    (mean, 1.0 / (squares * share + eps).sqrt())
}

struct ForwardRow<T, const CENTRE: bool>(PhantomData<T>);
impl<T: Float, const CENTRE: bool> Kernel for ForwardRow<T, CENTRE> {
    /// Input, output, length, weight, bias, eps.
    type Args = (*const T, *mut T, usize, Option<*const T>, Option<*const T>, f64);
    type Output = (f64, f64);
    #[inline(always)]
    unsafe fn run<I: Isa>((x, out, n, weight, bias, eps): Self::Args) -> (f64, f64) {
        // SAFETY: `n` elements by the caller's contract.
        let (mean, rstd) = unsafe { moments::<I, T, CENTRE>(x, n, eps) };
        let (m, r) = (T::from_f64(mean), T::from_f64(rstd));
        // SAFETY: `n` elements each by the caller's contract.
        unsafe {
            match (weight, bias) {
                (Some(w), Some(b)) => {
                    for i in 0..n {
                        *out.add(i) = ((*x.add(i) - m) * r).mul_add::<I>(*w.add(i), *b.add(i));
                    }
                }
                (Some(w), None) => {
                    for i in 0..n {
                        *out.add(i) = (*x.add(i) - m) * r * *w.add(i);
                    }
                }
                (None, Some(b)) => {
                    for i in 0..n {
                        *out.add(i) = (*x.add(i) - m) * r + *b.add(i);
                    }
                }
                (None, None) => {
                    for i in 0..n {
                        *out.add(i) = (*x.add(i) - m) * r;
                    }
                }
            }
        }
        (mean, rstd)
    }
}

unsafe fn forward<T: Float, const CENTRE: bool>(
    (rows, n): (usize, usize),
    eps: f64,
    x: Operand,
    weight: Option<Operand>,
    bias: Option<Operand>,
    out: Operand,
    (mean, rstd): (Option<Operand>, Option<Operand>),
) {
    let row = entry::<ForwardRow<T, CENTRE>>(level());
    // SAFETY: the caller's contract.
    let (w, b) = unsafe {
        (weight.map(|w| values::<T>(Some(w), n, T::ONE)), bias.map(|b| values::<T>(Some(b), n, <T as Number>::ZERO)))
    };
    let (x, out) = (Rows::<T>::new(x), Rows::<T>::new(out));
    let (mean, rstd) = (mean.map(SharedOperand::new), rstd.map(SharedOperand::new));
    parallel_for(rows, (TASK / n.max(1)).max(1), &|range| {
        let scratch = Scratch::<T>::new(n);
        let (w, b) = (w.as_ref().map(|w| w.as_ptr()), b.as_ref().map(|b| b.as_ptr()));
        let mut statistics = Vec::with_capacity(range.len());
        for r in range.clone() {
            // SAFETY: a row of `n` elements; the scratch memory holds one.
            unsafe {
                let from = x.read(r * n, n, scratch.get());
                let to = out.target(r * n, scratch.get());
                statistics.push(row((from, to, n, w, b, eps)));
                out.written(r * n, n, to);
            }
        }
        for (operand, of) in [(mean, 0), (rstd, 1)] {
            if let Some(operand) = operand {
                let values: Vec<f64> = statistics.iter().map(|s| if of == 0 { s.0 } else { s.1 }).collect();
                // SAFETY: one element per row.
                unsafe { store(operand.get(), range.start, &values) };
            }
        }
    });
}

struct BackwardRow<T, const CENTRE: bool>(PhantomData<T>);
impl<T: Float, const CENTRE: bool> Kernel for BackwardRow<T, CENTRE> {
    /// Gradient, input, output, weight, length, mean, reciprocal deviation.
    type Args = (*const T, *const T, *mut T, *const T, usize, T, T);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((grad, x, out, weight, n, mean, rstd): Self::Args) {
        // SAFETY: `n` elements each by the caller's contract, in all that follows.
        unsafe {
            let [sum, dot] = sums::<I, T, _>(n, |i| {
                let g = *grad.add(i) * *weight.add(i);
                [g, g * ((*x.add(i) - mean) * rstd)]
            });
            let c = T::from_f64(if CENTRE { sum / n as f64 } else { 0.0 });
            let d = T::from_f64(dot / n as f64);
            for i in 0..n {
                let normal = (*x.add(i) - mean) * rstd;
                let g = *grad.add(i) * *weight.add(i);
                *out.add(i) = (g - c - normal * d) * rstd;
            }
        }
    }
}

/// Adds a row's share of the parameters' gradients.
struct ParameterRow<T>(PhantomData<T>);
impl<T: Float> Kernel for ParameterRow<T> {
    /// Gradient, input, weight's and bias's gradient, length, mean, reciprocal deviation.
    type Args = (*const T, *const T, *mut T, *mut T, usize, T, T);
    type Output = ();
    #[inline(always)]
    unsafe fn run<I: Isa>((grad, x, weight, bias, n, mean, rstd): Self::Args) {
        // SAFETY: `n` elements each, none overlapping, by the caller's contract.
        let (weight, bias) =
            unsafe { (std::slice::from_raw_parts_mut(weight, n), std::slice::from_raw_parts_mut(bias, n)) };
        for i in 0..n {
            // SAFETY: as above.
            let (g, x) = unsafe { (*grad.add(i), *x.add(i)) };
            weight[i] = g.mul_add::<I>((x - mean) * rstd, weight[i]);
            bias[i] += g;
        }
    }
}

unsafe fn backward<T: Float, const CENTRE: bool>(
    (rows, n): (usize, usize),
    grad: Operand,
    x: Operand,
    (mean, rstd): (Option<Operand>, Operand),
    weight: Option<Operand>,
    gradients: NormGradients,
) {
    let (row, parameter_row) = (entry::<BackwardRow<T, CENTRE>>(level()), entry::<ParameterRow<T>>(level()));
    // SAFETY: the caller's contract.
    let (weight, mean, rstd) = unsafe {
        (
            values::<T>(weight, n, T::ONE),
            values::<T>(mean, rows, <T as Number>::ZERO),
            values::<T>(Some(rstd), rows, T::ONE),
        )
    };
    let (grad, x) = (Rows::<T>::new(grad), Rows::<T>::new(x));
    let input = gradients.input.map(Rows::<T>::new);
    let wants_parameters = gradients.weight.is_some() || gradients.bias.is_some();
    let piece = if wants_parameters { PIECE_ROWS } else { (TASK / n.max(1)).max(1) };
    let pieces = rows.div_ceil(piece);
    // Per piece: the weight's gradient, then the bias's.
    let mut partials = vec![<T as Number>::ZERO; if wants_parameters { pieces * 2 * n } else { 0 }];
    let shared = Shared(partials.as_mut_ptr());
    parallel_for(pieces, 1, &|range| {
        let scratch = Scratch::<T>::new(2 * n);
        for p in range {
            for r in p * piece..((p + 1) * piece).min(rows) {
                // SAFETY: rows of `n` elements; the scratch memory holds two; each piece has its own partial sums.
                unsafe {
                    let g = grad.read(r * n, n, scratch.get());
                    let x = x.read(r * n, n, scratch.get().add(n));
                    if wants_parameters {
                        let sums = shared.get().add(p * 2 * n);
                        parameter_row((g, x, sums, sums.add(n), n, mean[r], rstd[r]));
                    }
                    if let Some(out) = &input {
                        let to = out.target(r * n, scratch.get());
                        row((g, x, to, weight.as_ptr(), n, mean[r], rstd[r]));
                        out.written(r * n, n, to);
                    }
                }
            }
        }
    });
    for (k, operand) in [gradients.weight, gradients.bias].into_iter().enumerate() {
        if let Some(operand) = operand {
            // SAFETY: the caller's contract.
            unsafe { store(operand, 0, &super::add_pieces(&partials, pieces, n, 2, k)) };
        }
    }
}
