//! Rows of `f32` results that AVX-512 writes, a vector of which is a cache line.

use super::rows::LINE_BYTES;
use std::arch::x86_64::*;

/// Elements of a vector.
pub(crate) const WIDTH: usize = 16;

/// Which of the 16 elements from `at` on are among the first `n`.
#[inline]
pub(crate) fn mask(at: usize, n: usize) -> __mmask16 {
    ((1u32 << n.saturating_sub(at).min(WIDTH)) - 1) as __mmask16
}

/// The results of a row.
pub(crate) trait Results: Copy {
    /// 16 results from the `at`th on, for which elements of the mask alone are read: others may lie outside of the row.
    ///
    /// # Safety
    /// Those elements are there, and the machine has AVX-512 (F, DQ).
    unsafe fn sixteen(&self, at: isize, mask: __mmask16) -> __m512;
}

/// A row of `n` results to be written to `out`: from element `lead` on, `whole` of them as vectors.
#[derive(Clone, Copy)]
pub(crate) struct Row<R> {
    results: R,
    out: *mut f32,
    n: usize,
    lead: usize,
    whole: usize,
}

impl<R: Results> Row<R> {
    /// With vectors from the first cache line on, if results go past the caches.
    #[inline(always)]
    pub(crate) fn new(results: R, out: *mut f32, n: usize, past: bool) -> Self {
        let lead = if past { (out.addr().wrapping_neg() % LINE_BYTES / size_of::<f32>()).min(n) } else { 0 };
        Row { results, out, n, lead, whole: (n - lead) / WIDTH * WIDTH }
    }

    /// Writes `N` vectors of results, if there are as many when `done` are written.
    ///
    /// # Safety
    /// The row is there, at the beginning of a cache line if it goes `PAST` the caches; the machine has AVX-512 (F, DQ).
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(crate) unsafe fn write_some<const N: usize, const PAST: bool>(&self, done: usize) -> usize {
        if done + N * WIDTH > self.whole {
            return done;
        }
        // SAFETY: the caller's elements.
        unsafe { self.write::<PAST>(self.lead + done, self.lead + done + N * WIDTH) };
        done + N * WIDTH
    }

    /// Writes vectors of results from the `start`th up to `end`.
    ///
    /// # Safety
    /// As [`Row::write_some`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn write<const PAST: bool>(&self, start: usize, end: usize) {
        for at in (start..end).step_by(WIDTH) {
            // SAFETY: the caller's elements.
            unsafe {
                let results = self.results.sixteen(at as isize, !0);
                if PAST {
                    _mm512_stream_ps(self.out.add(at), results);
                } else {
                    _mm512_storeu_ps(self.out.add(at), results);
                }
            }
        }
    }

    /// Writes what is left when `done` results are written as vectors; of a row that goes `PAST` the caches, what shares a line with
    /// the next one's is left in the joint.
    ///
    /// # Safety
    /// As [`Row::write_some`], of [`WIDTH`] results at least; the row before it ends where this one begins, if its last results are
    /// in the joint.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(crate) unsafe fn write_rest<const PAST: bool>(&self, done: usize, joint: &mut Joint) {
        let (start, end) = (self.lead + done, self.lead + self.whole);
        // SAFETY: the caller's elements: as vectors, or those of a mask.
        unsafe {
            self.write::<PAST>(start, end);
            if !PAST {
                if end < self.n {
                    let mask = mask(end, self.n);
                    _mm512_mask_storeu_ps(self.out.add(end), mask, self.results.sixteen(end as isize, mask));
                }
                return;
            }
            if self.lead > 0 {
                let before = WIDTH - self.lead;
                let mask = u16::MAX << before;
                joint.line =
                    _mm512_mask_mov_ps(joint.line, mask, self.results.sixteen((before as isize).wrapping_neg(), mask));
                joint.put(self.out.wrapping_sub(before), WIDTH);
            }
            if end < self.n {
                joint.line = self.results.sixteen(end as isize, mask(end, self.n));
                joint.first = 0;
            }
        }
    }

    /// Writes what the joint has of this row, the last one.
    ///
    /// # Safety
    /// As [`Row::write_rest`], which was called.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(crate) unsafe fn finish(&self, joint: &Joint) {
        let end = self.lead + self.whole;
        if end < self.n {
            // SAFETY: the caller's elements. (What comes after them is somebody else's.)
            unsafe { joint.put(self.out.add(end), self.n - end) }
        }
    }
}

/// The results that share a cache line with those of another row, which are written together: what is stored as usual beside
/// what goes past the caches has its line read first, and stores behind it wait.
pub(crate) struct Joint {
    line: __m512,
    /// The first that are known: all but those of a row before the first, which are somebody else's.
    first: usize,
}

impl Joint {
    /// Before a first row at `out`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn before(out: *mut f32) -> Joint {
        Joint { line: _mm512_setzero_ps(), first: out.addr() % LINE_BYTES / size_of::<f32>() }
    }

    /// Writes those below `end` of the line that begins `at`.
    ///
    /// # Safety
    /// They are there.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn put(&self, at: *mut f32, end: usize) {
        // SAFETY: the caller's elements, at the beginning of a cache line.
        unsafe {
            if self.first == 0 && end == WIDTH {
                return _mm512_stream_ps(at, self.line);
            }
            // (Stores by a mask to a line that the first-level cache does not have take long.)
            let line = std::mem::transmute::<__m512, [f32; WIDTH]>(self.line);
            for (i, result) in line.into_iter().enumerate().take(end).skip(self.first) {
                *at.wrapping_add(i) = result;
            }
        }
    }
}
