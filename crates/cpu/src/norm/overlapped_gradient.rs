//! The gradients of layer and RMS norm of rows of `f32` and of halves, with AVX-512: the sums of a row are taken, and its share of
//! the parameters' gradients added, while the results of the row before are written.

use super::beside::{Terms, sums_beside};
use super::lines::{Joint, Results, Row};
use crate::copy::{Shared, stream};
use crate::narrow::Narrow;
use crate::reduce::Operand;
use flambeau_base::parallel::parallel_for;
use flambeau_base::{DType, bf16, f16};
use std::arch::x86_64::*;
use std::ops::Range;

/// The gradients of pieces of so many rows of `n` elements: those of the input, and those of parameters, if there are `partials`,
/// two vectors for each piece, to which they are added. Operands are the results' gradient, the input and its gradient; then come
/// the weight, means and reciprocal deviations.
///
/// # Safety
/// The operands must be valid for the rows, and such as [it suits](super::beside::suits); the input's gradient may be one of the
/// others. There are `n` weights, a mean and a deviation of each row, and room for the vectors of all pieces. The machine must have
/// AVX-512 (F, BW, DQ, VL).
pub(super) unsafe fn run<const CENTRE: bool>(
    shape: (usize, usize),
    piece: usize,
    operands: [Operand; 3],
    rows_of: [*const f32; 3],
    partials: Option<Shared<f32>>,
) {
    // SAFETY: the caller's.
    unsafe {
        match operands[0].dtype {
            DType::F16 => run_of::<f16, CENTRE>(shape, piece, operands, rows_of, partials),
            DType::BF16 => run_of::<bf16, CENTRE>(shape, piece, operands, rows_of, partials),
            _ => run_of::<f32, CENTRE>(shape, piece, operands, rows_of, partials),
        }
    }
}

/// [`run`] of elements of a type.
///
/// # Safety
/// As there; the operands have that type.
unsafe fn run_of<E: Narrow, const CENTRE: bool>(
    (rows, n): (usize, usize),
    piece: usize,
    [grad, x, out]: [Operand; 3],
    rows_of: [*const f32; 3],
    partials: Option<Shared<f32>>,
) {
    let in_place = out.data == grad.data || out.data == x.data;
    let streams = !in_place && stream::streams(3 * rows * n * size_of::<E>());
    let gradients = match (partials.is_some(), streams) {
        (true, true) => gradients::<E, CENTRE, true, true>,
        (true, false) => gradients::<E, CENTRE, true, false>,
        (false, true) => gradients::<E, CENTRE, false, true>,
        (false, false) => gradients::<E, CENTRE, false, false>,
    };
    let [grad, x, out] = [grad, x, out].map(|operand| Shared(operand.data.cast::<E>()));
    let rows_of = rows_of.map(|of| Shared(of.cast_mut()));
    parallel_for(rows.div_ceil(piece), 1, &|range| {
        let [weight, means, rstds] = rows_of.map(|of| of.get().cast_const());
        let inputs = Inputs { grad: grad.get(), x: x.get(), weight, means, rstds, n };
        let partials = partials.map_or(std::ptr::null_mut(), |partials| partials.get());
        // SAFETY: rows of the caller's; the partial sums of these pieces are nobody else's.
        unsafe { gradients(inputs, range.start * piece..rows.min(range.end * piece), out.get(), (partials, piece)) };
        if streams {
            stream::finish();
        }
    });
}

/// Where all rows begin, and what belongs to them.
#[derive(Clone, Copy)]
struct Inputs<E> {
    grad: *const E,
    x: *const E,
    weight: *const f32,
    means: *const f32,
    rstds: *const f32,
    n: usize,
}

impl<E: Narrow> Inputs<E> {
    /// A row.
    ///
    /// # Safety
    /// It is there.
    #[inline(always)]
    unsafe fn of(&self, row: usize) -> OfRow<E> {
        let Inputs { grad, x, weight, means, rstds, n } = *self;
        // SAFETY: the caller's row.
        let (mean, rstd) = unsafe { (*means.add(row), *rstds.add(row)) };
        OfRow { grad: grad.wrapping_add(row * n), x: x.wrapping_add(row * n), weight, mean, rstd }
    }
}

/// What the gradients of a row are made of.
#[derive(Clone, Copy)]
struct OfRow<E> {
    grad: *const E,
    x: *const E,
    weight: *const f32,
    mean: f32,
    rstd: f32,
}

