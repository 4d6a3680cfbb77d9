//! Sums over a row that are taken while the results of another are written, with AVX-512: neither stores nor sums across lanes
//! are waited for, and stores past the caches have reads beside them.

use super::lines::{Joint, Results, Row, mask};
use super::rows::{LANES, total};
use crate::math::Avx512;
use crate::narrow::WIDTH;
use crate::processor::{Processor, processor};
use crate::reduce::Operand;
use flambeau_base::DType;
use std::arch::x86_64::*;

/// Vectors that are added side by side.
pub(super) const VECTORS: usize = LANES / WIDTH;

/// Elements of the rows that are computed so: some vectors, and not more than caches hold of a few rows.
const LENGTHS: std::ops::RangeInclusive<usize> = LANES..=1 << 14;

/// The same of `f32` by others than Intel's processors: on Zen 4, rows of 1500 took 1.6 times as long when the sums of the next were
/// taken before the results of one were written.
const LONGEST: usize = 1024;

/// Elements of a row that are added in `f32` before the sum goes on in `f64`.
pub(super) const BLOCK: usize = 4096;

/// Whether rows of `n` elements of these operands are computed so, on a machine that has AVX-512.
pub(crate) fn suits<const N: usize>(n: usize, operands: [Operand; N]) -> bool {
    let dtype = operands[0].dtype;
    let short = n <= LONGEST || dtype != DType::F32 || processor() == Processor::Intel;
    LENGTHS.contains(&n)
        && short
        && matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
        && operands.iter().all(|operand| operand.dtype == dtype && operand.data.addr().is_multiple_of(dtype.size()))
}

/// `K` sums over the elements of a row.
pub(crate) trait Terms<const K: usize> {
    /// Adds the terms of 16 elements from the `at`th on, those of the mask, to sums; others need not be there.
    ///
    /// # Safety
    /// Those elements are there, and the machine has AVX-512 (F, BW, DQ, VL).
    unsafe fn add(&self, at: usize, mask: __mmask16, sums: [__m512; K]) -> [__m512; K];
}

/// The sums of lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn totals<const K: usize>(sums: [[__m512; K]; VECTORS]) -> [f64; K] {
    let mut totals = [0.0; K];
    for (k, of_k) in totals.iter_mut().enumerate() {
        let lanes = [sums[0][k], sums[1][k], sums[2][k], sums[3][k]];
        // SAFETY: so many vectors are an array of their elements.
        *of_k = total::<Avx512, f32>(&unsafe { std::mem::transmute::<[__m512; VECTORS], [f32; LANES]>(lanes) });
    }
    totals
}

/// The sums over `n` elements, none or [`LANES`] at least, while a row is written, past the caches or not.
///
/// # Safety
/// The elements are there, and the row as [`Row::write_rest`] says; the machine has AVX-512 (F, BW, DQ, VL).
#[inline]
#[allow(clippy::needless_range_loop)] // An index keeps the loops' bounds constant.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(crate) unsafe fn sums_beside<T: Terms<K>, R: Results, const K: usize, const PAST: bool>(
    terms: T,
    n: usize,
    row: Row<R>,
    joint: &mut Joint<R::Out>,
) -> [f64; K] {
    let (full, mut at, mut done) = (n / LANES * LANES, 0, 0);
    let mut sums = [0.0; K];
    // (Everything is called at one place, or it would be no part of the loop.)
    // SAFETY: the caller's elements.
    unsafe {
        loop {
            let mut lanes = [[_mm512_setzero_ps(); K]; VECTORS];
            let end = full.min(at + BLOCK);
            while at < end {
                done = row.write_some::<LANES, PAST>(done);
                for v in 0..VECTORS {
                    let at = at + v * WIDTH;
                    lanes[v] = terms.add(at, !0, lanes[v]);
                }
                at += LANES;
            }
            let is_last = at == full;
            if is_last {
                for v in 0..VECTORS {
                    let at = full + v * WIDTH;
                    let mask = mask(at, n) as __mmask16;
                    if mask == 0 {
                        break;
                    }
                    lanes[v] = terms.add(at, mask, lanes[v]);
                }
            }
            // (Sums are scalars before anything is called, so that they stay in registers.)
            let more = totals(lanes);
            for k in 0..K {
                sums[k] += more[k];
            }
            if is_last {
                break;
            }
        }
        row.write_rest::<PAST>(done, joint);
        sums
    }
}
