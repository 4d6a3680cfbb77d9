//! Places of the extremes of columns, eight rows at a time, by vectors chosen by hand: compilers test every number for NaN by
//! itself.

use super::extreme::{NARROW, ROWS};
use super::fold::Value;
use crate::math::{Isa, Level};
use crate::prefetch::prefetch;
use flambeau_base::DType;
use std::arch::x86_64::*;

/// Compares columns of [`ROWS`] rows, from row `from` on, with the best so far: where a number is better, it is put there, and
/// its row's place. Asks for what is `ahead` elements further on. Stops where there is NaN; gives how many columns it did before,
/// [`NARROW`] at a time: none where the level has no such vectors.
///
/// # Safety
/// The rows must have as many columns as there are of the best and of places, and the machine `I`.
#[inline(always)]
pub(super) unsafe fn compare<I: Isa, T: Value, const MAX: bool>(
    (rows, ahead): ([*const T; ROWS], isize),
    from: usize,
    best: &mut [T],
    places: &mut [T::Place],
) -> usize {
    let rows = rows.map(|row| row.cast());
    let n = best.len().min(places.len());
    let (best, places) = (best.as_mut_ptr(), places.as_mut_ptr());
    // SAFETY: the caller's; numbers of a dtype are of that type, and places as wide.
    unsafe {
        match (T::DTYPE, I::LEVEL) {
            (DType::F32, Level::Avx2) => f32_avx2::<MAX>((rows, ahead), from, n, best.cast(), places.cast()),
            (DType::F64, Level::Avx2) => {
                f64_avx2::<MAX>((rows.map(|row| row.cast()), ahead), from, n, best.cast(), places.cast())
            }
            (DType::F32, Level::Avx512) => f32_avx512::<MAX>((rows, ahead), from, n, best.cast(), places.cast()),
            (DType::F64, Level::Avx512) => {
                f64_avx512::<MAX>((rows.map(|row| row.cast()), ahead), from, n, best.cast(), places.cast())
            }
            _ => 0,
        }
    }
}

/// Declares [`compare`] of numbers with vectors of so many.
macro_rules! compare {
    ($($name:ident: $features:literal $T:ty, $P:ty; $N:literal, $load:ident, $store:ident, $max:ident, $min:ident, $all:ident,
       |$a:ident, $b:ident| $greater:expr, $less:expr, $unordered:expr; |$x:ident, $y:ident| $either:expr, $any:expr;
       $load_places:ident, $store_places:ident, |$p:ident, $m:ident, $q:ident| $blend:expr;)*) => { $(
        /// # Safety
        /// There are `n` columns, numbers and places, and the machine has these vectors.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $name<const MAX: bool>(
            (rows, ahead): ([*const $T; ROWS], isize),
            from: usize,
            n: usize,
            best: *mut $T,
            places: *mut $P,
        ) -> usize {
            // Of two numbers, one of which is NaN, these give the second.
            let better = |a, b| if MAX { $max(a, b) } else { $min(a, b) };
            let beats = |$a, $b| if MAX { $greater } else { $less };
            let unordered = |$a, $b| $unordered;
            let either = |$x, $y| $either;
            let of_row: [_; ROWS] = std::array::from_fn(|i| $all((from + i) as $P));
            let n = n / NARROW * NARROW;
            for at in (0..n).step_by($N) {
                // SAFETY: columns of the caller's, and as many of the best and of places.
                unsafe {
                    let x = rows.map(|row| {
                        prefetch(row.wrapping_offset(ahead).wrapping_add(at).cast());
                        $load(row.add(at))
                    });
                    let nan = either(unordered(x[0], x[1]), unordered(x[2], x[3]));
                    let $x = either(nan, either(unordered(x[4], x[5]), unordered(x[6], x[7])));
                    if $any {
                        return at / NARROW * NARROW;
                    }
                    let mut b = $load(best.add(at));
                    let mut $p = $load_places(places.add(at).cast());
                    for i in 0..ROWS {
                        let ($m, $q) = (beats(x[i], b), of_row[i]);
                        b = better(x[i], b);
                        $p = $blend;
                    }
                    $store(best.add(at), b);
                    $store_places(places.add(at).cast(), $p);
                }
            }
            n
        }
    )* };
}
compare! {
    f32_avx2: "avx2" f32, i32; 8, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_max_ps, _mm256_min_ps, _mm256_set1_epi32,
        |a, b| _mm256_cmp_ps::<_CMP_GT_OQ>(a, b), _mm256_cmp_ps::<_CMP_LT_OQ>(a, b), _mm256_cmp_ps::<_CMP_UNORD_Q>(a, b);
        |x, y| _mm256_or_ps(x, y), _mm256_movemask_ps(x) != 0;
        _mm256_loadu_si256, _mm256_storeu_si256, |p, m, q| _mm256_blendv_epi8(p, q, _mm256_castps_si256(m));
    f64_avx2: "avx2" f64, i64; 4, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_max_pd, _mm256_min_pd, _mm256_set1_epi64x,
        |a, b| _mm256_cmp_pd::<_CMP_GT_OQ>(a, b), _mm256_cmp_pd::<_CMP_LT_OQ>(a, b), _mm256_cmp_pd::<_CMP_UNORD_Q>(a, b);
        |x, y| _mm256_or_pd(x, y), _mm256_movemask_pd(x) != 0;
        _mm256_loadu_si256, _mm256_storeu_si256, |p, m, q| _mm256_blendv_epi8(p, q, _mm256_castpd_si256(m));
    f32_avx512: "avx512f" f32, i32; 16, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_max_ps, _mm512_min_ps, _mm512_set1_epi32,
        |a, b| _mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, b), _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b),
            _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, b);
        |x, y| x | y, x != 0;
        _mm512_loadu_si512, _mm512_storeu_si512, |p, m, q| _mm512_mask_mov_epi32(p, m, q);
    f64_avx512: "avx512f" f64, i64; 8, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_max_pd, _mm512_min_pd, _mm512_set1_epi64,
        |a, b| _mm512_cmp_pd_mask::<_CMP_GT_OQ>(a, b), _mm512_cmp_pd_mask::<_CMP_LT_OQ>(a, b),
            _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(a, b);
        |x, y| x | y, x != 0;
        _mm512_loadu_si512, _mm512_storeu_si512, |p, m, q| _mm512_mask_mov_epi64(p, m, q);
}