impl<E: Narrow> OfRow<E> {
    /// Sixteen gradients, these times the weight, and normalised inputs.
    ///
    /// # Safety
    /// Those of the mask are there; the machine has AVX-512 (F, BW, VL).
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn sixteen(&self, at: isize, mask: __mmask16) -> [__m512; 3] {
        // SAFETY: the caller's elements.
        let (grad, x, weight) = unsafe {
            (
                E::some(self.grad.wrapping_offset(at), mask),
                E::some(self.x.wrapping_offset(at), mask),
                f32::some(self.weight.wrapping_offset(at), mask),
            )
        };
        let normal = _mm512_mul_ps(_mm512_sub_ps(x, _mm512_set1_ps(self.mean)), _mm512_set1_ps(self.rstd));
        [grad, _mm512_mul_ps(grad, weight), normal]
    }
}

/// The weighted gradients of a row and their products with the normalised inputs; and the shares of the weight's and the bias's
/// gradient, if there are `PARAMETERS`.
struct Shares<E, const PARAMETERS: bool> {
    of: OfRow<E>,
    parameters: [*mut f32; 2],
}

impl<E: Narrow, const PARAMETERS: bool> Terms<2> for Shares<E, PARAMETERS> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn add(&self, at: usize, mask: __mmask16, [sum, dot]: [__m512; 2]) -> [__m512; 2] {
        // SAFETY: the caller's elements, and partial sums of as many.
        unsafe {
            let [grad, weighted, normal] = self.of.sixteen(at as isize, mask);
            if PARAMETERS {
                let [weight, bias] = self.parameters.map(|of| of.wrapping_add(at));
                let more = _mm512_fmadd_ps(grad, normal, f32::some(weight, mask));
                _mm512_mask_storeu_ps(weight, mask, more);
                _mm512_mask_storeu_ps(bias, mask, _mm512_add_ps(grad, f32::some(bias, mask)));
            }
            // (What is not there is zero, and what is made of it may not be.)
            [_mm512_add_ps(weighted, sum), _mm512_mask3_fmadd_ps(weighted, normal, dot, mask)]
        }
    }
}

/// Results are the weighted gradients less their mean, if it counts, and less the normalised inputs times the mean of the
/// products, over the deviation.
#[derive(Clone, Copy)]
struct Gradients<E, const CENTRE: bool> {
    of: OfRow<E>,
    mean: f32,
    mean_of_products: f32,
}

impl<E: Narrow, const CENTRE: bool> Results for Gradients<E, CENTRE> {
    type Out = E;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn sixteen(&self, at: isize, mask: __mmask16) -> __m512 {
        // SAFETY: the caller's elements.
        let [_, weighted, normal] = unsafe { self.of.sixteen(at, mask) };
        let centred = if CENTRE { _mm512_sub_ps(weighted, _mm512_set1_ps(self.mean)) } else { weighted };
        let less = _mm512_sub_ps(centred, _mm512_mul_ps(normal, _mm512_set1_ps(self.mean_of_products)));
        _mm512_mul_ps(less, _mm512_set1_ps(self.of.rstd))
    }
}

/// The gradients of some rows, past the caches or not; `partials` are those of pieces of so many rows.
///
/// # Safety
/// As [`run`], of these rows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn gradients<E: Narrow, const CENTRE: bool, const PARAMETERS: bool, const PAST: bool>(
    inputs: Inputs<E>,
    rows: Range<usize>,
    out: *mut E,
    (partials, piece): (*mut f32, usize),
) {
    let n = inputs.n;
    let share = 1.0 / n as f64;
    // SAFETY: the caller's rows and partial sums.
    unsafe {
        let shares = |row: usize| {
            let weight = partials.wrapping_add(row / piece * 2 * n);
            Shares::<E, PARAMETERS> { of: inputs.of(row), parameters: [weight, weight.wrapping_add(n)] }
        };
        let gradients = |row: usize, n: usize, [sum, dot]: [f64; 2]| {
            let (mean, mean_of_products) = ((sum * share) as f32, (dot * share) as f32);
            let results = Gradients::<E, CENTRE> { of: inputs.of(row), mean, mean_of_products };
            Row::new(results, out.wrapping_add(row * inputs.n), n, PAST)
        };
        let mut joint = Joint::before(out.wrapping_add(rows.start * n));
        let mut before = gradients(rows.start, 0, [0.0; 2]);
        // (After the last row, no sums are taken. One call is a loop that is part of this one.)
        for row in rows.start..=rows.end {
            let (of, left) = if row < rows.end { (row, n) } else { (rows.start, 0) };
            let sums = sums_beside::<_, _, 2, PAST>(shares(of), left, before, &mut joint);
            if left > 0 {
                before = gradients(row, n, sums);
            }
        }
        if PAST {
            before.finish(&joint);
        }
    }
}
