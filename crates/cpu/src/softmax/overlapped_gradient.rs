//! The gradients of softmax and its logarithm of rows of `f32` and of halves, with AVX-512: the sum of a row is taken while the
//! results of the row before are written.

use super::{RowFunction, TASK};
use crate::copy::{Shared, stream};
use crate::math::vectors::x86::exp_of_any_sixteen;
use crate::narrow::Narrow;
use crate::norm::beside::{Terms, sums_beside};
use crate::norm::lines::{Joint, Results, Row};
use crate::reduce::Operand;
use flambeau_base::parallel::parallel_for;
use flambeau_base::{DType, bf16, f16};
use std::arch::x86_64::*;
use std::marker::PhantomData;

/// Elements of the longest rows of `f32` in caches whose gradients of softmax, for which little is computed, are faster so: two
/// rows at a time take more than the first-level cache holds. (Rows of 4096 take 1.1 of the time; past the caches 0.8 to 0.9.)
const LONGEST: usize = 2048;

/// Whether rows of `n` elements are faster so.
pub(super) fn is_faster<F: RowFunction>(n: usize, dtype: DType, streams: bool) -> bool {
    F::OF_LOGARITHM || streams || dtype != DType::F32 || n <= LONGEST
}

/// The gradient of rows of `n` elements. Operands are the results' gradient, the results, and the input's gradient.
///
/// # Safety
/// The operands must be valid for the rows, and such as [it suits](crate::norm::beside::suits); the last may be one of the others.
/// The machine must have AVX-512 (F, BW, DQ, VL).
pub(super) unsafe fn run<F: RowFunction>(shape: (usize, usize), operands: [Operand; 3]) {
    // SAFETY: the caller's.
    unsafe {
        match operands[0].dtype {
            DType::F16 => run_of::<f16, F>(shape, operands),
            DType::BF16 => run_of::<bf16, F>(shape, operands),
            _ => run_of::<f32, F>(shape, operands),
        }
    }
}

/// [`run`] of elements of a type.
///
/// # Safety
/// As there; the operands have that type.
unsafe fn run_of<E: Narrow, F: RowFunction>((count, n): (usize, usize), [grad, y, out]: [Operand; 3]) {
    let in_place = out.data == grad.data || out.data == y.data;
    let streams = !in_place && stream::streams(3 * count * n * size_of::<E>());
    let rows = if streams { rows::<E, F, true> } else { rows::<E, F, false> };
    let [grad, y, out] = [grad, y, out].map(|operand| Shared(operand.data.cast::<E>()));
    parallel_for(count, (TASK / n).max(1), &|range| {
        let [grad, y, out] = [grad, y, out].map(|of| of.get().wrapping_add(range.start * n));
        let first = OfRow::<E, F> { grad, y, of: PhantomData };
        // SAFETY: some of the caller's rows.
        unsafe { rows(first, (range.len(), n), out) };
        if streams {
            stream::finish();
        }
    });
}

/// What the gradients of a row are made of. (The sum is over gradients, or over their products with softmax.)
#[derive(Clone, Copy)]
struct OfRow<E, F> {
    grad: *const E,
    y: *const E,
    of: PhantomData<F>,
}

impl<E: Narrow, F: RowFunction> Terms<1> for OfRow<E, F> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn add(&self, at: usize, mask: __mmask16, [sum]: [__m512; 1]) -> [__m512; 1] {
        // SAFETY: the caller's elements. (Others are zeros.)
        unsafe {
            let grad = E::some(self.grad.add(at), mask);
            match F::OF_LOGARITHM {
                true => [_mm512_add_ps(grad, sum)],
                false => [_mm512_fmadd_ps(grad, E::some(self.y.add(at), mask), sum)],
            }
        }
    }
}

/// The gradients of a row, of that sum.
#[derive(Clone, Copy)]
struct Gradients<E, F> {
    of: OfRow<E, F>,
    sum: f32,
}

impl<E: Narrow, F: RowFunction> Results for Gradients<E, F> {
    type Out = E;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn sixteen(&self, at: isize, mask: __mmask16) -> __m512 {
        let sum = _mm512_set1_ps(self.sum);
        // SAFETY: the caller's elements.
        let (grad, y) =
            unsafe { (E::some(self.of.grad.wrapping_offset(at), mask), E::some(self.of.y.wrapping_offset(at), mask)) };
        match F::OF_LOGARITHM {
            true => _mm512_fnmadd_ps(exp_of_any_sixteen(y), sum, grad),
            false => _mm512_mul_ps(_mm512_sub_ps(grad, sum), y),
        }
    }
}

/// The gradients of rows of `n` elements, one behind the other, past the caches or not.
///
/// # Safety
/// As [`run`], of these rows; [`stream::finish`] follows before others read what went past the caches.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn rows<E: Narrow, F: RowFunction, const PAST: bool>(
    first: OfRow<E, F>,
    (rows, n): (usize, usize),
    out: *mut E,
) {
    // SAFETY: the caller's rows.
    unsafe {
        let mut joint = Joint::before(out);
        let mut before = Row::new(Gradients { of: first, sum: 0.0 }, out, 0, PAST);
        // (After the last row, no sum is taken. One call is a loop that is part of this one.)
        for row in 0..=rows {
            let at = row * n;
            let of = OfRow { grad: first.grad.wrapping_add(at), y: first.y.wrapping_add(at), of: PhantomData };
            let left = if row < rows { n } else { 0 };
            let [sum] = sums_beside::<_, _, 1, PAST>(of, left, before, &mut joint);
            if left > 0 {
                before = Row::new(Gradients { of, sum: F::scale(sum) as f32 }, out.wrapping_add(at), n, PAST);
            }
        }
        if PAST {
            before.finish(&joint);
        }
    }
}
