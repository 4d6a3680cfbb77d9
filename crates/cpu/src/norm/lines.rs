//! Rows of results that AVX-512 writes by cache lines: one vector of `f32`, or two rounded to halves.

use super::rows::LINE_BYTES;
use crate::narrow::{Narrow, WIDTH};
use std::arch::x86_64::*;

/// Which of the elements of a vector or a line from `at` on are among the first `n`.
#[inline]
pub(crate) fn mask(at: usize, n: usize) -> __mmask32 {
    ((1u64 << n.saturating_sub(at).min(2 * WIDTH)) - 1) as __mmask32
}

/// The results of a row.
pub(crate) trait Results: Copy {
    /// What they are stored as.
    type Out: Narrow;

    /// 16 results from the `at`th on, for which elements of the mask alone are read: others may lie outside of the row.
    ///
    /// # Safety
    /// Those elements are there, and the machine has AVX-512 (F, BW, DQ, VL).
    unsafe fn sixteen(&self, at: isize, mask: __mmask16) -> __m512;

    /// A line of results, likewise.
    ///
    /// # Safety
    /// As [`Results::sixteen`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn line(&self, at: isize, mask: __mmask32) -> __m512i {
        // SAFETY: the caller's.
        unsafe {
            let first = self.sixteen(at, mask as __mmask16);
            let second = match const { Self::Out::OF_LINE > WIDTH } {
                true => self.sixteen(at + WIDTH as isize, (mask >> WIDTH) as __mmask16),
                false => first,
            };
            Self::Out::line([first, second])
        }
    }
}

/// A row of `n` results to be written to `out`: from element `lead` on, `whole` of them by lines.
#[derive(Clone, Copy)]
pub(crate) struct Row<R: Results> {
    results: R,
    out: *mut R::Out,
    n: usize,
    lead: usize,
    whole: usize,
}

impl<R: Results> Row<R> {
    const OF_LINE: usize = R::Out::OF_LINE;

    /// With lines from the first cache line on, if results go past the caches.
    #[inline(always)]
    pub(crate) fn new(results: R, out: *mut R::Out, n: usize, past: bool) -> Self {
        let lead = if past { (out.addr().wrapping_neg() % LINE_BYTES / size_of::<R::Out>()).min(n) } else { 0 };
        Row { results, out, n, lead, whole: (n - lead) / Self::OF_LINE * Self::OF_LINE }
    }

    /// Writes `N` results, whole lines, if there are as many when `done` are written.
    ///
    /// # Safety
    /// The row is there, at the beginning of a cache line if it goes `PAST` the caches; the machine has AVX-512 (F, BW, DQ, VL).
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(crate) unsafe fn write_some<const N: usize, const PAST: bool>(&self, done: usize) -> usize {
        if done + N > self.whole {
            return done;
        }
        // SAFETY: the caller's elements.
        unsafe { self.write::<PAST>(self.lead + done, self.lead + done + N) };
        done + N
    }

    /// Writes lines of results from the `start`th up to `end`.
    ///
    /// # Safety
    /// As [`Row::write_some`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn write<const PAST: bool>(&self, start: usize, end: usize) {
        for at in (start..end).step_by(Self::OF_LINE) {
            // SAFETY: the caller's elements.
            unsafe {
                let (line, to) = (self.results.line(at as isize, !0), self.out.add(at).cast());
                if PAST {
                    _mm512_stream_si512(to, line);
                } else {
                    _mm512_storeu_si512(to, line);
                }
            }
        }
    }

    /// Writes what is left when `done` results are written; of a row that goes `PAST` the caches, what shares a line with the next
    /// one's is left in the joint.
    ///
    /// # Safety
    /// As [`Row::write_some`], of a line's results at least if it goes past; the row before it ends where this one begins, if its
    /// last results are in the joint.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(crate) unsafe fn write_rest<const PAST: bool>(&self, done: usize, joint: &mut Joint<R::Out>) {
        let (start, end) = (self.lead + done, self.lead + self.whole);
        // SAFETY: the caller's elements: whole lines, or those of a mask.
        unsafe {
            self.write::<PAST>(start, end);
            if !PAST {
                if end < self.n {
                    let mask = mask(end, self.n);
                    R::Out::put_some(self.out.add(end), mask, self.results.line(end as isize, mask));
                }
                return;
            }
            if self.lead > 0 {
                let before = Self::OF_LINE - self.lead;
                let mask = u32::MAX << before;
                let lead = self.results.line((before as isize).wrapping_neg(), mask);
                joint.line = R::Out::mixed(joint.line, mask, lead);
                joint.put(self.out.wrapping_sub(before), Self::OF_LINE);
            }
            if end < self.n {
                joint.line = self.results.line(end as isize, mask(end, self.n));
                joint.first = 0;
            }
        }
    }

    /// Writes what the joint has of this row, the last one.
    ///
    /// # Safety
    /// As [`Row::write_rest`], which was called.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(crate) unsafe fn finish(&self, joint: &Joint<R::Out>) {
        let end = self.lead + self.whole;
        if end < self.n {
            // SAFETY: the caller's elements. (What comes after them is somebody else's.)
            unsafe { joint.put(self.out.add(end), self.n - end) }
        }
    }
}

/// The results that share a cache line with those of another row, which are written together: what is stored as usual beside
/// what goes past the caches has its line read first, and stores behind it wait.
pub(crate) struct Joint<E> {
    line: __m512i,
    /// The first that are known: all but those of a row before the first, which are somebody else's.
    first: usize,
    of: std::marker::PhantomData<E>,
}

impl<E: Narrow> Joint<E> {
    /// Before a first row at `out`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn before(out: *mut E) -> Self {
        let first = out.addr() % LINE_BYTES / size_of::<E>();
        Joint { line: _mm512_setzero_si512(), first, of: std::marker::PhantomData }
    }

    /// Writes those below `end` of the line that begins `at`.
    ///
    /// # Safety
    /// They are there.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn put(&self, at: *mut E, end: usize) {
        // SAFETY: the caller's elements, at the beginning of a cache line; as many of ours.
        unsafe {
            if self.first == 0 && end == E::OF_LINE {
                return _mm512_stream_si512(at.cast(), self.line);
            }
            // (Stores by a mask to a line that the first-level cache does not have take long.)
            let line = (&raw const self.line).cast::<E>();
            for i in self.first..end {
                *at.wrapping_add(i) = *line.add(i);
            }
        }
    }
}
