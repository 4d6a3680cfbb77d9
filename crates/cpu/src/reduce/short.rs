//! Sums of many runs of contiguous elements with AVX-512: what short ones spend on the masks of their ends and on joining
//! their accumulators is shared by four. The bits are those of `fold_run`.

use super::Block;
use super::fold::{RUN, SET, Value};
use std::arch::x86_64::*;

/// Elements whose sums are `f64`.
pub(super) trait Addend: Value {
    /// The sums of the elements that lie `RUN` apart, of `SET` elements; those without a bit in `mask` are not read and count
    /// as zero.
    ///
    /// # Safety
    /// The machine has AVX-512 (F, DQ), and what is read must be valid.
    unsafe fn sums(x: *const Self, mask: u64) -> [__m512d; 2];
}

/// The part of a mask for the sixteen elements from `at` on.
#[inline(always)]
fn part(mask: u64, at: usize) -> u16 {
    (mask >> at) as u16
}

/// Adds four vectors that `$load` gives for elements `0`, `RUN`, ... in pairs, as `fold_run` does.
macro_rules! in_pairs {
    ($add:ident, |$at:ident| $load:expr) => {{
        let [a, b, c, d] = [
            {
                let $at = 0;
                $load
            },
            {
                let $at = RUN;
                $load
            },
            {
                let $at = 2 * RUN;
                $load
            },
            {
                let $at = 3 * RUN;
                $load
            },
        ];
        $add($add(a, b), $add(c, d))
    }};
}

impl Addend for f32 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn sums(x: *const f32, mask: u64) -> [__m512d; 2] {
        // SAFETY: only elements of the mask are read.
        let sums = unsafe { in_pairs!(_mm512_add_ps, |at| _mm512_maskz_loadu_ps(part(mask, at), x.wrapping_add(at))) };
        [_mm512_cvtps_pd(_mm512_castps512_ps256(sums)), _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(sums))]
    }
}

impl Addend for f64 {
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn sums(x: *const f64, mask: u64) -> [__m512d; 2] {
        // SAFETY: only elements of the mask are read.
        unsafe {
            let low = in_pairs!(_mm512_add_pd, |at| _mm512_maskz_loadu_pd(part(mask, at) as u8, x.wrapping_add(at)));
            let y = x.wrapping_add(8);
            let high = in_pairs!(_mm512_add_pd, |at| {
                _mm512_maskz_loadu_pd((part(mask, at) >> 8) as u8, y.wrapping_add(at))
            });
            [low, high]
        }
    }
}

/// The accumulators of a run of `n` elements, of which four are left; `last` is the mask of its last `SET` elements for those
/// that are in no whole set.
///
/// # Safety
/// As [`add_runs`].
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
unsafe fn lanes<T: Addend>(x: *const T, n: usize, last: u64) -> __m256d {
    let (mut low, mut high) = (_mm512_setzero_pd(), _mm512_setzero_pd());
    let mut at = 0;
    // SAFETY: elements of the run.
    unsafe {
        while at + SET <= n {
            let [a, b] = T::sums(x.wrapping_add(at), u64::MAX);
            (low, high) = (_mm512_add_pd(low, a), _mm512_add_pd(high, b));
            at += SET;
        }
        if at < n {
            let [a, b] = T::sums(x.wrapping_add(n).wrapping_sub(SET), last);
            (low, high) = (_mm512_add_pd(low, a), _mm512_add_pd(high, b));
        }
    }
    let all = _mm512_add_pd(low, high);
    _mm256_add_pd(_mm512_castpd512_pd256(all), _mm512_extractf64x4_pd::<1>(all))
}

/// Adds the sums of a block's runs from `first` on to their states, four at a time, until less than four are left or some have
/// to be added another way. Gives how many it did.
///
/// # Safety
/// The block's columns must be runs of valid elements, with a state for each, and the machine must have AVX-512 (F, DQ, VL).
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
pub(super) unsafe fn add_runs<T: Addend>(b: &Block, first: usize, states: *mut f64) -> usize {
    let n = b.rows;
    let last = u64::MAX << ((SET - n % SET) % SET);
    let mut j = first;
    while j + 4 <= b.cols {
        let x = b.data.cast::<T>().wrapping_offset(j as isize * b.col_stride);
        let y = x.wrapping_offset(b.col_stride);
        let z = y.wrapping_offset(b.col_stride);
        let w = z.wrapping_offset(b.col_stride);
        // SAFETY: four runs of the block, and their states.
        unsafe {
            let (p, q, r, s) = (lanes(x, n, last), lanes(y, n, last), lanes(z, n, last), lanes(w, n, last));
            // The first and third of a run's four with the second and fourth, and then those.
            let pq = _mm256_add_pd(_mm256_permute2f128_pd::<0x20>(p, q), _mm256_permute2f128_pd::<0x31>(p, q));
            let rs = _mm256_add_pd(_mm256_permute2f128_pd::<0x20>(r, s), _mm256_permute2f128_pd::<0x31>(r, s));
            let sums = _mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_hadd_pd(pq, rs));
            let infinite = _mm256_cmp_pd_mask::<_CMP_UNORD_Q>(_mm256_sub_pd(sums, sums), sums);
            // (Terms that were added as `f32` may have overflowed.)
            if T::NARROW && infinite != 0 {
                break;
            }
            let to = states.add(j);
            _mm256_storeu_pd(to, _mm256_add_pd(_mm256_loadu_pd(to), sums));
        }
        j += 4;
    }
    j - first
}
