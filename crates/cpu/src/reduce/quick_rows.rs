//! Sums and extremes of the columns of four rows, by vectors chosen by hand. Of sums, compilers make vectors as short as those
//! of the `f64` that such sums are added to; of few columns they make none. Sums are those that `quick_four` of the folds
//! gives.

use super::fold::Value;
use crate::math::{Isa, Level};
use crate::narrow::Narrow;
use flambeau_base::{DType, Element, f16};
use std::arch::x86_64::*;

/// Adds four rows of `W` columns of floating-point numbers to their sums, where the level has such vectors. Says whether it
/// did.
///
/// # Safety
/// The columns are valid, `W` is a multiple of 16, and the machine has `I`.
#[inline(always)]
pub(super) unsafe fn add<I: Isa, T: Element, const W: usize>(rows: [*const T; 4], sums: &mut [f64; W]) -> bool {
    // SAFETY: the caller's; numbers of a dtype are of that type.
    unsafe {
        match (T::DTYPE, I::LEVEL) {
            (DType::F32, Level::Avx512) => add_avx512::<f32, W>(rows.map(|row| row.cast()), sums),
            (DType::F16, Level::Avx512) => add_avx512::<f16, W>(rows.map(|row| row.cast()), sums),
            (DType::F64, Level::Avx512) => add_f64_avx512(rows.map(|row| row.cast()), sums),
            (DType::F32, Level::Avx2) => add_avx2::<f32, W>(rows.map(|row| row.cast()), sums),
            (DType::F16, Level::Avx2) => add_avx2::<f16, W>(rows.map(|row| row.cast()), sums),
            (DType::F64, Level::Avx2) => add_f64_avx2(rows.map(|row| row.cast()), sums),
            _ => return false,
        }
    }
    true
}

/// # Safety
/// The columns are valid, and the machine has AVX-512 (F, DQ).
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn add_avx512<T: Narrow, const W: usize>([a, b, c, d]: [*const T; 4], sums: &mut [f64; W]) {
    for (i, sums) in sums.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        // SAFETY: columns of the caller's.
        let [a, b, c, d] = unsafe {
            [T::sixteen(a.add(16 * i)), T::sixteen(b.add(16 * i)), T::sixteen(c.add(16 * i)), T::sixteen(d.add(16 * i))]
        };
        let four = _mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d));
        let halves = [_mm512_castps512_ps256(four), _mm512_extractf32x8_ps::<1>(four)];
        for (sums, half) in sums.as_chunks_mut::<8>().0.iter_mut().zip(halves) {
            let to = sums.as_mut_ptr();
            // SAFETY: eight sums.
            unsafe { _mm512_storeu_pd(to, _mm512_add_pd(_mm512_loadu_pd(to), _mm512_cvtps_pd(half))) };
        }
    }
}

/// # Safety
/// The columns are valid, and the machine has AVX2 and F16C.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn add_avx2<T: Narrow, const W: usize>([a, b, c, d]: [*const T; 4], sums: &mut [f64; W]) {
    for (i, sums) in sums.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        // SAFETY: columns of the caller's.
        let [a, b, c, d] =
            unsafe { [T::eight(a.add(8 * i)), T::eight(b.add(8 * i)), T::eight(c.add(8 * i)), T::eight(d.add(8 * i))] };
        let four = _mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d));
        let halves = [_mm256_castps256_ps128(four), _mm256_extractf128_ps::<1>(four)];
        for (sums, half) in sums.as_chunks_mut::<4>().0.iter_mut().zip(halves) {
            let to = sums.as_mut_ptr();
            // SAFETY: four sums.
            unsafe { _mm256_storeu_pd(to, _mm256_add_pd(_mm256_loadu_pd(to), _mm256_cvtps_pd(half))) };
        }
    }
}

/// # Safety
/// The columns are valid, and the machine has AVX-512 (F).
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn add_f64_avx512<const W: usize>([a, b, c, d]: [*const f64; 4], sums: &mut [f64; W]) {
    for (i, sums) in sums.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let at = |row: *const f64| row.wrapping_add(8 * i);
        // SAFETY: columns of the caller's, and as many sums.
        unsafe {
            let (low, high) = (_mm512_loadu_pd(at(a)), _mm512_loadu_pd(at(c)));
            let (low, high) = (_mm512_add_pd(low, _mm512_loadu_pd(at(b))), _mm512_add_pd(high, _mm512_loadu_pd(at(d))));
            let sum = _mm512_loadu_pd(sums.as_ptr());
            _mm512_storeu_pd(sums.as_mut_ptr(), _mm512_add_pd(sum, _mm512_add_pd(low, high)));
        }
    }
}

