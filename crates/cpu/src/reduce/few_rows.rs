//! Sums of a few long rows of `f32` with AVX2, for which compilers make vectors as short as those of the `f64` that they are
//! added to. The bits are those of [`super::columns`].

use super::Block;
use super::columns::{FEW, LOOK};
use std::arch::x86_64::*;

/// Columns whose sums are in registers at a time.
pub(super) const COLUMNS: usize = LOOK / 2;

/// The sums of eight columns as `f32`, of up to four rows as [`super::columns`] pairs them.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn eight(rows: &[*const f32], at: usize) -> __m256 {
    // SAFETY: the caller's columns.
    unsafe {
        match *rows {
            [a] => _mm256_loadu_ps(a.add(at)),
            [a, b] => _mm256_add_ps(_mm256_loadu_ps(a.add(at)), _mm256_loadu_ps(b.add(at))),
            [a, b, c] => _mm256_add_ps(eight(&[a, b], at), _mm256_loadu_ps(c.add(at))),
            [a, b, c, d, ..] => _mm256_add_ps(eight(&[a, b], at), eight(&[c, d], at)),
            [] => _mm256_setzero_ps(),
        }
    }
}

/// Adds eight columns of at most four rows to each of the sums.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn add_rows(rows: &[*const f32], at: usize, sums: &mut [__m256d; COLUMNS / 4]) {
    for (i, [low, high]) in sums.as_chunks_mut().0.iter_mut().enumerate() {
        // SAFETY: the caller's columns.
        let sum = unsafe { eight(rows, at + 8 * i) };
        *low = _mm256_add_pd(*low, _mm256_cvtps_pd(_mm256_castps256_ps128(sum)));
        *high = _mm256_add_pd(*high, _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(sum)));
    }
}

/// Gives the sums of `COLUMNS` columns at a time to `each`, with the first one's number; some may come twice. Says whether all
/// of them are finite; if one is not, some have to be added another way.
///
/// # Safety
/// The block has at most `FEW` rows of at least `COLUMNS` valid elements side by side, and the machine has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn sums(b: &Block, mut each: impl FnMut(usize, &[f64; COLUMNS])) -> bool {
    let x = b.data.cast::<f32>();
    let mut rows = [x; FEW];
    for (i, row) in rows[..b.rows].iter_mut().enumerate() {
        *row = x.wrapping_offset(i as isize * b.row_stride);
    }
    let (fours, rest) = rows[..b.rows].as_chunks::<4>();
    let mut differences = _mm256_setzero_pd();
    let mut done = 0;
    while done < b.cols {
        let at = done.min(b.cols - COLUMNS);
        let mut sums = [_mm256_setzero_pd(); COLUMNS / 4];
        let mut stored = [0f64; COLUMNS];
        // SAFETY: the block's columns, and as many numbers.
        unsafe {
            for four in fours {
                add_rows(four, at, &mut sums);
            }
            if !rest.is_empty() {
                add_rows(rest, at, &mut sums);
            }
            for (i, sum) in sums.into_iter().enumerate() {
                // Zero, unless the sum is infinite or not a number.
                differences = _mm256_or_pd(differences, _mm256_sub_pd(sum, sum));
                _mm256_storeu_pd(stored.as_mut_ptr().add(4 * i), sum);
            }
        }
        each(at, &stored);
        done = at + COLUMNS;
    }
    _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_ORD_Q>(differences, differences)) == 0b1111
}
