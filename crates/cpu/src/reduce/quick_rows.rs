//! Sums of the columns of four rows, by vectors chosen by hand: compilers make vectors as short as those of the `f64` that
//! such sums are added to. They are the sums that `quick_four` of the folds gives.

use super::columns::LOOK;
use crate::math::{Isa, Level};
use flambeau_base::f16;
use std::arch::x86_64::*;

/// Elements that are read as vectors of `f32`.
pub(super) trait Narrow: Copy {
    /// Sixteen of them.
    ///
    /// # Safety
    /// They are valid, and the machine has AVX-512 (F).
    unsafe fn sixteen(x: *const Self) -> __m512;
    /// Eight of them.
    ///
    /// # Safety
    /// They are valid, and the machine has AVX2 and F16C.
    unsafe fn eight(x: *const Self) -> __m256;
}

macro_rules! narrow {
    ($($T:ty: |$x:ident| $sixteen:expr, $eight:expr;)*) => { $(
        impl Narrow for $T {
            #[inline]
            #[target_feature(enable = "avx512f")]
            unsafe fn sixteen($x: *const $T) -> __m512 {
                // SAFETY: the caller's elements.
                unsafe { $sixteen }
            }
            #[inline]
            #[target_feature(enable = "avx2,f16c")]
            unsafe fn eight($x: *const $T) -> __m256 {
                // SAFETY: the caller's elements.
                unsafe { $eight }
            }
        }
    )* };
}
narrow! {
    f32: |x| _mm512_loadu_ps(x), _mm256_loadu_ps(x);
    f16: |x| _mm512_cvtph_ps(_mm256_loadu_si256(x.cast())), _mm256_cvtph_ps(_mm_loadu_si128(x.cast()));
}

/// Adds four rows of `LOOK` columns to their sums, where the level has such vectors. Says whether it did.
///
/// # Safety
/// The columns are valid, and the machine has `I`.
#[inline(always)]
pub(super) unsafe fn add<I: Isa, T: Narrow>(rows: [*const T; 4], sums: &mut [f64; LOOK]) -> bool {
    // SAFETY: the caller's.
    unsafe {
        match I::LEVEL {
            Level::Avx512 => add_avx512(rows, sums),
            Level::Avx2 => add_avx2(rows, sums),
            Level::Baseline => return false,
        }
    }
    true
}

/// # Safety
/// The columns are valid, and the machine has AVX-512 (F, DQ).
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn add_avx512<T: Narrow>([a, b, c, d]: [*const T; 4], sums: &mut [f64; LOOK]) {
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
unsafe fn add_avx2<T: Narrow>([a, b, c, d]: [*const T; 4], sums: &mut [f64; LOOK]) {
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