/// # Safety
/// The columns are valid, and the machine has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn add_f64_avx2<const W: usize>([a, b, c, d]: [*const f64; 4], sums: &mut [f64; W]) {
    for (i, sums) in sums.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let at = |row: *const f64| row.wrapping_add(4 * i);
        // SAFETY: columns of the caller's, and as many sums.
        unsafe {
            let (low, high) = (_mm256_loadu_pd(at(a)), _mm256_loadu_pd(at(c)));
            let (low, high) = (_mm256_add_pd(low, _mm256_loadu_pd(at(b))), _mm256_add_pd(high, _mm256_loadu_pd(at(d))));
            let sum = _mm256_loadu_pd(sums.as_ptr());
            _mm256_storeu_pd(sums.as_mut_ptr(), _mm256_add_pd(sum, _mm256_add_pd(low, high)));
        }
    }
}

/// Puts the largest of four rows of `W` columns of floating-point numbers, or the smallest, with the best so far, and NaN where
/// there is one, where the level has such vectors. Says whether it did.
///
/// # Safety
/// The columns are valid, `W` is a multiple of 16, and the machine has `I`.
#[inline(always)]
pub(super) unsafe fn extremes<I: Isa, T: Value, const W: usize, const MAX: bool>(
    rows: [*const T; 4],
    best: &mut [T; W],
) -> bool {
    let best: *mut [T; W] = best;
    // SAFETY: the caller's; numbers of a dtype are of that type.
    unsafe {
        match (T::DTYPE, I::LEVEL) {
            (DType::F32, Level::Avx2) => f32_avx2::<W, MAX>(rows.map(|row| row.cast()), &mut *best.cast()),
            (DType::F64, Level::Avx2) => f64_avx2::<W, MAX>(rows.map(|row| row.cast()), &mut *best.cast()),
            (DType::F32, Level::Avx512) => f32_avx512::<W, MAX>(rows.map(|row| row.cast()), &mut *best.cast()),
            (DType::F64, Level::Avx512) => f64_avx512::<W, MAX>(rows.map(|row| row.cast()), &mut *best.cast()),
            _ => return false,
        }
    }
    true
}

/// Declares [`extremes`] of numbers with vectors of so many; which of two is not a number, and how NaN is put there.
macro_rules! extremes {
    ($($name:ident: $features:literal $T:ty; $N:literal, $load:ident, $store:ident, $max:ident, $min:ident, $nan:expr,
       |$a:ident, $b:ident| $unordered:expr, |$x:ident, $y:ident| $either:expr,
       |$all:ident, $not:ident, $by:ident| $marked:expr;)*) => { $(
        /// # Safety
        /// The columns are valid, `W` is a multiple of 16, and the machine has these vectors.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $name<const W: usize, const MAX: bool>([a, b, c, d]: [*const $T; 4], best: &mut [$T; W]) {
            // Of two numbers, one of which is NaN, these give the second.
            let better = |a, b| if MAX { $max(a, b) } else { $min(a, b) };
            let unordered = |$a, $b| $unordered;
            let $by = $nan;
            for (i, best) in best.as_chunks_mut::<$N>().0.iter_mut().enumerate() {
                // SAFETY: columns of the caller's, and as many of the best.
                unsafe {
                    let at = $N * i;
                    let [a, b, c, d] = [$load(a.add(at)), $load(b.add(at)), $load(c.add(at)), $load(d.add(at))];
                    let four = better(better(a, b), better(c, d));
                    let ($x, $y) = (unordered(a, b), unordered(c, d));
                    let $not = $either;
                    let $all = better(four, $load(best.as_ptr()));
                    $store(best.as_mut_ptr(), $marked);
                }
            }
        }
    )* };
}
extremes! {
    f32_avx2: "avx2" f32; 8, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_max_ps, _mm256_min_ps, _mm256_set1_ps(f32::NAN),
        |a, b| _mm256_cmp_ps::<_CMP_UNORD_Q>(a, b), |x, y| _mm256_or_ps(x, y), |all, not, nan| _mm256_blendv_ps(all, nan, not);
    f64_avx2: "avx2" f64; 4, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_max_pd, _mm256_min_pd, _mm256_set1_pd(f64::NAN),
        |a, b| _mm256_cmp_pd::<_CMP_UNORD_Q>(a, b), |x, y| _mm256_or_pd(x, y), |all, not, nan| _mm256_blendv_pd(all, nan, not);
    f32_avx512: "avx512f" f32; 16, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_max_ps, _mm512_min_ps, _mm512_set1_ps(f32::NAN),
        |a, b| _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, b), |x, y| x | y, |all, not, nan| _mm512_mask_mov_ps(all, not, nan);
    f64_avx512: "avx512f" f64; 8, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_max_pd, _mm512_min_pd, _mm512_set1_pd(f64::NAN),
        |a, b| _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(a, b), |x, y| x | y, |all, not, nan| _mm512_mask_mov_pd(all, not, nan);
}
